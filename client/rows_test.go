package client_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/netguard"
)

// Row 46: SUBMITTED is no final answer, nor is WORKING; whether by stream or by
// polls, one message is sent.
func TestRow46_SubmittedIsNoAnswer(t *testing.T) {
	for _, poll := range []bool{false, true} {
		t.Run(fmt.Sprint("poll ", poll), func(t *testing.T) {
			onPipeWithPeer(t, func(x *exchange) {
				switch x.op {
				case "SendMessage":
					x.result(taskEvent("t-1", "TASK_STATE_SUBMITTED"))
				case "SendStreamingMessage":
					x.event(taskEvent("t-1", "TASK_STATE_SUBMITTED"))
				case "SubscribeToTask": // the first stream ended too early
					x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
					x.event(statusEvent("t-1", "TASK_STATE_COMPLETED"))
				default:
					state := "TASK_STATE_WORKING"
					if x.n > 2 {
						state = "TASK_STATE_COMPLETED"
					}
					x.result(task("t-1", state))
				}
			}, client.Options{}, func(t *testing.T, p *peer, c *client.Client) {
				answer, err := c.SendAndWait(t.Context(), hello(), client.WaitOptions{Poll: poll})
				if err != nil || answer.Task.Status.State != a2a.StateCompleted {
					t.Errorf("got %+v, %v", answer, err)
				}
				if n := strings.Count(p.seen(), "Send"); n != 1 {
					t.Errorf("the peer got %s", p.seen())
				}
			})
		})
	}
}

// Rows 50 and 51: the next message continues a task that waits, and starts a new
// one in the same conversation after one that is over.
func TestRows50And51_FollowUp(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		var sent []map[string]any
		p := newPeer(t, binding, func(x *exchange) {
			message, _ := x.params["message"].(map[string]any)
			sent = append(sent, message)
			state := "TASK_STATE_COMPLETED"
			if len(sent) == 1 {
				state = "TASK_STATE_INPUT_REQUIRED"
			}
			x.result(taskEvent("t-1", state))
		})
		c := p.client(t, client.Options{})
		message := client.NewMessage(a2a.Text("quote"))
		for range 3 {
			answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: message})
			if err != nil {
				t.Fatal(err)
			}
			message = client.FollowUp(answer.Task, a2a.Text("more"))
		}
		var got []map[string]any
		for _, m := range sent {
			got = append(got, map[string]any{"task": m["taskId"], "context": m["contextId"], "refers": m["referenceTaskIds"]})
		}
		want := []map[string]any{
			{"task": nil, "context": nil, "refers": nil},
			{"task": "t-1", "context": "c-1", "refers": nil},
			{"task": nil, "context": "c-1", "refers": []any{"t-1"}},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("messages (-want +got):\n%s", d)
		}
	})
}

// Row 136: every limit can be another one for a single call.
func TestRow136_LimitsOfACall(t *testing.T) {
	onPipe(t, func(x *exchange) {
		x.pause(5 * time.Minute)
		x.result(taskEvent("t-1", "TASK_STATE_COMPLETED"))
	}, client.Options{CallTimeout: time.Minute}, func(t *testing.T, c *client.Client) {
		if _, err := c.SendMessage(t.Context(), hello()); err != nil {
			t.Errorf("a blocking send of five minutes: %v", err)
		}
		short, err := c.With(func(o *client.Options) { o.ResponseTimeout = time.Second })
		if err != nil {
			t.Fatal(err)
		}
		_, err = short.SendMessage(t.Context(), hello())
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindTimeout || !e.Sent {
			t.Errorf("got %v", err)
		}
	})
}

