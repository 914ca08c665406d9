package content_test

import (
	"html/template"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/content"
)

// allowed are the elements that may come out, and the attributes of each.
var allowed = map[string][]string{
	"div": {"class", "dir", "tabindex", "role", "aria-label"}, "p": {"class"}, "pre": {"class", "dir"}, "code": {}, "span": {"class", "dir"}, "bdi": {"class"},
	"a": {"href", "rel", "target", "download"}, "img": {"class", "src", "alt", "loading"}, "iframe": {"class", "src", "loading", "title"},
	"details": {"class", "open"}, "summary": {}, "table": {"class"}, "thead": {}, "tbody": {}, "tr": {}, "th": {"scope", "class", "dir", "align"}, "td": {"class", "dir", "align"},
	"h4": {}, "h5": {}, "h6": {}, "ul": {}, "ol": {"start"}, "li": {}, "blockquote": {}, "em": {}, "strong": {}, "del": {}, "br": {}, "hr": {},
}

// harmless fails the test unless a parser finds nothing in a page but what is
// allowed.
func harmless(t *testing.T, page template.HTML, href string) *html.Node {
	t.Helper()
	body := &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body}
	nodes, err := html.ParseFragment(strings.NewReader(string(page)), body)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		body.AppendChild(n)
	}
	for n := range body.Descendants() {
		switch n.Type {
		case html.TextNode:
		case html.ElementNode:
			attributes, ok := allowed[n.Data]
			if !ok {
				t.Fatalf("<%s> comes out in %s", n.Data, page)
			}
			for _, a := range n.Attr {
				if !slices.Contains(attributes, a.Key) {
					t.Fatalf("<%s %s=%q> comes out in %s", n.Data, a.Key, a.Val, page)
				}
				if own := href != "" && strings.HasPrefix(a.Val, href); (a.Key == "href" || a.Key == "src") && !own && (a.Key == "src" || !content.Outside(a.Val)) {
					t.Fatalf("<%s %s=%q> leads to no good in %s", n.Data, a.Key, a.Val, page)
				}
			}
			if n.Data == "a" && !strings.HasPrefix(attribute(n, "href"), "/own/") && attribute(n, "rel") != "noopener noreferrer nofollow" {
				t.Fatalf("a link without rel in %s", page)
			}
		default:
			t.Fatalf("a node of type %d comes out in %s", n.Type, page)
		}
	}
	return body
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func has(n *html.Node, element string) bool {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == element {
			return true
		}
	}
	return false
}

const href = "/own/file/1"

var own = content.Address{Show: href + "?inline=true", Keep: href}

var (
	png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	pdf = []byte("%PDF-1.7\n")
)

func TestAPartIsShownByWhatItIs(t *testing.T) {
	t.Parallel()
	typed := func(p a2a.Part, mediaType, name string) a2a.Part {
		p.MediaType, p.Filename = mediaType, name
		return p
	}
	for _, c := range []struct {
		name string
		part a2a.Part
		kind content.Kind
		want []string // in the text
		tag  string   // that is there
		not  string   // that is not
	}{
		{"text", a2a.Text("a < b\nsecond"), content.Text, []string{"a < b\nsecond"}, "pre", "table"},
		{"text that begins with a line end", a2a.Text("\n\nlate"), content.Text, []string{"\n\nlate"}, "pre", ""},
		{"Markdown by type", typed(a2a.Text("*so*"), "text/markdown", ""), content.Markdown, []string{"so"}, "em", ""},
		{"Markdown by its look", a2a.Text("# Offer\n\n- one\n- two"), content.Markdown, []string{"Offer", "one"}, "li", "h1"},
		{"a table of Markdown", a2a.Text("| a | b |\n|---|--:|\n| 1 | 2 |"), content.Markdown, []string{"1"}, "table", ""},
		{"an order number is no emphasis", a2a.Text("PO_2026_0184 for BRG_0042"), content.Text, []string{"PO_2026_0184 for BRG_0042"}, "pre", "em"},
		{"JSON", a2a.Data(a2a.JSON(`{"sku":"BRG-0042","qty":400}`)), content.JSON, []string{"2 members", "sku: BRG-0042", "qty: 400"}, "details", ""},
		{"JSON in a text", typed(a2a.Text(`[1,2]`), "application/json", ""), content.JSON, []string{"2 values"}, "details", ""},
		{"broken JSON", typed(a2a.Text(`{"a":`), "application/json", ""), content.JSON, []string{`{"a":`}, "pre", "details"},
		{"comma separated", typed(a2a.Raw([]byte("sku,qty\nBRG-0042,400\n"), "", "stock.csv"), "", "stock.csv"), content.Table, []string{"sku", "BRG-0042", "stock.csv", "Download"}, "td", ""},
		{"semicolons", typed(a2a.Text("sku;qty\nBRG;1,5"), "text/csv", ""), content.Table, []string{"1,5"}, "td", ""},
		{"HTML", typed(a2a.Text("<script>alert(1)</script>"), "text/html", "x.html"), content.Source, []string{"<script>alert(1)</script>", "not run"}, "pre", "script"},
		{"SVG", typed(a2a.Raw([]byte(`<svg onload="alert(1)"/>`), "image/svg+xml", "x.svg"), "image/svg+xml", "x.svg"), content.Source, []string{`<svg onload="alert(1)"/>`}, "pre", "svg"},
		{"an image", a2a.Raw(png, "image/png", "dock.png"), content.Image, []string{"dock.png"}, "img", ""},
		{"an image that says it is a page", a2a.Raw(png, "text/html", "dock.html"), content.Image, nil, "img", ""},
		{"a page that says it is an image", a2a.Raw([]byte("<html><script>1</script>"), "image/png", "x.png"), content.File, []string{"x.png"}, "a", "img"},
		{"PDF", a2a.Raw(pdf, "application/pdf", "order.pdf"), content.PDF, []string{"order.pdf"}, "iframe", "object"},
		{"bytes", a2a.Raw([]byte{0, 1, 2}, "application/zip", "a.zip"), content.File, []string{"a.zip", "application/zip", "3 B", "Download"}, "a", "pre"},
		{"an address", a2a.URL("https://files.example/a.pdf", "application/pdf", "a.pdf"), content.Link, []string{"a.pdf", "https://files.example/a.pdf"}, "a", ""},
		{"an address that runs", a2a.URL("javascript:alert(1)", "", "a"), content.Link, []string{"javascript:alert(1)"}, "code", "a"},
		{"a name that turns", a2a.Raw([]byte{0}, "", "gnp.\u202eexe.scr"), content.File, []string{`gnp.\u202eexe.scr`}, "bdi", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if kind := content.KindOf(&c.part); kind != c.kind {
				t.Errorf("it is a %v, want a %v", kind, c.kind)
			}
			body := harmless(t, content.Part(&c.part, own), href)
			for _, want := range c.want {
				if !strings.Contains(textOf(body), want) {
					t.Errorf("%q is missing in %q", want, textOf(body))
				}
			}
			if !has(body, c.tag) || c.not != "" && has(body, c.not) {
				t.Errorf("want <%s> and no <%s>: %s", c.tag, c.not, content.Part(&c.part, own))
			}
		})
	}
}

