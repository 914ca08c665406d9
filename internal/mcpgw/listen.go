package mcpgw

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
)

// Bounds of a subscription, and of the streams that one caller has open at a node.
const (
	maxWatched = 200 // tasks
	maxStreams = 200
	lookAgain  = 2 * time.Second // for what other nodes have changed in a session
)

// changeKinds are the changes of lists, by their names in the filter (SUB-01).
var changeKinds = []struct{ filter, capability, method string }{
	{"toolsListChanged", "tools", mcp.NotifyTools},
	{"promptsListChanged", "prompts", mcp.NotifyPrompts},
	{"resourcesListChanged", "resources", mcp.NotifyResources},
}

// subscriber is a client that hears of changes. What is left to tell is a set: it
// has no more members than the client has asked for, however slow the client is.
type subscriber struct {
	view  View
	ready chan struct{} // something is left to tell

	mu      sync.Mutex
	kinds   []string // notifications
	uris    []string // of resources, as the client has them
	pending []pending
}

// pending is a notification that is to be told.
type pending struct {
	method string
	key    string         // of the resource or the task
	params jsontext.Value // without _meta; nil: none
}

func newSubscriber(v View) *subscriber {
	caller := *v.Caller
	v.Caller = &caller
	return &subscriber{view: v, ready: make(chan struct{}, 1)}
}

// add takes a notification in place of one that says the same.
func (s *subscriber) add(p pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.pending, func(other pending) bool { return other.method == p.method && other.key == p.key })
	if i >= 0 {
		s.pending[i] = p
	} else {
		s.pending = append(s.pending, p)
	}
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// take returns what is to be told.
func (s *subscriber) take() []pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.pending
	s.pending = nil
	return taken
}

// wants reports whether a change of a list was asked for (SUB-02).
func (s *subscriber) wants(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.kinds, kind)
}

// wantsResource reports whether changes of a resource, or of what it is a part of,
// were asked for.
func (s *subscriber) wantsResource(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.uris, func(u string) bool { return covers(u, uri) })
}

func covers(subscribed, uri string) bool {
	return subscribed == uri || len(uri) > len(subscribed) && uri[:len(subscribed)] == subscribed &&
		(subscribed != "" && subscribed[len(subscribed)-1] == '/' || uri[len(subscribed)] == '/')
}

// filter is what a client asks to hear of.
type filter struct {
	kinds []string
	uris  []string
	tasks []string
}

// filterOf reads the params of subscriptions/listen.
func filterOf(m *mcp.Message) (*filter, error) {
	wrong := func(what string) error {
		return mcp.Errorf(mcp.CodeInvalidParams, "%s", what)
	}
	said := m.Param("notifications")
	if said.Kind() != '{' {
		return nil, wrong("notifications is missing, or no object")
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(said, &members); err != nil {
		return nil, wrong("notifications cannot be read")
	}
	f := &filter{}
	for _, kind := range changeKinds {
		var on bool
		if value := members[kind.filter]; value != nil && json.Unmarshal(value, &on) != nil {
			return nil, wrong(kind.filter + " is neither true nor false")
		}
		if on {
			f.kinds = append(f.kinds, kind.method)
		}
	}
	for _, list := range []struct {
		name string
		into *[]string
		most int
	}{{"resourceSubscriptions", &f.uris, maxSubscriptions}, {"taskIds", &f.tasks, maxWatched}} {
		if value := members[list.name]; value != nil && json.Unmarshal(value, list.into) != nil {
			return nil, wrong(list.name + " is no list of strings")
		}
		if len(*list.into) > list.most {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s has more than %d members", list.name, list.most)
		}
		*list.into = distinct(*list.into)
	}
	return f, nil
}

// distinct returns a list without what stands there twice.
func distinct(list []string) []string {
	var out []string
	for _, one := range list {
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

// listen opens a subscription (section 8 of the requirements).
func (x *exchange) listen() {
	f, err := filterOf(x.message)
	switch {
	case err != nil:
	case len(f.tasks) > 0 && !x.message.Capabilities().Tasks: // TSK-12
		err = mcp.MissingTasks()
	case len(x.r.Header["Accept"]) > 0 && !takes(x.r.Header["Accept"], "text/event-stream"):
		err = &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "A subscription is text/event-stream", Status: http.StatusNotAcceptable}
	}
	if err != nil {
		x.refuseAny(err)
		return
	}
	sub := newSubscriber(x.view)
	x.honored(f, sub)
	leave, err := x.h.listens.add(sub)
	if err != nil {
		x.refuseAny(err)
		return
	}
	defer leave()
	ctx, cancel := context.WithCancel(x.ctx())
	defer cancel()
	if x.h.opts.Calls != nil {
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		f.tasks = x.watch(ctx, sub, f.tasks, &watching)
	} else {
		f.tasks = nil
	}
	x.out = x.open()
	defer x.out.close()
	if x.tell(pending{method: mcp.NotifyAcknowledged, params: acknowledgement(sub, f)}) != nil {
		return
	}
	every := time.NewTicker(x.h.opts.Recheck)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if !x.stillAllowed() { // SUB-10
				x.endSubscription()
				return
			}
		case <-x.h.listens.closing:
			x.endSubscription()
			return
		case <-sub.ready:
		}
		for _, p := range sub.take() {
			if x.tell(p) != nil {
				return
			}
		}
	}
}

