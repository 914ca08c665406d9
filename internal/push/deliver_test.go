package push_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
)

// Rows 74, 75, 76 of the reference.
func TestRows74To76_APushSaysWhatAndWhoItIs(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	row := n.task("t")
	r := receive(t, nil)
	_, err := n.push.Create(t.Context(), ann, "echo", &a2a.TaskPushNotificationConfig{
		TaskID: "t", URL: r.URL + "/hook?k=v", Token: "tk", Authentication: &a2a.AuthenticationInfo{Scheme: "bAsic", Credentials: "dTpw"},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.happen(row, 1)
	g := r.next(t)
	want := map[string]string{
		"Content-Type": "application/a2a+json", "A2a-Version": "1.0", "X-A2a-Event-Id": "t/2", "Authorization": "bAsic dTpw",
		"A2a-Notification-Token": "tk", "X-A2a-Notification-Token": "tk", "User-Agent": "handoff/test",
	}
	have := map[string]string{}
	for name := range want {
		have[name] = g.header.Get(name)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	if g.body != string(event(1).Body) {
		t.Errorf("the body is %s", g.body)
	}
	idle(t, n.store)
}

// ordered checks that events came in order, each from the one before on or the
// same again.
type ordered struct {
	t    *testing.T
	mu   sync.Mutex
	last int64
	dups int
}

func (o *ordered) take(g got) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, text, _ := strings.Cut(g.id, "/")
	seq, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		o.t.Errorf("the id %q of an event", g.id)
	case o.last != 0 && seq == o.last:
		o.dups++
	case o.last != 0 && seq != o.last+1:
		o.t.Errorf("event %d after %d", seq, o.last)
	}
	o.last = seq
}

func TestRow80_EventsComeInOrderWhateverFails(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	row := n.task("t")
	o := &ordered{t: t}
	var calls atomic.Int64
	bodies := sync.Map{}
	r := receive(t, func(w http.ResponseWriter, g got) {
		if before, seen := bodies.LoadOrStore(g.id, g.body); seen && before != g.body {
			t.Errorf("event %s has changed", g.id)
		}
		switch call := calls.Add(1); call % 4 {
		case 1:
			w.WriteHeader([]int{503, 500, 429, 408, 425, 502}[call%6])
		case 2:
			panic(http.ErrAbortHandler) // a broken connection
		default:
			o.take(g)
		}
	})
	r.Config.ErrorLog = nil
	n.hook("t", "h", r.URL)
	numbers := make([]int, 40)
	for i := range numbers {
		numbers[i] = i
	}
	n.happen(row, numbers...)
	idle(t, n.store)
	if o.last != 41 || o.dups != 0 {
		t.Errorf("the last event was %d, %d came twice", o.last, o.dups)
	}
}

// A receiver is away, the node is killed while it tries, and both come back.
func TestAnOutageWithAKillLosesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	s := file(t, path)
	n := deliverFrom(t, s, nil)
	row := n.task("t")
	o := &ordered{t: t}
	var away atomic.Bool
	inFlight, stuck := make(chan struct{}), make(chan struct{})
	var first sync.Once
	r := receive(t, func(w http.ResponseWriter, g got) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		o.take(g)
		if g.id == "t/4" {
			first.Do(func() { // it is taken, and nobody hears of it
				close(inFlight)
				<-stuck
			})
		}
	})
	n.hook("t", "h", r.URL)
	n.happen(row, 1, 2, 3)
	<-inFlight
	n.store.kill()
	close(stuck)
	n.stop()
	away.Store(true)

	n = deliverFrom(t, s, nil) // the claim of the dead one is over soon
	for range 3 {
		for g := r.next(t); g.id != "t/4"; g = r.next(t) {
		}
	}
	n.happen(row, 4, 5)
	n.store.kill()
	n.stop()

	n = deliverFrom(t, s, nil)
	n.happen(row, 6)
	away.Store(false)
	idle(t, n.store)
	if o.last != 7 || o.dups != 1 {
		t.Errorf("the last event was %d; %d came twice, and not just the one in flight", o.last, o.dups)
	}
}