func TestMarkdownDoesNoHarm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"a script", "<script>alert(1)</script>", "<script>alert(1)</script>"},
		{"a script within a line", "see <img src=x onerror=alert(1)> there", "<img src=x onerror=alert(1)>"},
		{"a comment", "<!-- hidden -->", "<!-- hidden -->"},
		{"a link that runs", "[here](javascript:alert(1))", "here (javascript:alert(1))"},
		{"the same in disguise", "[here](java&#115;cript:alert(1))", "here"},
		{"data", "[here](data:text/html;base64,PHNjcmlwdD4=)", "here"},
		{"our own pages", "[here](/console/logout)", "here (/console/logout)"},
		{"no scheme", "[here](//evil.example/)", "here"},
		{"an image", "![seen](https://evil.example/pixel.png)", "Image: seen"},
		{"an image that runs", `![seen](javascript:alert(1) "x")`, "Image: seen"},
		{"an address in brackets", "<javascript:alert(1)>", "javascript:alert(1)"},
		{"a title that breaks out", `[a](https://a.example "\" onmouseover=alert(1) x=\"")`, "a"},
		{"attributes of a heading", "# A {onclick=alert(1)}", "A {onclick=alert(1)}"},
		{"the language of a fence", "```\" onclick=alert(1)\nx\n```", "x"},
		{"a name with a NUL", "a\x00b <b\x00>", "b"},
		{"a good link", "[site](https://supplier.example/x?a=1&b=2)", "site"},
		{"a bare address", "see https://supplier.example/x.", "https://supplier.example/x"},
		{"an address for mail", "<sales@supplier.example>", "sales@supplier.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body := harmless(t, content.FormatMarkdown(c.text), "")
			if !strings.Contains(textOf(body), c.want) {
				t.Errorf("%q is missing in %s", c.want, content.FormatMarkdown(c.text))
			}
			if good := strings.Contains(c.text, "supplier.example"); good != has(body, "a") && !strings.Contains(c.text, "evil") && !strings.Contains(c.text, "a.example") {
				t.Errorf("a link: %v, want %v: %s", has(body, "a"), good, content.FormatMarkdown(c.text))
			}
		})
	}
}

