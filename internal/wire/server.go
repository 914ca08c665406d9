package wire

import (
	"log/slog"
	"net/http"
	"time"
)

// ServerOptions bound what a client may do before a handler hears of it.
type ServerOptions struct {
	HeaderTimeout time.Duration // for the header of a request; 0: 10 s
	IdleTimeout   time.Duration // of a connection; 0: 2 min
	HeaderBytes   int           // 0: 64 KiB
	Logger        *slog.Logger  // nil: slog.Default()
}

// NewServer returns a server that speaks HTTP/1.1 and HTTP/2, the latter without
// TLS too (h2c). It has no timeout for whole requests and answers, since streams
// last; bodies and the writes of streams have their own. A connection of HTTP/2
// that is silent is asked whether it is still there.
func NewServer(handler http.Handler, opts ServerOptions) *http.Server {
	if opts.HeaderTimeout == 0 {
		opts.HeaderTimeout = 10 * time.Second
	}
	if opts.IdleTimeout == 0 {
		opts.IdleTimeout = 2 * time.Minute
	}
	if opts.HeaderBytes == 0 {
		opts.HeaderBytes = 64 << 10
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: opts.HeaderTimeout,
		IdleTimeout:       opts.IdleTimeout,
		MaxHeaderBytes:    opts.HeaderBytes,
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		ErrorLog:          slog.NewLogLogger(opts.Logger.Handler(), slog.LevelWarn),
	}
}
