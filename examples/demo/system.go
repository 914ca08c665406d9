package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff"
	booksserver "handoff.example/handoff/examples/procurement/books"
	"handoff.example/handoff/examples/procurement/buyer"
	"handoff.example/handoff/examples/procurement/erp"
	"handoff.example/handoff/examples/procurement/erpdraft"
	"handoff.example/handoff/examples/procurement/erppost"
	"handoff.example/handoff/examples/procurement/erpread"
	financeagent "handoff.example/handoff/examples/procurement/finance"
	supplieragent "handoff.example/handoff/examples/procurement/supplier"
	"handoff.example/handoff/examples/procurement/toolclient"
	"handoff.example/handoff/examples/procurement/toolserver"
)

// system is the procurement system of the example in this process: the ERP database,
// its tool servers, the nodes of the company, the supplier and finance.
type system struct {
	place   *place
	version string
	drafted func(http.Handler) http.Handler // around erp-draft
	log     *slog.Logger

	nodes, tools group // in the order in which they are ended
	company      *handoff.Node
	closers      []func() error
}

// group serves until it is stopped.
type group struct {
	ctx  context.Context //nolint:containedctx // it is the life of the group
	stop context.CancelFunc
	wait sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

func (g *group) serve(f func(ctx context.Context) error) {
	g.wait.Go(func() {
		if err := f(g.ctx); err != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.errs = append(g.errs, err)
		}
	})
}

func (g *group) close() error {
	g.stop()
	g.wait.Wait()
	return errors.Join(g.errs...)
}

// start starts all parts on listeners that it takes over. They have joined their
// stores when it returns.
func (s *system) start(open map[string]net.Listener) (err error) {
	ctx := context.Background()
	for _, g := range []*group{&s.nodes, &s.tools} {
		g.ctx, g.stop = context.WithCancel(ctx)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
			closeAll(open)
		}
	}()
	file, err := os.OpenFile(s.place.file("demo.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	s.closers = append(s.closers, file.Close)
	s.log = slog.New(slog.NewTextHandler(file, nil))
	if err := s.startTools(ctx, open); err != nil {
		return err
	}
	return s.startNodes(ctx, open)
}

func (s *system) startTools(ctx context.Context, open map[string]net.Listener) error {
	read, err := erp.OpenToRead(ctx, s.place.file("erp.db"))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, read.Close)
	write, err := erp.Open(ctx, s.place.file("erp.db"))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, write.Close)
	credit, err := booksserver.Open(ctx, s.place.file("books.db"))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, credit.Close)
	for name, server := range map[string]*mcp.Server{
		erpRead: erpread.New(read), erpDraft: erpdraft.New(write, 0), erpPost: erppost.New(write), books: booksserver.New(credit),
	} {
		handler, err := toolserver.Handler(server, s.place.Key[name])
		if err != nil {
			return err
		}
		if name == erpDraft && s.drafted != nil {
			handler = s.drafted(handler)
		}
		s.tools.serve(func(ctx context.Context) error { return toolserver.ServeListener(ctx, open[name], handler) })
	}
	return nil
}

func (s *system) startNodes(ctx context.Context, open map[string]net.Listener) error {
	bought, err := buyer.Open(ctx, s.place.file("requests.db"), toolclient.Server{URL: s.place.url(company) + "/mcp", Key: s.place.Key[agent]})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, bought.Close)
	creditor := financeagent.Creditor{Books: toolclient.Server{URL: s.place.url(books) + "/mcp", Key: s.place.Key[books]}}
	for _, node := range []struct {
		name, agent string
		card        handoff.Card
		run         func(ctx context.Context, t *handoff.Turn) error
	}{
		{supplier, supplier, supplieragent.Card(), supplieragent.Quote},
		{finance, finance, financeagent.Card(), creditor.Credit},
		{company, agent, buyer.Card(), bought.Plan},
	} {
		config, err := handoff.LoadConfig(s.place.configuration(node.name))
		if err != nil {
			return err
		}
		n, err := handoff.New(config, handoff.Options{Logger: s.log.With("of", node.name), Version: s.version})
		if err != nil {
			return err
		}
		if config.Agents[node.agent] == nil { // it is not a model
			if err := n.Handle(node.agent, node.card, node.run); err != nil {
				return errors.Join(err, n.Shutdown(ctx))
			}
		}
		if node.name == company {
			s.company = n
		}
		s.nodes.serve(func(ctx context.Context) error { return n.Serve(ctx, open[node.name]) })
	}
	return nil
}

// console returns a link that signs its reader in to the company's console, once.
func (s *system) console(ctx context.Context) (string, error) {
	if err := s.company.Start(context.WithoutCancel(ctx)); err != nil {
		return "", err
	}
	link, _, err := s.company.ConsoleLink(ctx, s.place.url(company))
	return link, err
}

// close ends all parts and waits for their end.
func (s *system) close() error {
	errs := []error{s.nodes.close(), s.tools.close()}
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}
