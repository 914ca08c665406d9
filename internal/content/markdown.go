package content

import (
	"html/template"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// FormatMarkdown returns Markdown as HTML. HTML in it is shown as text, links go
// to http, https and mailto alone, and images are links.
func FormatMarkdown(text string) template.HTML {
	w := &writer{}
	w.markdown(text)
	return w.html()
}

// markdownLine begins a heading, a fence or a row of a table; listLine an item
// of a list.
var (
	markdownLine = regexp.MustCompile("(?m)^(#{1,6} \\S|```|\\|.*\\|\\s*$)")
	listLine     = regexp.MustCompile(`(?m)^\s{0,3}([-*+]|\d{1,3}[.)]) \S`)
	strong       = regexp.MustCompile(`\*\*[^\s*][^*\n]*\*\*`)
)

// markdownLike reports whether a text of no media type is meant as Markdown. Few
// agents say so.
func markdownLike(text string) bool {
	text = clip(text, 8<<10)
	return markdownLine.MatchString(text) || strong.MatchString(text) || len(listLine.FindAllStringIndex(text, 2)) == 2
}

// IsMarkdown reports whether a text of no media type is meant as Markdown, and is not
// longer than what is read as such.
func IsMarkdown(text string) bool { return len(text) <= maxMarkdown && markdownLike(text) }

// Bounds of what takes the parser more than time by the length of a text. What
// somebody wrote to be read is far below them.
const (
	maxNesting  = 40     // quotes and lists that begin in one line: time by the square
	maxBrackets = 1000   // that could begin a link or an element, for which all that follows is looked through
	maxRuns     = 4000   // of emphasis, and of code: time by the square
	maxCells    = 20_000 // of tables, whose rows are filled up to the width of their heads
)

// laborious reports whether the parser would have more to do with a text than its
// length says.
func laborious(text string) bool {
	for line := range strings.Lines(text) {
		markers, spaces := 0, 0
	marks:
		for i := range len(line) {
			switch line[i] {
			case '>', '-', '*', '+', '.', ')':
				markers++
			case ' ', '\t':
				spaces++
			case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			default:
				break marks
			}
		}
		if rule := strings.Trim(line, "-*+ \t\r\n") == "" && !strings.Contains(line, ">"); markers > maxNesting && !rule || spaces > 200 {
			return true
		}
	}
	runs := strings.Count(text, "*") + strings.Count(text, "_") + strings.Count(text, "~") + strings.Count(text, "`")
	return strings.Count(text, "[") > maxBrackets || strings.Count(text, "<") > maxBrackets || runs > maxRuns || cells(text) > maxCells
}

// cells is how many cells the tables of a text can have: a table goes on to the
// next line that is empty.
func cells(text string) int {
	all, widest, lines := 0, 0, 0
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			all, widest, lines = all+widest*lines, 0, 0
			continue
		}
		lines++
		widest = max(widest, strings.Count(line, "|"))
	}
	return all + widest*lines
}

func (w *writer) markdown(text string) {
	if len(text) > maxMarkdown || laborious(text) {
		w.text(text)
		return
	}
	var b strings.Builder
	if err := converter().Convert([]byte(strings.ToValidUTF8(text, "\uFFFD")), &b); err != nil {
		w.text(text)
		return
	}
	w.open("div", "class", "markdown", "dir", "auto")
	w.b.WriteString(b.String())
	w.close("div")
}

// converter is a Markdown with tables and strike-through, whose raw HTML, links
// and images are those of this package.
var converter = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Strikethrough),
		goldmark.WithParserOptions(parser.WithInlineParsers(
			util.Prioritized(extension.NewLinkifyParser(extension.WithLinkifyAllowedProtocols([]string{"http:", "https:"})), 999),
		)),
		goldmark.WithRendererOptions(html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(outside{}, 100))),
	)
})

// outside renders what an author could do harm with.
type outside struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (outside) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHTMLBlock, htmlBlock)
	r.Register(ast.KindRawHTML, rawHTML)
	r.Register(ast.KindLink, link)
	r.Register(ast.KindAutoLink, autoLink)
	r.Register(ast.KindImage, image)
	r.Register(ast.KindHeading, heading)
	r.Register(ast.KindFencedCodeBlock, codeBlock)
	r.Register(ast.KindCodeBlock, codeBlock)
}

func htmlBlock(b util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.HTMLBlock)
	if !entering {
		return ast.WalkContinue, nil
	}
	w := &writer{}
	w.open("pre", "class", "part-source")
	w.b.WriteString("\n")
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		w.string(withoutNUL(string(line.Value(source))))
	}
	if n.HasClosure() {
		w.string(withoutNUL(string(n.ClosureLine.Value(source))))
	}
	w.close("pre")
	_, err := b.WriteString(w.b.String())
	return ast.WalkSkipChildren, err
}

func rawHTML(b util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkSkipChildren, nil
	}
	n := node.(*ast.RawHTML)
	w := &writer{}
	w.open("code")
	for i := range n.Segments.Len() {
		segment := n.Segments.At(i)
		w.string(withoutNUL(string(segment.Value(source))))
	}
	w.close("code")
	_, err := b.WriteString(w.b.String())
	return ast.WalkSkipChildren, err
}

func link(b util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	return ast.WalkContinue, anchor(b, string(node.(*ast.Link).Destination), entering)
}

// anchor writes the beginning or the end of a link, or of a text that may not be
// one.
func anchor(b util.BufWriter, address string, entering bool) error {
	w := &writer{}
	switch ok := Outside(address); {
	case ok && entering:
		w.anchor(address)
	case ok:
		w.close("a")
	case entering:
		w.open("span", "class", "no-link")
	default:
		w.string(" (" + Visible(clip(address, 200)) + ")")
		w.close("span")
	}
	_, err := b.WriteString(w.b.String())
	return err
}

func autoLink(b util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*ast.AutoLink)
	address, label := string(n.URL(source)), string(n.Label(source))
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(address), "mailto:") {
		address = "mailto:" + address
	}
	w := &writer{}
	if Outside(address) {
		w.anchor(address)
		w.string(Visible(label))
		w.close("a")
	} else {
		w.string(Visible(label))
	}
	_, err := b.WriteString(w.b.String())
	return ast.WalkContinue, err
}

// image writes a link to an image: a page that loads what an agent names would
// tell that agent who reads it.
func image(b util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*ast.Image)
	label := "Image: " + plain(n, source)
	address := string(n.Destination)
	w := &writer{}
	if Outside(address) {
		w.anchor(address)
		w.string(label)
		w.close("a")
	} else {
		w.string(label)
	}
	_, err := b.WriteString(w.b.String())
	return ast.WalkSkipChildren, err
}

// plain is the text below a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return Visible(b.String())
}

// heading stands below those of the page.
func heading(b util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	tag := "h" + strconv.Itoa(min(node.(*ast.Heading).Level+3, 6)) + ">"
	if entering {
		_, err := b.WriteString("<" + tag)
		return ast.WalkContinue, err
	}
	_, err := b.WriteString("</" + tag)
	return ast.WalkContinue, err
}

func codeBlock(b util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	w := &writer{}
	w.open("pre", "class", "part-source")
	w.open("code")
	for i := range node.Lines().Len() {
		line := node.Lines().At(i)
		w.string(withoutNUL(string(line.Value(source))))
	}
	w.close("code")
	w.close("pre")
	_, err := b.WriteString(w.b.String())
	return ast.WalkSkipChildren, err
}