// Row 137a: after a cut, and where the agent cannot be subscribed to, the task is
// polled as slowly as the agent asks. The message is not sent again.
func TestRow137_CutThenPollsWithRetryAfter(t *testing.T) {
	onPipeWithPeer(t, func(x *exchange) {
		switch {
		case x.op == "SendStreamingMessage":
			x.event(taskEvent("t-1", "TASK_STATE_WORKING"))
			x.cut()
		case x.op == "SubscribeToTask":
			x.fail(a2a.Errorf(a2a.CodeUnsupportedOperation, "no streams today"))
		case x.n == 2:
			x.fail(&a2a.Error{Code: a2a.CodeUnavailable, Message: "later", RetryAfter: 100 * time.Second})
		default:
			x.result(task("t-1", "TASK_STATE_COMPLETED"))
		}
	}, client.Options{}, func(t *testing.T, p *peer, c *client.Client) {
		answer, err := c.SendAndWait(t.Context(), hello(), client.WaitOptions{})
		if err != nil || answer.Task.Status.State != a2a.StateCompleted {
			t.Errorf("got %+v, %v", answer, err)
		}
		if p.seen() != "SendStreamingMessage SubscribeToTask GetTask GetTask" || p.times[3].Sub(p.times[2]) != 100*time.Second {
			t.Errorf("the peer got %s at %v", p.seen(), p.times)
		}
	})
}

// Row 138: empty parts, a status without a message, states of later versions, and
// the task once more at the end.
func TestRow138_OddAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) {
			x.event(`{"task":{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_WORKING"},"artifacts":[{"artifactId":"a","parts":[]}]}}`)
			x.event(`{"statusUpdate":{"taskId":"t-1","contextId":"c-1","status":{}}}`)
			x.event(artifactEvent("t-1", "a", "x", `,"append":true`))
			x.event(taskEvent("t-1", "TASK_STATE_COMPLETED", `,"artifacts":[{"artifactId":"a","parts":[{"text":"x"}]},{"artifactId":"b","parts":[]}]`))
		})
		answer, err := p.client(t, client.Options{}).SendAndWait(t.Context(), hello(), client.WaitOptions{})
		if err != nil || answer.Task.Status.State != a2a.StateCompleted || len(answer.Task.Artifacts) != 2 || answer.Task.Artifacts[0].Parts[0].Text != "x" {
			t.Errorf("got %+v, %v", answer, err)
		}
	})
}

// Row S8: nothing that a card or an answer names is fetched, and an interface on a
// private host is not reached through a guarded client.
func TestRowS8_AddressesOfOthers(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		var hits atomic.Int32
		canary := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
		canary.Config.Protocols = withH2C()
		canary.Start()
		t.Cleanup(canary.Close)
		p := newPeer(t, binding, func(x *exchange) {
			x.event(taskEvent("t-1", "TASK_STATE_COMPLETED", fmt.Sprintf(`,"artifacts":[{"artifactId":"a","parts":[{"url":"%s/part"}]}]`, canary.URL)))
		})
		at := canary.URL
		p.card.IconURL, p.card.DocumentationURL = &at, &at
		p.card.Provider = &a2a.AgentProvider{URL: at, Organization: "x"}
		p.card.Signatures = []a2a.AgentCardSignature{{Protected: "eyJhbGciOiJFUzI1NiIsImprdSI6Imh0dHA6Ly8xMjcuMC4wLjEvIn0", Signature: "AA", Header: a2a.JSON(`{"jku":"` + at + `"}`)}}
		p.card.SecuritySchemes = map[string]a2a.SecurityScheme{
			"o":  {OAuth2: &a2a.OAuth2SecurityScheme{OAuth2MetadataURL: at, Flows: a2a.OAuthFlows{ClientCredentials: &a2a.ClientCredentialsOAuthFlow{TokenURL: at}}}},
			"id": {OpenIDConnect: &a2a.OpenIDConnectSecurityScheme{OpenIDConnectURL: at}},
		}
		cards := newCardServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(p.card.AppendJSON(nil)) })
		c, err := client.Dial(t.Context(), cards.URL, client.Options{HTTPClient: p.server.Client()})
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := c.SendAndWait(t.Context(), hello(), client.WaitOptions{}); err != nil || answer.Task.Artifacts[0].Parts[0].URL == "" {
			t.Errorf("got %+v, %v", answer, err)
		}

		guard := netguard.New(netguard.Policy{})
		private := newCard(binding, canary.URL)
		named, err := client.New(private, client.Options{HTTPClient: guard.Named(netguard.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		err = getTask(t.Context(), named)
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindRefused || e.Sent {
			t.Errorf("got %v", err)
		}
		_, err = client.Discover(t.Context(), canary.URL, client.Options{HTTPClient: guard.Named(netguard.Options{})})
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindRefused {
			t.Errorf("got %v", err)
		}
		if hits.Load() != 0 {
			t.Errorf("the canary was hit %d times", hits.Load())
		}
	})
}