// Row 80 of the reference, its first half.
func TestGapsGrow(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(o *push.Options) { o.Limits.Backoff, o.Limits.MaxBackoff = 40*time.Millisecond, time.Minute })
	row := n.task("t")
	var calls atomic.Int64
	r := receive(t, func(w http.ResponseWriter, _ got) {
		if calls.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	n.hook("t", "h", r.URL)
	n.happen(row, 1)
	a, b, c := r.next(t), r.next(t), r.next(t)
	if a.id != b.id || b.id != c.id || a.body != c.body {
		t.Errorf("got %s, %s and %s", a.id, b.id, c.id)
	}
	if first, second := b.at.Sub(a.at), c.at.Sub(b.at); first < 30*time.Millisecond || second < 60*time.Millisecond {
		t.Errorf("tried again after %v and %v", first, second)
	}
	idle(t, n.store)
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		header   string
		bound    time.Duration
		at, most time.Duration
	}{
		{"1", time.Minute, time.Second, 15 * time.Second},
		{"86400", 300 * time.Millisecond, 300 * time.Millisecond, 15 * time.Second},
		{"soon", time.Minute, 0, 15 * time.Second},
	} {
		t.Run(test.header, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, func(o *push.Options) { o.Limits.MaxRetryAfter = test.bound })
			row := n.task("t")
			var calls atomic.Int64
			r := receive(t, func(w http.ResponseWriter, _ got) {
				if calls.Add(1) == 1 {
					w.Header().Set("Retry-After", test.header)
					w.WriteHeader(http.StatusTooManyRequests)
				}
			})
			n.hook("t", "h", r.URL)
			n.happen(row, 1)
			first, second := r.next(t), r.next(t)
			if gap := second.at.Sub(first.at); gap < test.at || gap > test.most {
				t.Errorf("tried again after %v", gap)
			}
		})
	}
}

func TestRow80_AReceiverThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	row := n.task("t")
	r := receive(t, func(w http.ResponseWriter, _ got) { w.WriteHeader(http.StatusGone) })
	n.hook("t", "h", r.URL)
	n.happen(row, 1, 2)
	r.next(t)
	idle(t, n.store)
	page, err := n.push.List(t.Context(), ann, "echo", &a2a.ListTaskPushNotificationConfigsRequest{TaskID: "t"})
	if err != nil || len(page.Configs) != 0 {
		t.Errorf("there is still %v, %v", page, err)
	}
	if len(r.requests) != 0 {
		t.Error("it was asked again")
	}
}

func TestWhatCannotBeDeliveredWaitsForTheOperator(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"refused": 400, "moved": 302} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			n := newNode(t, nil)
			row := n.task("t")
			o := &ordered{t: t}
			var well atomic.Bool
			var tries atomic.Int64
			r := receive(t, func(w http.ResponseWriter, g got) {
				if !well.Load() {
					tries.Add(1)
					w.Header().Set("Location", "/elsewhere")
					w.WriteHeader(status)
					return
				}
				o.take(g)
			})
			n.hook("t", "h", r.URL+"/secret-path?secret=1")
			n.happen(row, 1, 2, 3)
			idle(t, n.store)
			if tries.Load() != 3 {
				t.Errorf("%d tries", tries.Load())
			}
			letters, err := n.push.Dead(ctx, store.ForAll(), nil, 9)
			if err != nil || len(letters) != 1 {
				t.Fatal(letters, err)
			}
			l := letters[0]
			if l.Event != "t/2" || l.Target != r.URL || l.Tries != 3 || l.Task != "t" || l.Webhook != "h" || l.Waiting != 3 || l.Dead.IsZero() || l.Since.IsZero() ||
				!strings.Contains(l.Error, strconv.Itoa(status)) || strings.Contains(fmt.Sprint(l.Error, l.Target), "secret") {
				t.Errorf("the letter is %+v", l)
			}
			if err := n.push.Redeliver(ctx, bob, "t", "h", false); a2a.CodeOf(err) != a2a.CodeTaskNotFound {
				t.Errorf("bob redelivers: %v", err)
			}
			if err := n.push.Redeliver(ctx, store.ForAll(), "t", "h", false); err != nil {
				t.Fatal(err)
			}
			idle(t, n.store) // given up again
			well.Store(true)
			if err := n.push.Redeliver(ctx, store.ForAll(), "t", "h", name == "moved"); err != nil {
				t.Fatal(err)
			}
			n.happen(row, 4)
			idle(t, n.store)
			if o.last != 5 {
				t.Errorf("the last event was %d", o.last)
			}
			if err := n.push.Drop(ctx, store.ForAll(), "t", "h"); a2a.CodeOf(err) != a2a.CodeUnsupportedOperation {
				t.Errorf("a webhook that goes on is dropped: %v", err)
			}
			well.Store(false)
			n.happen(row, 5)
			idle(t, n.store)
			if err := n.push.Drop(ctx, store.ForAll(), "t", "h"); err != nil {
				t.Error(err)
			}
			if letters, err := n.push.Dead(ctx, store.ForAll(), nil, 9); err != nil || len(letters) != 0 {
				t.Error(letters, err)
			}
		})
	}
}