// A text of a few thousand bytes must not keep a page from coming.
func TestHostileTextsTakeNoTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, unit string }{
		{"quotes", "> "},
		{"quotes without spaces", ">"},
		{"lists", "- "},
		{"brackets", "["},
		{"closing brackets", "a]"},
		{"images", "![a]("},
		{"stars", "*a **"},
		{"underscores", "_a_"},
		{"backticks", "a`` `"},
		{"tables", "|a"},
		{"rows of a table", "|-|-|\n"},
		{"entities", "&#x;"},
		{"runs", "a*_"},
		{"runs of another kind", "*a_ "},
		{"numbers", "1. "},
		{"more numbers", "1) "},
		{"angles", "<a "},
		{"comments", "<!--"},
		{"instructions", "<?"},
		{"headings", "# \n"},
		{"definitions", "[a]: /x\n"},
		{"spaces", " "},
		{"tilde", "~~a"},
		{"addresses", "http://a.b"},
		{"links in links", "[a](<b"},
		{"nested lists", "- a\n  - b\n    - c\n      - d\n"},
		{"empty quotes", ">\n"},
		{"line ends", "\\\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Repeat(c.unit, 64<<10/len(c.unit))
			page := content.FormatMarkdown(text)
			if len(page) > 100*len(text) {
				t.Errorf("%d bytes become %d", len(text), len(page))
			}
			harmless(t, page, "")
		})
	}
}

// A row of a table is filled up to the width of its head: what is short can be a
// page that no memory holds.
func TestATableIsNotLargerThanItsText(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"wide and long": strings.Repeat("|a", 7900) + "|\n" + strings.Repeat("|-", 7900) + "|\n" + strings.Repeat("a\n", 16000),
		"square":        strings.Repeat("|a", 1000) + "|\n" + strings.Repeat("|-", 1000) + "|\n" + strings.Repeat("a\n", 1000),
		"many":          strings.Repeat(strings.Repeat("|a", 150)+"|\n"+strings.Repeat("|-", 150)+"|\n"+strings.Repeat("a\n", 130)+"\n", 60),
	} {
		page := content.FormatMarkdown(text)
		if len(page) > 1<<20 {
			t.Errorf("%s: %d bytes become %d", name, len(text), len(page))
		}
	}
	if page := content.FormatMarkdown("| a | b |\n|---|---|\n" + strings.Repeat("| 1 | 2 |\n", 500)); strings.Count(string(page), "<td") != 1000 {
		t.Error("a table of five hundred rows is none")
	}
}

func TestATreeOfJSONCountsAndBounds(t *testing.T) {
	t.Parallel()
	body := harmless(t, content.Tree(`{"a":[1,{"b":null},"x"],"a":{"c":{}},"":true,"e":[[]]}`), "")
	for _, want := range []string{"4 members", "a: 3 values", "1: 1 member", "b: null", "c: 0 members", `"": true`, "e: 1 value", "0: 0 values"} {
		if !strings.Contains(textOf(body), want) {
			t.Errorf("%q is missing in %q", want, textOf(body))
		}
	}
	for name, value := range map[string]string{
		"many": "[" + strings.Repeat("1,", 100_000) + "1]", "deep": strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000),
		"wide": "[" + strings.Repeat(`{"a":[1]},`, 5000) + "1]",
	} {
		page := content.Tree(value)
		if body := harmless(t, page, ""); !strings.Contains(textOf(body), "Only the first 2000 values") {
			t.Errorf("%s: nothing says that some are missing", name)
		}
		if len(page) > 1<<20 {
			t.Errorf("%s: the page has %d bytes", name, len(page))
		}
	}
	for _, no := range []string{"", " ", "{} {}", "{", "]", "nul", `{"a":1,}`} {
		if body := harmless(t, content.Tree(no), ""); has(body, "details") {
			t.Errorf("%q became a tree", no)
		}
	}
}

func TestOutside(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"https://a.example/x": true, "HTTP://A.example": true, "mailto:a@b.example": true,
		"javascript:alert(1)": false, "JaVaScRiPt:alert(1)": false, " https://a.example": false, "java\nscript:alert(1)": false, "data:text/html,x": false,
		"//a.example": false, "/console/logout": false, "": false, "vbscript:x": false, "https:": false, "https:\\\\a.example": false, "blob:https://a.example/1": false, "file:///etc/passwd": false,
	} {
		if got := content.Outside(address); got != want {
			t.Errorf("Outside(%q) = %v", address, got)
		}
	}
}

func FuzzPart(f *testing.F) {
	for _, text := range []string{"# a\n\n- b\n- c", "<script>", "[a](javascript:b)", `{"a":[1]}`, "a,b\n1,\"2", "![a](b)", "\x00\xff", "| a |\n|---|\n| <b> |", "&lt;script&gt;", "a\n\n    <pre>\n"} {
		for _, mediaType := range []string{"", "text/markdown", "text/csv", "application/json", "text/html"} {
			f.Add([]byte(text), mediaType, "name.md")
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, mediaType, name string) {
		for _, p := range []a2a.Part{
			{Kind: a2a.PartText, Text: string(b), MediaType: mediaType, Filename: name},
			{Kind: a2a.PartRaw, Raw: b, MediaType: mediaType, Filename: name},
			{Kind: a2a.PartURL, URL: string(b), MediaType: mediaType, Filename: name},
			{Kind: a2a.PartData, Data: b, MediaType: mediaType, Filename: name},
		} {
			harmless(t, content.Part(&p, own), href)
		}
		harmless(t, content.FormatMarkdown(string(b)), "")
	})
}