// Row S13: a card of a gigabyte, and one that decompresses to it, are given up
// after the first megabyte.
func TestRowS13_EndlessCards(t *testing.T) {
	t.Parallel()
	for _, zipped := range []bool{false, true} {
		var sent atomic.Int64
		s := newCardServer(t, func(w http.ResponseWriter, _ *http.Request) {
			var out io.Writer = w
			if zipped {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				defer z.Close()
				out = z
			}
			b := bufio.NewWriterSize(out, 1<<20)
			_, _ = b.WriteString(`{"name":"`)
			blank := []byte(strings.Repeat("x", 1<<16))
			for range 1 << 14 { // a gigabyte
				n, err := b.Write(blank)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		})
		_, err := client.Discover(t.Context(), s.URL, client.Options{HTTPClient: s.Client()})
		if !errors.Is(err, client.ErrTooLarge) {
			t.Errorf("zipped %v: %v", zipped, err)
		}
		if !zipped && sent.Load() > 64<<20 {
			t.Errorf("%d bytes were taken", sent.Load())
		}
	}
}

// A card that depends on the request, or on who asks, is not given to others.
func TestCardCacheBetweenRequests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		header http.Header
		ask    func(o *client.Options, i int)
		want   int32 // requests for four cards
	}{
		{"same", nil, func(*client.Options, int) {}, 1},
		{"private", http.Header{"Cache-Control": {"private, max-age=60"}}, func(*client.Options, int) {}, 4},
		{"vary by a header that is the same", http.Header{"Vary": {"Accept, Accept-Encoding"}}, func(*client.Options, int) {}, 1},
		{"vary by everything", http.Header{"Vary": {"*"}}, func(*client.Options, int) {}, 4},
		{"vary by a header", http.Header{"Vary": {"x-region"}}, func(o *client.Options, i int) { o.Headers = http.Header{"X-Region": {fmt.Sprint(i / 2)}} }, 2},
		{"vary by extensions", http.Header{"Vary": {"A2A-Extensions"}}, func(o *client.Options, i int) { o.Extensions = []string{fmt.Sprint("https://x/", i/2)} }, 2},
		{"another http.Client", nil, func(o *client.Options, i int) {
			if i == 2 {
				o.HTTPClient = &http.Client{Transport: o.HTTPClient.Transport}
			}
		}, 2},
		{"no-store before a time", http.Header{"Cache-Control": {"max-age=60, no-store"}}, func(*client.Options, int) {}, 4},
		{"no-cache after a time", http.Header{"Cache-Control": {"no-cache, private"}}, func(*client.Options, int) {}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				rt := roundTripper(func(*http.Request) *http.Response {
					asked.Add(1)
					w := httptest.NewRecorder()
					w.Header().Set("Cache-Control", "max-age=60")
					for name, values := range tt.header {
						w.Header()[name] = values
					}
					writeCard(w)
					return w.Result()
				})
				opts := client.Options{HTTPClient: &http.Client{Transport: rt}, Cards: new(client.CardCache)}
				for i := range 4 {
					tt.ask(&opts, i)
					if _, err := client.Discover(t.Context(), "https://agent.test", opts); err != nil {
						t.Fatal(err)
					}
				}
				if asked.Load() != tt.want {
					t.Errorf("%d requests, want %d", asked.Load(), tt.want)
				}
			})
		})
	}
}