func TestTryingEndsWithTheWindow(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(o *push.Options) { o.Limits.Retry = 300 * time.Millisecond })
	row := n.task("t")
	r := receive(t, func(w http.ResponseWriter, _ got) { w.WriteHeader(http.StatusInternalServerError) })
	n.hook("t", "h", r.URL)
	n.happen(row, 1)
	idle(t, n.store)
	letters, err := n.push.Dead(t.Context(), store.ForAll(), nil, 9)
	if err != nil || len(letters) != 1 || letters[0].Tries < 2 {
		t.Errorf("%+v, %v", letters, err)
	}
	if stats, err := n.push.Stats(t.Context()); err != nil || stats.Dead != 1 || stats.Retrying != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// Row 79 of the reference.
func TestRow79_ADeadReceiverDelaysNobody(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(o *push.Options) { o.Limits.PerTarget = 2 })
	dead, well := hole(t), receive(t, nil)
	var rows []*store.Task
	for i := range 40 {
		row := n.task(fmt.Sprint("dead-", i))
		n.hook(row.ID, "h", dead+"/")
		rows = append(rows, row)
	}
	row := n.task("t")
	n.hook("t", "dead", dead+"/")
	n.hook("t", "well", well.URL)
	for _, row := range rows {
		n.happen(row, 1)
	}
	n.happen(row, 1, 2, 3)
	for i := range 3 {
		if g := well.next(t); g.id != fmt.Sprint("t/", i+2) {
			t.Errorf("got %s", g.id)
		}
	}
	n.stop() // while the others hang
}

// hole is a receiver that accepts connections, and never answers.
func hole(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String()
}

// bobs hangs a webhook on a task of bob's, and lets something happen.
func (n *node) bobs(task, url string) {
	n.t.Helper()
	row := ownedIn(n.t, n.store, task, "bob")
	if _, err := n.push.Create(n.t.Context(), bob, "echo", &a2a.TaskPushNotificationConfig{TaskID: task, ID: "h", URL: url}); err != nil {
		n.t.Fatal(err)
	}
	n.happen(row, 1)
}

// Webhooks of bob that hang do not delay ann's, at the same host and port.
func TestRow79_AnOwnersDeadWebhooksDelayNobodyElse(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"while they hang": time.Minute, "after they have hung": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, func(o *push.Options) {
				o.Limits.Timeout, o.Limits.Backoff, o.Limits.MaxBackoff = timeout, 30*time.Second, time.Minute
			})
			hung, over := make(chan struct{}, 100), make(chan struct{})
			fine := make(chan string, 10)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
				_, _ = io.Copy(io.Discard, q.Body)
				if q.URL.Path != "/black" {
					fine <- q.Header.Get("X-A2A-Event-ID")
					return
				}
				hung <- struct{}{}
				select {
				case <-over:
				case <-q.Context().Done():
				}
				if timeout < time.Second {
					hung <- struct{}{}
				}
			}))
			defer server.Close()
			defer close(over)
			for i := range 30 {
				n.bobs(fmt.Sprint("black-", i), server.URL+"/black")
			}
			for range 4 {
				<-hung
			}
			row := n.task("t")
			n.hook("t", "h", server.URL+"/ok")
			for i := range 3 {
				n.happen(row, i)
				select {
				case id := <-fine:
					if id != fmt.Sprint("t/", i+2) {
						t.Errorf("got %s", id)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("event %d is late", i)
				}
			}
			n.stop()
		})
	}
}

// So they do not at many places, which take all the slots that bob gets.
func TestRow79_AnOwnersDeadPlacesDelayNobodyElse(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(o *push.Options) { o.Limits.InFlight, o.Limits.Timeout = 8, time.Minute })
	for i := range 30 {
		n.bobs(fmt.Sprint("dead-", i), hole(t))
	}
	well := receive(t, nil)
	row := n.task("t")
	n.hook("t", "h", well.URL)
	n.happen(row, 1)
	if g := well.next(t); g.id != "t/2" {
		t.Errorf("got %s", g.id)
	}
	n.stop()
}

func TestAWebhookThatIsDeletedHearsNothingMore(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	row := n.task("t")
	r := receive(t, nil)
	n.hook("t", "h", r.URL)
	n.happen(row, 1)
	r.next(t)
	if err := n.push.Delete(t.Context(), ann, "echo", &a2a.DeleteTaskPushNotificationConfigRequest{TaskID: "t", ID: "h"}); err != nil {
		t.Fatal(err)
	}
	n.happen(row, 2)
	idle(t, n.store)
	if len(r.requests) != 0 {
		t.Errorf("it was sent %v", r.next(t))
	}
}

