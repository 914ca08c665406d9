package ledger_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/ledger"
	"handoff.example/handoff/internal/store"
)

// pushed is a delegation that is parked and waits for pushes; it is polled so
// rarely that only a push can bring it on.
func pushed(t *testing.T, change ...func(*bench)) (b *bench, id string, hook a2a.TaskPushNotificationConfig) {
	t.Helper()
	p := newPeer(t, unary, pushing)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	b = newBench(t, p, append(change, func(b *bench) { b.link.PollMin, b.link.PollMax = time.Hour, time.Hour })...)
	id = b.send("x")
	b.eventually("it is parked", func() bool {
		row, err := b.node.store.Task(t.Context(), store.ForAll(), id)
		return err == nil && row.Wait == store.WaitCallback && row.Lease == 0 && b.row(id).Channel == store.ChannelPush
	})
	if len(p.hooks) != 1 {
		t.Fatalf("the peer has the webhooks %+v", p.hooks)
	}
	hook = p.hooks[0]
	if hook.Token == "" || hook.Authentication == nil || hook.Authentication.Scheme != "Bearer" || !strings.HasPrefix(hook.URL, b.receiver.URL+ledger.ReceiverPath+id+"/") {
		t.Fatalf("the webhook is %+v", hook)
	}
	if path := hook.URL[strings.LastIndex(hook.URL, "/")+1:]; len(path) < 43 || strings.Contains(string(b.row(id).Token), path) {
		t.Errorf("the token %q is short, or kept", path)
	}
	return b, id, hook
}

type push struct {
	method, url, body string
	header            map[string]string
}

// event is a right push of a webhook.
func event(hook a2a.TaskPushNotificationConfig, task string) push {
	e := a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{TaskID: task, ContextID: "context-1", Status: a2a.TaskStatus{State: a2a.StateWorking}}}
	return push{
		method: http.MethodPost, url: hook.URL, body: string(e.AppendJSON(nil)),
		header: map[string]string{"A2A-Notification-Token": hook.Token, "Authorization": "Bearer " + hook.Authentication.Credentials},
	}
}

func (b *bench) push(q push) int {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), q.method, q.url, bytes.NewReader([]byte(q.body)))
	if err != nil {
		b.t.Fatal(err)
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	w, err := b.receiver.Client().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	_ = w.Body.Close()
	return w.StatusCode
}