// endSubscription ends a subscription gracefully (SUB-06).
func (x *exchange) endSubscription() {
	result := append([]byte(`{"resultType":"complete","_meta":{"`+mcp.MetaSubscription+`":`), x.message.ID...)
	x.reply(mcp.AppendResult(nil, x.message.ID, append(result, "}}"...)))
}

// stillAllowed reports whether the credential of a long stream is still good: it may
// be over by now, or taken back.
func (x *exchange) stillAllowed() bool {
	p, err := x.h.opts.Auth.Authenticate(x.r)
	if err != nil || p.Tenant != x.caller.Tenant || p.Subject != x.caller.Subject {
		return x.ctx().Err() != nil
	}
	q := auth.Requirement{Role: auth.RoleCaller, Scopes: x.h.opts.Scopes}
	return q.Check(x.r, &p, "these tools", nil) == nil && x.h.opts.Catalog.Known(View{Endpoint: x.view.Endpoint, Caller: &p})
}

// honored takes from a filter what the endpoint has: the lists whose changes it
// tells, and the resources that the caller may read.
func (x *exchange) honored(f *filter, sub *subscriber) {
	var found struct {
		Capabilities map[string]struct {
			ListChanged bool `json:"listChanged"`
		} `json:"capabilities"`
	}
	if said, err := x.h.opts.Catalog.Discover(x.ctx(), x.view); err == nil {
		_ = json.Unmarshal(said, &found) // what cannot be read has nothing
	}
	for _, kind := range changeKinds {
		if slices.Contains(f.kinds, kind.method) && found.Capabilities[kind.capability].ListChanged {
			sub.kinds = append(sub.kinds, kind.method)
		}
	}
	for _, uri := range f.uris {
		if _, err := x.h.opts.Catalog.Find(x.ctx(), x.view, mcp.MethodSubscribe, uri); err == nil {
			sub.uris = append(sub.uris, uri)
		}
	}
}

// acknowledgement is the first notification of a subscription: what is told of all
// that was asked for (SUB-03).
func acknowledgement(sub *subscriber, f *filter) jsontext.Value {
	members := map[string]any{}
	for _, kind := range changeKinds {
		if slices.Contains(sub.kinds, kind.method) {
			members[kind.filter] = true
		}
	}
	if len(sub.uris) > 0 {
		members["resourceSubscriptions"] = sub.uris
	}
	if len(f.tasks) > 0 {
		members["taskIds"] = f.tasks
	}
	text, err := json.Marshal(map[string]any{"notifications": members}, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return jsontext.Value(`{"notifications":{}}`)
	}
	return text
}

