package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

var (
	//go:embed page.html
	pageText string
	//go:embed site.css
	styles []byte

	pageTemplate = template.Must(template.New("page").Parse(pageText))
)

// index is the page that names all others in their order; the navigation is made of it.
const index = "docs/README.md"

// maxFile is how large a file may be that is shown because a page links to it.
const maxFile = 1 << 20

// site is the pages to be written, by the path of what they are made of, relative to
// the root of the project and with slashes.
type site struct {
	root  fs.FS
	pages map[string]*page
	nav   []section
}

// page is one page of the site.
type page struct {
	source string // such as docs/inbox.md, examples/demo/story.go or examples/demo
	to     string // such as inbox.html
	title  string
	body   template.HTML
}

// section is a part of the navigation.
type section struct {
	Title string
	Links []entry
}

// entry leads to a page.
type entry struct {
	Name, To string
	Here     bool
}

// read renders the documents of the project, and whatever they link to.
func read(root string) (*site, error) {
	s := &site{root: os.DirFS(root), pages: map[string]*page{}}
	var queue []string
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "examples/README.md", "examples/*/README.md"} {
		names, err := fs.Glob(s.root, pattern)
		if err != nil {
			return nil, err
		}
		queue = append(queue, names...)
	}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if s.pages[name] != nil {
			continue
		}
		p, links, err := s.render(name)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
		s.pages[name] = p
		queue = append(queue, links...)
	}
	if len(s.nav) == 0 {
		return nil, fmt.Errorf("%s names no pages", index)
	}
	return s, nil
}

// render makes the page of a document, of another file, or of a directory. It returns
// what the page links to, which are sources of pages too.
func (s *site) render(name string) (*page, []string, error) {
	info, err := fs.Stat(s.root, name)
	switch {
	case err != nil:
		return nil, nil, err
	case info.IsDir():
		return s.renderFolder(name)
	case path.Ext(name) == ".md":
		return s.renderDocument(name)
	}
	return s.renderFile(name, info)
}

func (s *site) renderDocument(name string) (*page, []string, error) {
	source, err := fs.ReadFile(s.root, name)
	if err != nil {
		return nil, nil, err
	}
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	doc := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids{}))))
	p := &page{source: name, to: address(name), title: path.Base(name)}
	if h, ok := doc.FirstChild().(*ast.Heading); ok {
		p.title = plain(h, source)
	}
	links, err := s.rewrite(doc, p)
	if err != nil {
		return nil, nil, err
	}
	removeComments(doc)
	if name == index {
		s.nav = navigation(doc, source)
	}
	var out bytes.Buffer
	if err := md.Renderer().Render(&out, source, doc); err != nil {
		return nil, nil, err
	}
	p.body = template.HTML(out.String()) //nolint:gosec // of our own documents, without their HTML
	return p, links, nil
}

// rewrite points the links of a document to the pages of what they lead to.
func (s *site) rewrite(doc ast.Node, p *page) (links []string, err error) {
	err = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		link, ok := n.(*ast.Link)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		to := string(link.Destination)
		if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") || strings.HasPrefix(to, "#") {
			return ast.WalkContinue, nil
		}
		target, anchor, _ := strings.Cut(to, "#")
		target = s.resolve(path.Join(path.Dir(p.source), target))
		if !fs.ValidPath(target) {
			return ast.WalkStop, fmt.Errorf("%s leads out of the project", to)
		}
		links = append(links, target)
		link.Destination = []byte(relative(p.to, address(target)))
		if anchor != "" {
			link.Destination = append(link.Destination, "#"+anchor...)
		}
		return ast.WalkContinue, nil
	})
	return links, err
}

// removeComments takes out the comments that mark what is generated.
func removeComments(doc ast.Node) {
	for n := doc.FirstChild(); n != nil; {
		next := n.NextSibling()
		if html, ok := n.(*ast.HTMLBlock); ok && html.HTMLBlockType == ast.HTMLBlockType2 {
			doc.RemoveChild(doc, n)
		}
		n = next
	}
}

// resolve returns the README of a directory that has one.
func (s *site) resolve(name string) string {
	if name == "docs" {
		return index
	}
	if _, err := fs.Stat(s.root, path.Join(name, "README.md")); err == nil {
		return path.Join(name, "README.md")
	}
	return name
}

// renderFile shows a file that is no document.
func (s *site) renderFile(name string, info fs.FileInfo) (*page, []string, error) {
	if info.Size() > maxFile {
		return nil, nil, fmt.Errorf("%d bytes are too many", info.Size())
	}
	content, err := fs.ReadFile(s.root, name)
	if err != nil {
		return nil, nil, err
	}
	if !utf8.Valid(content) {
		return nil, nil, fmt.Errorf("it is no text")
	}
	body := "<h1>" + template.HTMLEscapeString(name) + "</h1>\n<pre><code>" + template.HTMLEscapeString(string(content)) + "</code></pre>\n"
	return &page{source: name, to: address(name), title: name, body: template.HTML(body)}, nil, nil //nolint:gosec // escaped
}