// S22: only what we have asked for is taken, and nothing else changes anything.
func TestS22_WhatIsNotAskedForIsNotTaken(t *testing.T) {
	t.Parallel()
	b, id, hook := pushed(t)
	right := event(hook, "remote-1")
	for name, c := range map[string]struct {
		change func(*push)
		want   int
	}{
		"another token in the URL":  {func(q *push) { q.url = q.url[:len(q.url)-4] + "AAAA" }, http.StatusNotFound},
		"another delegation":        {func(q *push) { q.url = strings.Replace(q.url, id, "nobody", 1) }, http.StatusNotFound},
		"no token":                  {func(q *push) { q.url = q.url[:strings.LastIndex(q.url, "/")] }, http.StatusNotFound},
		"nothing presented":         {func(q *push) { q.header = nil }, http.StatusUnauthorized},
		"a wrong token presented":   {func(q *push) { q.header["A2A-Notification-Token"] = "x" }, http.StatusUnauthorized},
		"wrong credentials":         {func(q *push) { q.header["Authorization"] = "Bearer x" }, http.StatusUnauthorized},
		"another task":              {func(q *push) { q.body = strings.Replace(q.body, "remote-1", "remote-2", 1) }, http.StatusConflict},
		"not JSON":                  {func(q *push) { q.body = "hello" }, http.StatusBadRequest},
		"no task":                   {func(q *push) { q.body = "{}" }, http.StatusBadRequest},
		"too large":                 {func(q *push) { q.body = strings.Repeat(" ", 65<<10) + q.body }, http.StatusRequestEntityTooLarge},
		"another method":            {func(q *push) { q.method = http.MethodGet }, http.StatusMethodNotAllowed},
		"a token that is no header": {func(q *push) { q.url += "/x" }, http.StatusNotFound},
	} {
		q := right
		q.header = map[string]string{}
		for k, v := range right.header {
			q.header[k] = v
		}
		c.change(&q)
		if got := b.push(q); got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
	if n := b.peer.calls("GetTask"); n > 1 {
		t.Errorf("the peer was asked %d times", n)
	}
	before := b.row(id)
	if got := b.push(right); got != http.StatusOK {
		t.Errorf("the right one: status %d", got)
	}
	b.eventually("the peer is asked", func() bool { return b.peer.calls("GetTask") > 1 })
	if b.turn(id) != 1 || before.RemoteDigest != b.row(id).RemoteDigest {
		t.Error("a push of what is known has begun a turn")
	}
	b.peer.do(func(task *peerTask) { b.peer.finish(task, "quote") })
	if got := b.push(right); got != http.StatusOK {
		t.Errorf("the right one: status %d", got)
	}
	b.quoted(b.until(id, a2a.StateCompleted), "quote")
	if got := b.push(right); got != http.StatusOK {
		t.Errorf("after the end: status %d", got)
	}
}

func TestARepeatedEventIsTakenOnce(t *testing.T) {
	t.Parallel()
	b, id, hook := pushed(t)
	q := event(hook, "remote-1")
	q.header["X-A2A-Event-Id"] = "remote-1/7"
	polls := b.peer.calls("GetTask")
	if got := b.push(q); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	b.eventually("the peer is asked", func() bool { return b.peer.calls("GetTask") == polls+1 })
	b.peer.do(func(task *peerTask) { b.peer.finish(task, "quote") })
	if got := b.push(q); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
	q.header["X-A2A-Event-Id"] = "remote-1/8"
	if got := b.push(q); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
	b.until(id, a2a.StateCompleted)
	if n := b.peer.calls("GetTask"); n > polls+3 {
		t.Errorf("the peer was asked %d times for two events", n-polls)
	}
}

func TestTooManyPushes(t *testing.T) {
	t.Parallel()
	b, _, hook := pushed(t)
	q := event(hook, "remote-1")
	statuses := map[int]int{}
	for range 300 {
		statuses[b.push(q)]++
	}
	if statuses[http.StatusTooManyRequests] == 0 || statuses[http.StatusOK] < 100 {
		t.Errorf("the statuses are %v", statuses)
	}
}

// S22: a signature has to be one of the peer's, new, and used once.
func TestS22_SignedPushes(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, id, hook := pushed(t, func(b *bench) {
		b.keys = b.peer.server.Client()
		b.peer.jwks = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}}}
	})
	q := event(hook, "remote-1")
	sum := sha256.Sum256([]byte(q.body))
	claims := func() map[string]any {
		return map[string]any{
			"aud": b.receiver.URL, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(), "jti": rand.Text(),
			"taskId": "remote-1", "request_body_sha256": hex.EncodeToString(sum[:]),
		}
	}
	sign := func(key any, jku string, claims map[string]any) string {
		payload, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		opts := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "k1")
		if jku != "" {
			opts = opts.WithHeader("jku", jku)
		}
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, opts)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := s.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	jku := b.peer.server.URL + "/.well-known/jwks.json"
	with := func(name string, value any) map[string]any {
		c := claims()
		c[name] = value
		return c
	}
	without := func(names ...string) map[string]any {
		c := claims()
		for _, name := range names {
			delete(c, name)
		}
		return c
	}
	twice := claims()
	sample := sign(key, jku, without("jti", "exp", "aud", "taskId")) // as the official samples sign
	for _, c := range []struct {
		name string
		jwt  string
		want int
	}{
		{"right", sign(key, jku, twice), http.StatusOK},
		{"right, its keys where they usually are", sign(key, "", claims()), http.StatusOK},
		{"the same jti", sign(key, jku, twice), http.StatusConflict},
		{"another key", sign(other, jku, claims()), http.StatusUnauthorized},
		{"keys elsewhere", sign(other, "https://evil.test/jwks.json", claims()), http.StatusUnauthorized},
		{"an old iat", sign(key, jku, with("iat", time.Now().Add(-6*time.Minute).Unix())), http.StatusUnauthorized},
		{"an iat of the future", sign(key, jku, with("iat", time.Now().Add(10*time.Minute).Unix())), http.StatusUnauthorized},
		{"no jti, but the body", sample, http.StatusOK},
		{"the same of it", sample, http.StatusConflict},
		{"no body, but a jti", sign(key, jku, without("request_body_sha256")), http.StatusOK},
		{"neither jti nor body", sign(key, jku, without("jti", "request_body_sha256")), http.StatusUnauthorized},
		{"for another task", sign(key, jku, with("taskId", "remote-2")), http.StatusUnauthorized},
		{"for another body", sign(key, jku, with("request_body_sha256", "00")), http.StatusUnauthorized},
		{"for another receiver", sign(key, jku, with("aud", "https://other.test")), http.StatusUnauthorized},
		{"not signed", "eyJhbGciOiJub25lIn0.e30.", http.StatusUnauthorized},
	} {
		q.header = map[string]string{"A2A-Notification-Token": hook.Token, "X-A2A-Notification-Jwt": c.jwt}
		if got := b.push(q); got != c.want {
			t.Errorf("%s: status %d, want %d", c.name, got, c.want)
		}
	}
	if n := b.turn(id); n != 1 {
		t.Errorf("they have begun %d turns", n-1)
	}
	b.peer.do(func(task *peerTask) { b.peer.finish(task, "quote") })
	q.header = map[string]string{"A2A-Notification-Token": hook.Token, "Authorization": "Bearer " + sign(key, jku, claims())}
	if got := b.push(q); got != http.StatusOK {
		t.Errorf("a JWT as the bearer: status %d", got)
	}
	b.quoted(b.until(id, a2a.StateCompleted), "quote")
}