// watch has tasks tell of their changes, and returns those that there are (TSK-17).
func (x *exchange) watch(ctx context.Context, sub *subscriber, ids []string, watching *sync.WaitGroup) []string {
	var found []string
	for _, id := range ids {
		news, err := x.h.opts.Calls.Watch(ctx, &x.caller, id)
		if err != nil {
			continue
		}
		found = append(found, id)
		watching.Go(func() {
			for task := range news {
				sub.add(pending{method: mcp.NotifyTask, key: id, params: task.AppendJSON(nil, "")})
			}
		})
	}
	return found
}

// tell sends a notification to a subscriber: with the id of the subscription, where
// it is one (SUB-04).
func (x *exchange) tell(p pending) error {
	body := append([]byte(`{"jsonrpc":"2.0","method":"`), p.method...)
	body = append(body, '"')
	if !x.old {
		body = append(append(body, `,"params":{"_meta":{"`+mcp.MetaSubscription+`":`...), x.message.ID...)
		body = append(body, '}')
		if inner := bytes.TrimSpace(p.params); len(inner) > 2 {
			body = append(append(body, ','), inner[1:]...)
		} else {
			body = append(body, '}')
		}
	} else if p.params != nil {
		body = append(append(body, `,"params":`...), p.params...)
	}
	return x.out.event(append(body, '}'))
}

// stream is the GET stream of a legacy client: what it hears of beside its calls
// (LEG-03). The session has one; who opens another takes it over.
func (x *exchange) stream() {
	mine := randomID()
	err := x.h.sessions.change(x.ctx(), x.view, x.session, func(s *session) error {
		s.Stream = mine
		return nil
	})
	if err != nil {
		x.refuse(err)
		return
	}
	sub := newSubscriber(x.view)
	for _, kind := range changeKinds {
		sub.kinds = append(sub.kinds, kind.method)
	}
	sub.uris = slices.Clone(x.session.Subscribed)
	leave, err := x.h.listens.add(sub)
	if err != nil {
		x.refuse(err)
		return
	}
	defer leave()
	hints, unhook := x.h.sessions.watch(x.session.ID)
	defer unhook()
	x.out = x.open()
	defer x.out.close()
	x.out.start()
	every := time.NewTicker(lookAgain)
	defer every.Stop()
	recheck := time.NewTicker(x.h.opts.Recheck)
	defer recheck.Stop()
	for {
		select {
		case <-x.ctx().Done():
			return
		case <-recheck.C:
			if !x.stillAllowed() {
				x.out.finish()
				return
			}
		case <-x.h.listens.closing:
			x.out.finish()
			return
		case <-hints:
			if !x.still(sub, mine) {
				x.out.finish()
				return
			}
		case <-every.C:
			if !x.still(sub, mine) {
				x.out.finish()
				return
			}
		case <-sub.ready:
			for _, p := range sub.take() {
				if x.tell(p) != nil {
					return
				}
			}
		}
	}
}

// still reports whether a GET stream is that of its session, and takes over what the
// client has subscribed to meanwhile.
func (x *exchange) still(sub *subscriber, mine string) bool {
	s, err := x.h.sessions.get(x.ctx(), x.view, x.session.ID)
	if err != nil {
		return mcp.AsError(err).Status != http.StatusNotFound // a store that is away comes back
	}
	if s.Stream != mine {
		return false
	}
	x.h.sessions.touch(x.ctx(), s)
	x.h.listens.setResources(sub, s.Subscribed)
	return true
}

// watch returns what hints that a session has changed at this node.
func (s *sessions) watch(id string) (hints <-chan struct{}, unhook func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if older := s.streams[id]; older != nil { // which looks, and ends
		select {
		case older <- struct{}{}:
		default:
		}
	}
	s.streams[id] = c
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.streams[id] == c {
			delete(s.streams, id)
		}
	}
}

// callerOf names who calls, among the callers of a node.
func callerOf(p *auth.Principal) string { return p.Tenant + "\x00" + p.Issuer + "\x00" + p.Subject }
