package upstream

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

// filter is what a subscriptions/listen asks for (SUB-01).
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

// watcher is a subscriptions/listen at a legacy server, which knows none: it is
// served from what the session brings.
type watcher struct {
	s       *session
	id      jsontext.Value
	filter  filter
	queue   *queue
	ctx     context.Context
	release func()
	closed  bool
}

const maxURIs = 1000

// listen begins a subscription.
func (l *legacyServer) listen(ctx context.Context, s *session, r *Request, release func()) (Answer, error) {
	var wants filter
	if err := json.Unmarshal(r.Message.Param("notifications"), &wants); err != nil || len(wants.URIs) > maxURIs {
		release()
		return single(failure(r.Message.ID, mcp.Errorf(mcp.CodeInvalidParams, "notifications is not an object of what to be told")))
	}
	w := &watcher{s: s, id: r.Message.ID, queue: newQueue(l.resultBytes), ctx: ctx, release: release}
	w.filter = filter{
		Tools:     wants.Tools && s.offers.Tools != nil && s.offers.Tools.ListChanged,
		Prompts:   wants.Prompts && s.offers.Prompts != nil && s.offers.Prompts.ListChanged,
		Resources: wants.Resources && s.offers.Resources != nil && s.offers.Resources.ListChanged,
	}
	l.hearAll(s.who)
	s.hear(ctx)
	if s.offers.Resources != nil && s.offers.Resources.Subscribe {
		for _, uri := range wants.URIs {
			if err := s.subscribe(ctx, uri); err != nil {
				l.log.Debug("cannot subscribe to a resource", "error", err)
				continue
			}
			w.filter.URIs = append(w.filter.URIs, uri)
		}
	}
	if err := w.acknowledge(); err != nil {
		w.unsubscribe()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, l.lost(s.err)
	}
	s.watchers[w] = true
	s.hub.add(w)
	return w, nil
}

// hub takes what one session of a caller brings to the subscriptions of that caller,
// whichever of its sessions they are at: a caller has one for each set of
// capabilities.
type hub struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
}

func newHub() *hub { return &hub{watchers: map[*watcher]bool{}} }

func (h *hub) add(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers[w] = true
}

func (h *hub) remove(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}

// offer takes a notification of a caller's session to the caller's subscriptions.
func (h *hub) offer(who string, m *mcp.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		if w.s.who == who {
			w.offer(m)
		}
	}
}

// heard reports whether a caller has subscriptions.
func (h *hub) heard(who string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		if w.s.who == who {
			return true
		}
	}
	return false
}

// acknowledge puts the first message of the subscription in its place (SUB-03).
func (w *watcher) acknowledge() error {
	honoured, err := json.Marshal(w.filter)
	if err != nil {
		return fmt.Errorf("write acknowledgement: %w", err)
	}
	body := []byte(`{"jsonrpc":"2.0","method":"` + mcp.NotifyAcknowledged + `","params":{"_meta":{"` + mcp.MetaSubscription + `":`)
	body = append(append(body, w.id...), `},"notifications":`...)
	m, err := mcp.Scan(append(append(body, honoured...), "}}"...), mcp.Limits{})
	if err != nil {
		return fmt.Errorf("write acknowledgement: %w", err)
	}
	w.queue.push(m)
	return nil
}

// offer takes a notification that was asked for (SUB-02).
func (w *watcher) offer(m *mcp.Message) {
	wanted := false
	switch m.Method {
	case mcp.NotifyTools:
		wanted = w.filter.Tools
	case mcp.NotifyPrompts:
		wanted = w.filter.Prompts
	case mcp.NotifyResources:
		wanted = w.filter.Resources
	case mcp.NotifyResource:
		uri := m.ParamString("uri")
		wanted = uri != "" && contains(w.filter.URIs, uri)
	}
	if wanted {
		w.queue.push(m.WithMeta(mcp.MetaSubscription, w.id))
	}
}

// Next returns the next notification.
func (w *watcher) Next() (*mcp.Message, error) {
	m, err := w.queue.pop(w.ctx)
	if err != nil {
		if w.ctx.Err() != nil {
			return nil, w.s.t.why(w.ctx, w.ctx, err)
		}
		return nil, w.s.t.asError(err)
	}
	return m, nil
}

// Close ends the subscription.
func (w *watcher) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.s.mu.Lock()
	delete(w.s.watchers, w)
	w.s.mu.Unlock()
	w.s.hub.remove(w)
	w.unsubscribe()
	w.release()
	return nil
}

func (w *watcher) unsubscribe() {
	for _, uri := range w.filter.URIs {
		w.s.unsubscribe(uri)
	}
}

// subscribe has the server tell of changes of a resource.
func (s *session) subscribe(ctx context.Context, uri string) error {
	s.mu.Lock()
	s.uris[uri]++
	first := s.uris[uri] == 1
	s.mu.Unlock()
	if !first {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.t.timeout)
	defer cancel()
	_, err := s.rpc(ctx, mcp.MethodSubscribe, uriParams(uri))
	if err != nil {
		s.mu.Lock()
		delete(s.uris, uri)
		s.mu.Unlock()
	}
	return err
}

// unsubscribe has the server tell no more of a resource that nobody watches.
func (s *session) unsubscribe(uri string) {
	s.mu.Lock()
	s.uris[uri]--
	last := s.uris[uri] <= 0
	if last {
		delete(s.uris, uri)
	}
	over := s.err != nil
	s.mu.Unlock()
	if !last || over || s.link.dead() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cancelTime)
	defer cancel()
	if _, err := s.rpc(ctx, mcp.MethodUnsubscribe, uriParams(uri)); err != nil {
		s.t.log.Debug("cannot unsubscribe from a resource", "error", err)
	}
}

func uriParams(uri string) []byte {
	text, err := jsontext.AppendQuote(nil, uri)
	if err != nil {
		text = []byte(`""`)
	}
	return append(append([]byte(`{"uri":`), text...), '}')
}
