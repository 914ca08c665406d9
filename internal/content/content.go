// Package content shows what agents and their callers have sent as HTML: text,
// Markdown, JSON, tables, images, documents and other files. All of it is from
// outside. What comes out holds only elements and attributes of this package,
// whatever goes in.
package content

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"handoff.example/handoff/a2a"
)

// The limits of what is shown in a page. The rest is one click away.
const (
	maxText     = 128 << 10 // bytes of a text
	maxMarkdown = 64 << 10  // bytes that are read as Markdown; more is text
	maxTree     = 2000      // values of a JSON tree
	maxRows     = 200       // of a table
	maxColumns  = 40
	maxCell     = 2000 // bytes
)

// Kind says how a part is shown.
type Kind int

// The ways to show a part.
const (
	File     Kind = iota // a name, a type and a size
	Text                 // as it is
	Markdown             // formatted, without HTML of its own
	JSON                 // a tree that folds
	Table                // comma or tab separated values
	Source               // markup that is not run: HTML, SVG, XML
	Image                // PNG, JPEG, GIF or WebP
	PDF                  // in a frame without rights
	Link                 // a file elsewhere, by its address
)

var kindWords = [...]string{
	File: "file", Text: "text", Markdown: "Markdown", JSON: "JSON", Table: "table", Source: "source", Image: "image", PDF: "PDF", Link: "link",
}

// String returns the word for people.
func (k Kind) String() string { return kindWords[k] }

// KindOf returns how a part is shown. Bytes are images and PDF by what they are,
// and not by what their sender calls them.
func KindOf(p *a2a.Part) Kind {
	switch p.Kind {
	case a2a.PartURL:
		return Link
	case a2a.PartData:
		return JSON
	case a2a.PartText:
		return kindOfText(p, p.Text)
	case a2a.PartRaw:
		if Sniff(p.Raw) == "application/pdf" {
			return PDF
		}
		if Sniff(p.Raw) != "" {
			return Image
		}
		if len(p.Raw) > 0 && textual(p) && utf8.Valid(p.Raw) && !bytes.ContainsRune(p.Raw, 0) {
			return kindOfText(p, string(p.Raw))
		}
	}
	return File
}

// Sniff returns the media type of bytes that a browser may show: image/png,
// image/jpeg, image/gif, image/webp or application/pdf; "" for all others.
func Sniff(b []byte) string {
	switch t := http.DetectContentType(b); t {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf":
		return t
	}
	return ""
}

// mediaType is the type that a part claims, or that its name suggests.
func mediaType(p *a2a.Part) string {
	if t, _, err := mime.ParseMediaType(p.MediaType); err == nil {
		return t
	}
	switch strings.ToLower(path.Ext(p.Filename)) {
	case ".md", ".markdown":
		return "text/markdown"
	case ".csv":
		return "text/csv"
	case ".tsv":
		return "text/tab-separated-values"
	case ".json":
		return "application/json"
	case ".html", ".htm":
		return "text/html"
	case ".svg":
		return "image/svg+xml"
	case ".xml":
		return "application/xml"
	case ".txt", ".log", ".yaml", ".yml", ".diff", ".patch", ".sql":
		return "text/plain"
	}
	return ""
}

// textual reports whether the bytes of a part are to be read as text.
func textual(p *a2a.Part) bool {
	t := mediaType(p)
	switch t {
	case "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/x-ndjson", "application/sql":
		return true
	}
	return strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+json") || strings.HasSuffix(t, "+xml")
}

func kindOfText(p *a2a.Part, text string) Kind {
	t := mediaType(p)
	switch {
	case t == "text/markdown" || t == "text/x-markdown":
		return Markdown
	case t == "text/csv" || t == "text/tab-separated-values":
		return Table
	case t == "application/json" || strings.HasSuffix(t, "+json"):
		return JSON
	case t == "text/html" || t == "application/xml" || t == "text/xml" || strings.HasSuffix(t, "+xml"):
		return Source
	case t == "" && markdownLike(text):
		return Markdown
	}
	return Text
}

// Address is where the bytes of a part are, on this site; "" for nowhere.
type Address struct {
	// Show is for an image or a frame. For a frame it has to answer with
	// Content-Security-Policy: sandbox and X-Content-Type-Options: nosniff.
	Show string
	Keep string // for a download
}

// Part returns a part as HTML.
func Part(p *a2a.Part, at Address) template.HTML {
	w := &writer{}
	kind := KindOf(p)
	w.open("div", "class", "part part-"+strings.ToLower(kind.String()))
	text := p.Text
	if p.Kind == a2a.PartRaw {
		text = string(p.Raw)
	}
	switch kind {
	case Link:
		w.link(p)
	case JSON:
		if p.Kind == a2a.PartData {
			text = string(p.Data)
		}
		w.json(text)
	case Markdown:
		w.markdown(text)
	case Table:
		w.table(text, mediaType(p) == "text/tab-separated-values")
	case Source:
		w.note("Shown as text: " + Visible(mediaType(p)) + " is not run here.")
		w.text(text)
	case Text:
		w.text(text)
	case Image:
		if at.Show != "" {
			name := p.Filename
			if name == "" {
				name = "Image without a name"
			}
			w.open("img", "class", "part-image", "src", at.Show, "alt", Visible(name), "loading", "lazy")
		}
	case PDF:
		if at.Show != "" {
			// Without the attribute sandbox, with which Chromium shows no PDF: the
			// answer itself has to be sandboxed, by its Content-Security-Policy.
			w.open("iframe", "class", "part-frame", "src", at.Show, "loading", "lazy", "title", "Preview of "+Visible(fileName(p)))
			w.close("iframe")
		}
	case File:
	}
	if kind != Link {
		w.file(p, kind, at.Keep)
	}
	w.close("div")
	return w.html()
}

