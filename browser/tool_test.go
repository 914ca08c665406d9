//go:build browser

package browser_test

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	. "handoff.example/handoff/internal/browsertest"
)

// What a hostile tool answers is shown as people read it, and does nothing.
func TestToolResult(t *testing.T) {
	t.Parallel()
	m := image.NewRGBA(image.Rect(0, 0, 120, 60))
	for i := range 120 * 60 {
		m.Set(i%120, i/120, color.RGBA{R: uint8(2 * (i % 120)), G: 90, B: 160, A: 255})
	}
	var picture bytes.Buffer
	if err := png.Encode(&picture, m); err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "erp", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "show", Description: "Shows."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{IsError: true, StructuredContent: map[string]any{"sku": "BRG-0042", "html": "<img src=x onerror=window.hacked=1>"}, Content: []mcp.Content{
			&mcp.TextContent{Text: "## Stock\n\n- **20** of BRG-0042\n- [mine](javascript:window.hacked=1)\n- <script>window.hacked=1</script>\n"},
			&mcp.ImageContent{Data: picture.Bytes(), MIMEType: "image/png"},
			&mcp.ImageContent{Data: []byte("<svg xmlns='http://www.w3.org/2000/svg' onload='window.hacked=1'/>"), MIMEType: "image/svg+xml"},
			&mcp.ResourceLink{URI: "javascript:window.hacked=1", Name: "Evil"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "ui://page", MIMEType: "text/html", Text: "<script>window.hacked=1</script>"}},
		}}, nil, nil
	})
	tools := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(tools.Close)
	s, link := house(t, "mcp: {servers: {erp: {url: "+tools.URL+"}}}\n", nil, nil)
	ctx := Browse(t)
	Do(t, ctx, Desk(), chromedp.Navigate(link), At("/console/"), s.open("tools/erp/show"), Says("main h1", "show"), Press("Call"), Says("#result", "The tool says that the call has failed"),
		Says("#result", "Structured"), Until(`document.querySelector("#result img")?.naturalWidth === 120`), Until(`(document.querySelector("#result-json").open = true)`))
	found := Value[string](t, ctx, `String(window.hacked) + [...document.querySelectorAll("main script, main iframe, main svg[onload], #result a")]
		.filter((e) => e.localName !== "a" || !/^(https?:|data:application\/octet-stream|data:image\/png)/.test(e.href)).map((e) => e.outerHTML).join() + document.querySelectorAll("#result img").length`)
	if found != "undefined1" {
		t.Errorf("the page has %s", found)
	}
	accessible(t, ctx, "result")
	Shoot(t, ctx, "tool-result")
	Do(t, ctx, Phone())
	narrow(t, ctx)
}
