// Package toolserver serves MCP servers of the example over HTTP: stateless, for
// revision 2026-07-28, to whoever has the key.
package toolserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Modern is the one revision that the servers over HTTP speak.
const Modern = "2026-07-28"

// New makes a server with nothing on it yet, whose lists and resources may be kept
// for a while by anybody who can see them.
func New(name, instructions string, keep time.Duration) *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: name, Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{},
		SetCacheable: func(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
			if read, ok := req.GetParams().(*mcp.ReadResourceParams); ok && strings.HasPrefix(read.URI, "erp://orders/") {
				c.TTLMs, c.CacheScope = 0, "private" // it may be posted at any moment
				return
			}
			c.TTLMs, c.CacheScope = int(keep.Milliseconds()), "public"
		},
	})
}

// Handler serves a server at /mcp. A request without the key is refused before
// anything of it is read.
func Handler(server *mcp.Server, key string) (http.Handler, error) {
	if key == "" {
		return nil, errors.New("the server has no key: set it in the environment")
	}
	serve := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: 1 << 20,
	})
	want := sha256.Sum256([]byte("Bearer " + key))
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the key is missing, or it is not the one of this server", http.StatusUnauthorized)
			return
		}
		serve.ServeHTTP(w, r)
	})
	return http.NewCrossOriginProtection().Handler(mux), nil
}

// Serve serves a server to whoever has the key, until ctx ends. It says on the log when
// it is ready.
func Serve(ctx context.Context, name, address, key string, server *mcp.Server) error {
	handler, err := Handler(server, key)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	log.Printf("The tool server is ready: %s, address=http://%s/mcp", name, listener.Addr())
	return ServeListener(ctx, listener, handler)
}

// ServeListener serves on a listener that it takes over, until ctx ends.
func ServeListener(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