// A peer that has the message, and says so only by a push, is found by it.
func TestAPushTellsOfATaskThatNobodyKnew(t *testing.T) {
	t.Parallel()
	p := newPeer(t, unary, pushing)
	p.forgetful = true
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	p.fail("SendMessage", dropAfter)
	p.failAlways("ListTasks", notSupported)
	b := newBench(t, p)
	id := b.send("x")
	b.eventually("it is unknown", func() bool { return b.row(id).Send == store.SendUnknown })
	if got := b.push(event(p.hooks[0], "remote-1")); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	b.eventually("it is known", func() bool { return b.row(id).RemoteTask == "remote-1" })
	p.do(func(task *peerTask) { p.finish(task, "quote") })
	b.quoted(b.until(id, a2a.StateCompleted), "quote")
	p.checkSends()
}

func TestAPeerThatRefusesToPushIsPolled(t *testing.T) {
	t.Parallel()
	p := newPeer(t, unary, pushing)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	p.fail("SendMessage", noPush)
	b := newBench(t, p)
	id := b.send("x")
	b.eventually("it is polled", func() bool { return b.row(id).Channel == store.ChannelPoll })
	p.do(func(task *peerTask) { p.finish(task, "quote") })
	b.quoted(b.until(id, a2a.StateCompleted), "quote")
	p.checkSends()
}

// A push that comes while a turn has already seen the peer as it was before is not
// lost.
func TestAPushInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	b, id, hook := pushed(t)
	p := b.peer
	p.do(func(task *peerTask) {
		p.lag = 300 * time.Millisecond
		task.status(a2a.StateWorking, "still on it")
	})
	before := p.calls("GetTask")
	b.push(event(hook, "remote-1"))
	b.eventually("a turn looks at the peer", func() bool { return p.calls("GetTask") == before+2 })
	p.do(func(task *peerTask) { p.finish(task, "quote") })
	b.push(event(hook, "remote-1"))
	b.quoted(b.until(id, a2a.StateCompleted), "quote")
}

// A stream that is quiet is given up for pushes, where the peer has them.
func TestAQuietStreamIsPushed(t *testing.T) {
	t.Parallel()
	p := newPeer(t, pushing)
	p.on = func(task *peerTask, m *a2a.Message, fresh bool) { task.status(a2a.StateWorking, "on it") }
	b := newBench(t, p, func(b *bench) { b.link.PollMax = time.Hour })
	id := b.send("x")
	b.eventually("it is pushed", func() bool { return b.row(id).Channel == store.ChannelPush })
	if len(p.hooks) != 1 || p.hooks[0].TaskID != "remote-1" {
		t.Fatalf("the peer has the webhooks %+v", p.hooks)
	}
	p.do(func(task *peerTask) { p.finish(task, "quote") })
	b.push(event(p.hooks[0], "remote-1"))
	b.quoted(b.until(id, a2a.StateCompleted), "quote")
}
