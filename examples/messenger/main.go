// Command messenger is a messenger as a surface of an agent: what people write there
// becomes messages of A2A, and what the agent says is pushed back to them. It keeps
// what it was given before it says that it has it, and so loses nothing when it is
// killed.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"handoff.example/handoff/client"
)

func main() {
	var s settings
	flag.StringVar(&s.listen, "listen", "127.0.0.1:8090", "the `address` at which the messenger and the agent reach this")
	flag.StringVar(&s.public, "public", "", "the `URL` of that, as the agent reaches it")
	flag.StringVar(&s.agent, "agent", "http://127.0.0.1:8080/agents/messenger/", "the `URL` of the agent")
	flag.StringVar(&s.api, "api", "http://127.0.0.1:8091/sendMessage", "the `URL` to which the messenger takes messages")
	flag.StringVar(&s.db, "db", "messenger.db", "the `file` of what is kept")
	flag.Parse()
	s.secret, s.token = []byte(os.Getenv("MESSENGER_SECRET")), os.Getenv("MESSENGER_TOKEN")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &s); err != nil {
		slog.Error("The surface has failed", "error", err)
		os.Exit(1)
	}
}

// settings are what the surface is told.
type settings struct {
	listen, public, agent, api, db string
	secret                         []byte // signs what the messenger sends
	token                          string // for the messenger, when we send
}

// surface stands between a messenger and an agent.
type surface struct {
	settings
	store  *store
	agent  *client.Client
	toward chan struct{} // there is something for the agent
	back   chan struct{} // there is something for the messenger
}

func run(ctx context.Context, s *settings) error {
	if len(s.secret) < 16 {
		return errors.New("set MESSENGER_SECRET, at least 16 characters: anybody could write in the name of the messenger")
	}
	kept, err := openStore(ctx, s.db)
	if err != nil {
		return err
	}
	defer func() { _ = kept.db.Close() }()
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	s.public = strings.TrimSuffix(cmp.Or(s.public, "http://"+listener.Addr().String()), "/")
	agent, err := client.Dial(ctx, s.agent, client.Options{})
	if err != nil {
		return fmt.Errorf("find agent: %w", err)
	}
	f := &surface{settings: *s, store: kept, agent: agent, toward: make(chan struct{}, 1), back: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /messenger", f.hear)
	mux.HandleFunc("POST /agent/{conversation}", f.answered)
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	var works sync.WaitGroup // with what is kept, which is closed after them
	defer works.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	works.Go(func() { f.work(ctx, f.toward, f.sendNext) })
	works.Go(func() { f.work(ctx, f.back, f.tellNext) })
	works.Go(func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(last)
	})
	slog.Info("The surface is ready", "address", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// work does one thing after the other, until there is none. What fails is tried
// again, later each time.
func (f *surface) work(ctx context.Context, news <-chan struct{}, next func(context.Context) (done bool, err error)) {
	const first, longest = 200 * time.Millisecond, 30 * time.Second
	pause := first
	for ctx.Err() == nil {
		done, err := next(ctx)
		switch {
		case err != nil:
			slog.Warn("It is tried again", "error", err, "in", pause)
			wait(ctx, nil, pause)
			pause = min(2*pause, longest)
		case done:
			wait(ctx, news, time.Minute)
			fallthrough
		default:
			pause = first
		}
	}
}

func wait(ctx context.Context, news <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// wake says that there is something to do.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is known already
	}
}
