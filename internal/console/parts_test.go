package console_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
)

// drawing is an image of more than so many bytes.
func drawing(t *testing.T, bytesOf int) []byte {
	t.Helper()
	side := 8
	for side*side*3 < bytesOf {
		side += 8
	}
	m := image.NewRGBA(image.Rect(0, 0, side, side))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range m.Pix {
		m.Pix[i] = byte(random.Uint32())
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil || b.Len() <= bytesOf {
		t.Fatalf("the image has %d bytes: %v", b.Len(), err)
	}
	return b.Bytes()
}

// A file that is too large to be within the page is at the API.
func TestLargeFilesOfMessages(t *testing.T) {
	t.Parallel()
	f := startFixture(t, strings.Replace(configuration, "    version: 1.0.0\n", "    version: 1.0.0\n    default_input_modes: [\"*/*\"]\n", 1), handoff.Options{})
	picture := drawing(t, 300<<10)
	task := f.admin.sendParts("quote", a2a.Text("ask"), a2a.Raw(picture, "image/png", "large.png"),
		a2a.Raw(bytes.Repeat([]byte("x"), 2<<20), "application/zip", ""), a2a.Raw(picture, "text/html", "page.html"))
	page := f.admin.get("/console/tasks/" + task.ID).ok().harmlessPage()
	at := "/api/v1/tasks/" + task.ID + "/messages/" + task.History[0].MessageID
	page.has(`<img class="part-image" src="`+at+`/1?inline=true"`, `href="`+at+`/1"`, `href="`+at+`/2"`, `href="`+at+`/3"`).lacks(at+`/3?inline`, at+`/0`)
	for part, want := range map[string]int{"/1?inline=true": len(picture), "/2": 2 << 20} {
		if got := f.admin.get(at + part); got.status != http.StatusOK || len(got.body) != want {
			t.Errorf("%s: %d, %d bytes", part, got.status, len(got.body))
		}
	}
}

// A page shows so many parts, and says how many more there are and where.
func TestManyParts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parts := make([]a2a.Part, 450)
	for i := range parts {
		parts[i] = a2a.Text(fmt.Sprintf("ask %d.", i))
	}
	task := f.admin.sendParts("quote", parts...)
	path := "/console/tasks/" + task.ID
	// The question is a part too.
	f.admin.get(path).ok().says("ask 0.", "ask 199.", "251 more parts are not shown here.").has(`href="`+path+`?said=200"`).lacks("ask 200.", "Which Incoterm?</p></div></div>")
	f.admin.get(path+"?said=200").ok().says("ask 200.", "ask 399.", "200 parts come before these.", "51 more parts").has(`href="`+path+`?said=400"`, `href="`+path+`"`).lacks("ask 199.", "ask 400.")
	f.admin.get(path+"?said=400").ok().says("ask 449.", "400 parts come before these.").lacks("not shown here")
	f.admin.get(path + "?said=x").ok().says("ask 0.")
	done := f.admin.sendParts("quote", a2a.Text("hello"))
	f.admin.get("/console/tasks/" + done.ID + "?part=1").ok().says("1 part comes before these.")
}

// What a tool answers is shown as people read it.
func TestTheResultOfATool(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `mcp: {servers: {erp: {url: "`+showingServer(t)+`"}}}`)
	f.admin.get("/console/tools").ok().says("show")
	page := f.admin.post("/console/tools/erp/show", url.Values{"arguments": {"{}"}}).ok().harmlessPage()
	page.has("<h5>Stock</h5>", "<li>BRG-0042", `<img class="part-image" src="data:image/png;base64,`, `&lt;img src=x onerror=alert(1)&gt;`, `href="https://erp.example.com/report"`, `<details id="result-json">`).
		says("What came of the call", "Structured", "sku", "As JSON", "notes.txt").lacks("The tool says that the call has failed", `src="data:image/svg`, `href="javascript:`)
	if got := strings.Count(page.body, `class="part-image"`); got != 1 {
		t.Errorf("the page has %d images, want the PNG alone", got)
	}
	f.admin.post("/console/tools/erp/show", url.Values{"arguments": {`{"fail":true}`}}).ok().says("The tool says that the call has failed", "There is no such article")
}

// showingServer is a tool server whose answer has every kind of content.
func showingServer(t *testing.T) string {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "erp", Version: "1"}, nil)
	type asked struct {
		Fail bool `json:"fail,omitempty"`
	}
	picture := drawing(t, 100)
	mcp.AddTool(s, &mcp.Tool{Name: "show", Description: "Shows."}, func(_ context.Context, _ *mcp.CallToolRequest, q asked) (*mcp.CallToolResult, any, error) {
		if q.Fail {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "There is no such article"}}}, nil, nil
		}
		return &mcp.CallToolResult{StructuredContent: map[string]any{"sku": "BRG-0042"}, Content: []mcp.Content{
			&mcp.TextContent{Text: "## Stock\n\n- BRG-0042: 20\n- [mine](javascript:alert(1))\n"},
			&mcp.TextContent{Text: "<img src=x onerror=alert(1)>"},
			&mcp.ImageContent{Data: picture, MIMEType: "image/png"},
			&mcp.ImageContent{Data: []byte("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"), MIMEType: "image/svg+xml"},
			&mcp.ResourceLink{URI: "https://erp.example.com/report", Name: "Report"},
			&mcp.ResourceLink{URI: "javascript:alert(1)", Name: "Evil"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///notes.txt", MIMEType: "text/plain", Text: "notes"}},
		}}, nil, nil
	})
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(server.Close)
	return server.URL
}