// fileName is what a part is called in sentences.
func fileName(p *a2a.Part) string {
	if p.Filename != "" {
		return p.Filename
	}
	return "a file without a name"
}

// file writes the line below a part: its name, type and size, and where to get
// it. What somebody has said needs none.
func (w *writer) file(p *a2a.Part, kind Kind, href string) {
	if href == "" && p.Kind != a2a.PartRaw && p.Filename == "" && p.MediaType == "" {
		return
	}
	w.open("p", "class", "part-file")
	if p.Filename != "" {
		w.open("bdi", "class", "part-name")
		w.string(Visible(p.Filename))
		w.close("bdi")
		w.string(" ")
	}
	kindOf := p.MediaType
	if kindOf == "" {
		kindOf = kind.String()
	}
	w.open("span", "class", "part-type")
	w.string(Visible(clip(kindOf, 100)))
	w.close("span")
	w.string(" ")
	size := len(p.Raw) + len(p.Text) + len(p.Data)
	w.open("span", "class", "part-size")
	w.string(Size(int64(size)))
	w.close("span")
	if href != "" {
		w.string(" ")
		w.open("a", "href", href, "download", Visible(p.Filename))
		w.string("Download")
		w.close("a")
	}
	w.close("p")
}

// link writes the address of a file elsewhere. Nothing is loaded from there
// before somebody follows it.
func (w *writer) link(p *a2a.Part) {
	w.open("p", "class", "part-file")
	name := p.Filename
	if name == "" {
		name = "A file elsewhere"
	}
	w.open("bdi", "class", "part-name")
	w.string(Visible(name))
	w.close("bdi")
	w.string(" ")
	if p.MediaType != "" {
		w.open("span", "class", "part-type")
		w.string(Visible(clip(p.MediaType, 100)))
		w.close("span")
		w.string(" ")
	}
	if Outside(p.URL) && !strings.HasPrefix(p.URL, "mailto:") {
		w.anchor(p.URL)
		w.string(clip(Visible(p.URL), 300))
		w.close("a")
	} else {
		w.open("code")
		w.string(clip(Visible(p.URL), 300))
		w.close("code")
	}
	w.close("p")
}

// Outside reports whether an address may be a link: http, https or mailto, and
// nothing that a browser would take for something else.
func Outside(address string) bool {
	if strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return false
	}
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.Host != ""
	case "mailto":
		return u.Opaque != ""
	}
	return false
}

// Size returns a number of bytes for people, such as 1.4 MB.
func Size(n int64) string {
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1000*1000:
		return strconv.FormatFloat(float64(n)/1e3, 'f', 1, 64) + " kB"
	case n < 1000*1000*1000:
		return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + " MB"
	}
	return strconv.FormatFloat(float64(n)/1e9, 'f', 1, 64) + " GB"
}

// Visible returns a name with what could make it look like another one in
// sight: control characters, and those that turn the direction of the text.
func Visible(s string) string {
	return spelled(s, func(r rune) bool {
		return misleads(r) || r >= 0x200c && r <= 0x200f || r == 0x061c
	})
}

// readable is Visible for whole texts, in which marks and joiners are part of how some
// languages are written.
func readable(s string) string { return spelled(s, misleads) }

// misleads reports whether a character is there for no reader: a control character, one
// that turns the direction of what follows, or one that nobody sees.
func misleads(r rune) bool {
	switch {
	case r < ' ' && r != '\n' && r != '\t' && r != '\r', r >= 0x7f && r < 0xa0:
		return true
	case r == 0x200b, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x2069, r == 0xfeff, r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}

// spelled writes the characters that are hidden as their numbers.
func spelled(s string, hidden func(rune) bool) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, "\\U%08x", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// clip shortens a text to at most so many bytes, between characters.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// writer writes HTML. Names of elements and attributes come from this package
// alone; values and texts are escaped here and nowhere else.
type writer struct{ b strings.Builder }

func (w *writer) html() template.HTML { return template.HTML(w.b.String()) } //nolint:gosec // all of it went through the methods below

func (w *writer) open(element string, attributes ...string) {
	w.b.WriteString("<" + element)
	for i := 0; i+1 < len(attributes); i += 2 {
		w.b.WriteString(" " + attributes[i])
		if v := attributes[i+1]; v != "" {
			w.b.WriteString(`="` + html.EscapeString(v) + `"`)
		}
	}
	w.b.WriteString(">")
}

func (w *writer) close(element string) { w.b.WriteString("</" + element + ">") }

func (w *writer) string(s string) {
	w.b.WriteString(html.EscapeString(readable(strings.ToValidUTF8(s, "\uFFFD"))))
}

// anchor opens a link to somewhere else.
func (w *writer) anchor(address string) {
	w.open("a", "href", address, "rel", "noopener noreferrer nofollow", "target", "_blank")
}

func (w *writer) note(s string) {
	w.open("p", "class", "part-note")
	w.string(s)
	w.close("p")
}

// text writes a text as it is, line ends included.
func (w *writer) text(s string) {
	w.open("pre", "class", "part-source", "dir", "auto")
	// A parser drops a line end that follows the tag.
	w.b.WriteString("\n")
	w.string(withoutNUL(clip(s, maxText)))
	w.close("pre")
	if len(s) > maxText {
		w.note("The first " + Size(maxText) + " of " + Size(int64(len(s))) + ".")
	}
}

// withoutNUL replaces what HTML cannot hold.
func withoutNUL(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }
