package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
)

// mcpAnswers are the results of the server's tools, by name.
var mcpAnswers = func() map[string][]byte {
	answers := map[string][]byte{}
	for name, size := range map[string]int{"small": 40, "k64": 64 << 10, "m1": 1 << 20} {
		text := strings.Repeat("x", size)
		answers[name] = []byte(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"` + text + `"}]}}`)
	}
	return answers
}()

// mcpTools is how many tools the server lists, besides those that are called.
const mcpTools = 100

func mcpList() []byte {
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","ttlMs":TTL,"cacheScope":"public","tools":[`)
	names := []string{"small", "k64", "m1", "sse"}
	for i := range mcpTools {
		names = append(names, fmt.Sprintf("tool_%d", i))
	}
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":%q,"description":"Looks up how much of an article is there, and where.","inputSchema":{"type":"object","properties":{"article":{"type":"string","description":"The number of the article."}},"required":["article"]}}`, name)
	}
	b.WriteString(`]}}`)
	return b.Bytes()
}

// serveMCP is a tool server that does nothing but answer, as fast as net/http can.
func serveMCP() {
	list := mcpList()
	serveBench(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		header := w.Header()
		header["Content-Type"] = []string{"application/json"}
		switch r.Header.Get("Mcp-Method") {
		case "tools/call":
			name := r.Header.Get("Mcp-Name")
			if name == "sse" {
				header["Content-Type"] = []string{"text/event-stream"}
				fmt.Fprintf(w, "event: message\ndata: %s\n\n", mcpAnswers["small"])
				return
			}
			_, _ = w.Write(mcpAnswers[name])
		case "tools/list":
			ttl := "60000"
			if r.URL.Path == "/mcp/cold" {
				ttl = "0"
			}
			out := bytes.Replace(list, []byte("ID"), idOf(body), 1)
			_, _ = w.Write(bytes.Replace(out, []byte("TTL"), []byte(ttl), 1))
		case "server/discover":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public"}}`, idOf(body))
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, idOf(body))
		}
	}))
}

// idOf returns the id of a request, as it is written.
func idOf(body []byte) []byte {
	_, rest, _ := bytes.Cut(body, []byte(`"id":`))
	rest = bytes.TrimLeft(rest, " ")
	if len(rest) > 0 && rest[0] == '"' {
		end := bytes.IndexByte(rest[1:], '"')
		return rest[:end+2]
	}
	return rest[:bytes.IndexAny(rest, ",}")]
}

// serveReverseProxy is httputil.ReverseProxy with the route of the gateway: by the
// name of the tool.
func serveReverseProxy(target string) {
	to, err := url.Parse(target)
	if err != nil {
		return
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = "" },
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 64, DisableCompression: true,
		},
	}
	known := map[string]bool{"small": true, "k64": true, "m1": true, "sse": true}
	serveBench(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.Header.Get("Mcp-Name"); name != "" && !known[name] {
			http.NotFound(w, r)
			return
		}
		// Otherwise net/http, where the answer comes before the proxy has seen the end of the
		// content, takes that away from it, and the answer breaks off.
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	}))
}

// serveBench serves on a free port, and says which.
func serveBench(h http.Handler) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(l, h))
}
