package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// logIn is the person and the browser: it opens the link that the gateway asks
// for. The suite's authorization server lets everybody in, and sends the browser
// back to the gateway at once.
func logIn(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if p.Mode != "url" {
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{Jar: jar}
	res, err := browser.Do(r)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		fmt.Fprintf(os.Stderr, "the login ended at %s with %s: %.500s\n", res.Request.URL, res.Status, page)
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}
	return &mcp.ElicitResult{Action: "accept"}, nil
}