// renderFolder names what is in a directory that has no README. Documents in it are
// linked; what else there is can be seen in the project.
func (s *site) renderFolder(name string) (*page, []string, error) {
	entries, err := fs.ReadDir(s.root, name)
	if err != nil {
		return nil, nil, err
	}
	p := &page{source: name, to: address(name), title: name}
	var links []string
	var body strings.Builder
	fmt.Fprintf(&body, "<h1>%s</h1>\n<ul>\n", template.HTMLEscapeString(name))
	for _, e := range entries {
		label := template.HTMLEscapeString(e.Name())
		if target := path.Join(name, e.Name()); path.Ext(target) == ".md" {
			links = append(links, target)
			label = `<a href="` + template.HTMLEscapeString(relative(p.to, address(target))) + `">` + label + `</a>`
		}
		fmt.Fprintf(&body, "<li>%s</li>\n", label)
	}
	body.WriteString("</ul>\n")
	p.body = template.HTML(body.String()) //nolint:gosec // escaped
	return p, links, nil
}

// navigation is the links to pages in the lists below the headings of the index, without
// those to parts of pages.
func navigation(doc ast.Node, source []byte) (nav []section) {
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				nav = append(nav, section{Title: plain(n, source)})
			}
		case *ast.List:
			if len(nav) == 0 {
				continue
			}
			at := &nav[len(nav)-1]
			for item := n.FirstChild(); item != nil; item = item.NextSibling() {
				for c := item.FirstChild().FirstChild(); c != nil; c = c.NextSibling() {
					link, ok := c.(*ast.Link)
					if !ok {
						continue
					}
					to := string(link.Destination)
					if !strings.ContainsAny(to, "#:") && !slices.ContainsFunc(at.Links, func(e entry) bool { return e.To == to }) {
						at.Links = append(at.Links, entry{Name: plain(link, source), To: to})
					}
				}
			}
		}
	}
	for i, s := range nav { // a page is where it is named first
		nav[i].Links = slices.DeleteFunc(s.Links, func(e entry) bool {
			return slices.ContainsFunc(nav[:i], func(before section) bool {
				return slices.ContainsFunc(before.Links, func(b entry) bool { return b.To == e.To })
			})
		})
	}
	return nav
}

// write writes the pages into a directory, whose content it replaces.
func (s *site) write(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	var order []entry
	for _, sec := range s.nav {
		order = append(order, sec.Links...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[name]
		file := filepath.Join(dir, filepath.FromSlash(p.to))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		var out bytes.Buffer
		if err := pageTemplate.Execute(&out, s.view(p, order)); err != nil {
			return err
		}
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil { //nolint:gosec // is for everybody
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "site.css"), styles, 0o644) //nolint:gosec // is for everybody
}

// view is what the template shows of a page.
func (s *site) view(p *page, order []entry) map[string]any {
	seen := func(e entry) entry {
		return entry{Name: e.Name, To: relative(p.to, e.To), Here: e.To == p.to}
	}
	nav := make([]section, 0, len(s.nav))
	for _, sec := range s.nav {
		links := make([]entry, 0, len(sec.Links))
		for _, e := range sec.Links {
			links = append(links, seen(e))
		}
		nav = append(nav, section{Title: sec.Title, Links: links})
	}
	var before, after *entry
	if at := slices.IndexFunc(order, func(e entry) bool { return e.To == p.to }); at >= 0 {
		if at > 0 {
			e := seen(order[at-1])
			before = &e
		}
		if at+1 < len(order) {
			e := seen(order[at+1])
			after = &e
		}
	}
	return map[string]any{
		"Title": p.title, "Body": p.body, "Nav": nav, "Before": before, "After": after, "Source": p.source,
		"Home": relative(p.to, address(index)), "Styles": relative(p.to, "site.css"),
	}
}

// address is where the page of a source is: what is in docs is at the top.
func address(source string) string {
	if source == "README.md" {
		return "project.html"
	}
	source = strings.TrimPrefix(source, "docs/")
	switch name, isDocument := strings.CutSuffix(source, ".md"); {
	case !isDocument:
		return "files/" + source + ".html"
	case name == "README":
		return "index.html"
	case path.Base(name) == "README":
		return path.Join(path.Dir(name), "index.html")
	default:
		return name + ".html"
	}
}

// relative is the way from one page to another.
func relative(from, to string) string {
	dir := strings.Split(path.Dir(from), "/")
	if dir[0] == "." {
		dir = nil
	}
	parts := strings.Split(to, "/")
	for len(dir) > 0 && len(parts) > 1 && dir[0] == parts[0] {
		dir, parts = dir[1:], parts[1:]
	}
	return strings.Repeat("../", len(dir)) + strings.Join(parts, "/")
}

// plain is the text of a node without its marks.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			out.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// ids gives headings the anchors that they have where the files are read, on the pages
// of forges: letters and digits of any script, in lower case, with hyphens for spaces.
type ids map[string]bool

func (i ids) Generate(value []byte, _ ast.NodeKind) []byte {
	id := cmp.Or(strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, string(value)), "heading")
	unique := id
	for n := 1; i[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", id, n)
	}
	i[unique] = true
	return []byte(unique)
}

func (i ids) Put(value []byte) { i[string(value)] = true }