func TestASignedPushIsVerifiedWithTheKeys(t *testing.T) {
	t.Parallel()
	for _, alg := range []string{"ES256", "EdDSA"} {
		t.Run(alg, func(t *testing.T) {
			t.Parallel()
			signer, err := card.GenerateSigningKey(alg)
			if err != nil {
				t.Fatal(err)
			}
			n := newNode(t, func(o *push.Options) {
				o.Signer = func(string) push.Signer { return signer }
				o.Issuer = func() string { return "https://agents.example" }
				o.JWKS = func() string { return "https://agents.example/.well-known/jwks.json" }
			})
			row := n.task("t")
			r := receive(t, nil)
			n.hook("t", "h", r.URL)
			n.happen(row, 1)
			g := r.next(t)
			token := g.header.Get("X-A2A-Notification-JWT")
			if g.header.Get("Authorization") != "Bearer "+token {
				t.Errorf("the authorization is %q", g.header.Get("Authorization"))
			}
			document, err := card.JWKS(signer.Public())
			if err != nil {
				t.Fatal(err)
			}
			var keys jose.JSONWebKeySet
			if err := json.Unmarshal(document, &keys); err != nil {
				t.Fatal(err)
			}
			jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA})
			if err != nil {
				t.Fatal(err)
			}
			known := keys.Key(jws.Signatures[0].Header.KeyID)
			if len(known) != 1 {
				t.Fatalf("the key %q is not one of the set", jws.Signatures[0].Header.KeyID)
			}
			payload, err := jws.Verify(known[0])
			if err != nil {
				t.Fatal(err)
			}
			var c struct {
				Iss, Aud, Jti, TaskID, EventID string
				Iat, Exp                       int64
				Digest                         string `json:"request_body_sha256"`
			}
			if err := json.Unmarshal(payload, &c, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			digest := sha256.Sum256([]byte(g.body))
			now := time.Now().Unix()
			if c.Iss != "https://agents.example" || c.Aud != r.URL || c.TaskID != "t" || c.EventID != "t/2" || c.Jti == "" ||
				c.Iat > now || c.Iat < now-60 || c.Exp != c.Iat+300 || c.Digest != hex.EncodeToString(digest[:]) {
				t.Errorf("the claims are %s", payload)
			}
			parts := strings.Split(token, ".")
			parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(payload), "t/2", "t/3", 1)))
			if forged, err := jose.ParseSignedCompact(strings.Join(parts, "."), []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA}); err == nil {
				if _, err := forged.Verify(known[0]); err == nil {
					t.Error("a changed token is verified")
				}
			}
		})
	}
}

// A body of many megabytes arrives as it was; row 92 of the reference.
func TestALargeEventArrivesWhole(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	row := n.task("t")
	r := receive(t, nil)
	n.hook("t", "h", r.URL)
	large := store.Event{Kind: store.KindArtifact, Body: []byte(`{"artifactUpdate":"` + strings.Repeat("x", 12<<20) + `"}`)}
	c := &store.Change{Task: row.Key, Events: []store.Event{large, event(2)}}
	if err := n.store.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	n.jobs.Due(time.Now())
	if g := r.next(t); g.body != string(large.Body) {
		t.Errorf("%d bytes arrived", len(g.body))
	}
	if g := r.next(t); g.id != "t/3" {
		t.Errorf("then came %s", g.id)
	}
}

// A node that stops in order lets the receiver answer: nothing is sent twice.
func TestAStopRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := file(t, filepath.Join(t.TempDir(), "tasks.db"))
	n := deliverFrom(t, s, nil)
	row := n.task("t")
	o := &ordered{t: t}
	begun, answer := make(chan struct{}), make(chan struct{})
	var first sync.Once
	r := receive(t, func(_ http.ResponseWriter, g got) {
		o.take(g)
		first.Do(func() {
			close(begun)
			<-answer
		})
	})
	n.hook("t", "h", r.URL)
	n.happen(row, 1, 2, 3)
	<-begun
	stopped := make(chan struct{})
	go func() {
		n.stop()
		close(stopped)
	}()
	close(answer)
	<-stopped
	n = deliverFrom(t, s, nil)
	idle(t, s)
	if o.last != 4 || o.dups != 0 {
		t.Errorf("the last event was %d, %d came twice", o.last, o.dups)
	}
}
