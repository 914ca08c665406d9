package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mask"
	"handoff.example/handoff/internal/netguard"
)

// client speaks to the API of a model. It takes nothing from the environment.
type client struct {
	conf    *config.LLM
	api     openai.ChatCompletionService
	secrets *mask.Secrets // which no answer brings back
}

// maxAnswerBytes bounds what an answer may be on the wire.
const maxAnswerBytes = 64 << 20

func newClient(c *config.LLM, h *http.Client) *client {
	opts := []option.RequestOption{
		option.WithBaseURL(c.BaseURL), option.WithHTTPClient(h), option.WithMaxRetries(0),
		option.WithHeader("User-Agent", "handoff"),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			res, err := next(r)
			if err == nil {
				res.Body = netguard.MaxBytes(res.Body, maxAnswerBytes)
			}
			return res, err
		}),
	}
	secrets := []string{c.Key.Reveal()}
	if !c.Key.IsZero() {
		opts = append(opts, option.WithAPIKey(c.Key.Reveal()))
	}
	for name, value := range c.Headers {
		opts = append(opts, option.WithHeader(name, value.Reveal()))
		secrets = append(secrets, value.Reveal())
		if _, token, ok := strings.Cut(value.Reveal(), " "); ok {
			secrets = append(secrets, token)
		}
	}
	var extra map[string]jsontext.Value
	if c.Extra != nil && json.Unmarshal(c.Extra, &extra) == nil {
		for name, value := range extra {
			opts = append(opts, option.WithJSONSet(escaped(name), value))
		}
	}
	return &client{conf: c, api: openai.NewChatCompletionService(opts...), secrets: mask.New(secrets...)}
}

// escaped is a name as a path of one member.
func escaped(name string) string {
	return strings.NewReplacer(`\`, `\\`, `.`, `\.`, `*`, `\*`, `?`, `\?`, `:`, `\:`).Replace(name)
}

// usage is what an answer has used, in tokens.
type usage struct {
	input, cached, output int64
	told                  bool // by the model; otherwise nobody knows
}

// answer is an answer of a model.
type answer struct {
	text    string
	refusal string
	calls   []function
	finish  string
	usage   usage
}

// errCut says that an answer has ended before its end.
var errCut = errors.New("the answer was cut")

// errSilent says that the model was silent for too long.
var errSilent = errors.New("the model was silent for too long")

// errIdle says that an answer has brought nothing for too long.
var errIdle = errors.New("the answer brought nothing for too long")

// errEndless says that an answer has come to no end in its time.
var errEndless = errors.New("the answer came to no end")

// params is the request of a turn, with images as data URLs.
func (w *work) params(shown map[image]string) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: w.conf.Model}
	p.Messages = append(p.Messages, openai.SystemMessage(w.system()))
	for i := range w.state.Conversation {
		p.Messages = append(p.Messages, w.state.Conversation[i].param(shown))
	}
	for i := range w.offered().functions {
		f := &w.offered().functions[i]
		var parameters map[string]jsontext.Value
		if err := json.Unmarshal(f.parameters, &parameters); err != nil {
			continue // it was one when it was offered
		}
		schema := shared.FunctionParameters{}
		for name, value := range parameters {
			schema[name] = value
		}
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: f.name, Description: openai.String(f.description), Parameters: schema,
		}))
	}
	if w.conf.MaxOutput > 0 {
		p.MaxCompletionTokens = openai.Int(int64(w.conf.MaxOutput))
	}
	if w.conf.Temperature != nil {
		p.Temperature = openai.Float(*w.conf.Temperature)
	}
	if w.conf.Stream {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	return p
}

// param is a message as the API has it.
func (m *message) param(shown map[image]string) openai.ChatCompletionMessageParamUnion {
	switch m.Role {
	case roleUser:
		return m.userParam(shown)
	case roleTool:
		return openai.ToolMessage(m.Text, m.ID)
	}
	a := openai.ChatCompletionAssistantMessageParam{}
	if m.Text != "" || len(m.Calls) == 0 {
		a.Content.OfString = openai.String(m.Text)
	}
	for _, c := range m.Calls {
		a.ToolCalls = append(a.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: c.ID, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: c.Arguments},
			},
		})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

// complete asks the model. What it says is given to text as it comes, which ends the
// answer with an error.
func (c *client) complete(ctx context.Context, p openai.ChatCompletionNewParams, text func(string) error) (*answer, error) {
	life, end := context.WithCancelCause(ctx)
	defer end(nil)
	if d := c.conf.Limits.AnswerTime.Std(); d > 0 {
		defer time.AfterFunc(d, func() { end(errEndless) }).Stop()
	}
	alive := func() {}
	if d := c.conf.Timeout.Std(); d > 0 {
		timer := time.AfterFunc(d, func() { end(errSilent) })
		defer timer.Stop()
		alive = func() { timer.Reset(d) }
	}
	// What keeps the connection open is a sign of life, and no piece of the answer.
	watch := option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		res, err := next(r)
		if err == nil {
			alive()
			res.Body = &watched{res.Body, alive}
		}
		return res, err
	})
	var a *answer
	var err error
	if c.conf.Stream {
		piece := func() {}
		if d := c.conf.Limits.AnswerIdle.Std(); d > 0 {
			timer := time.AfterFunc(d, func() { end(errIdle) })
			defer timer.Stop()
			piece = func() { timer.Reset(d) }
		}
		a, err = c.stream(life, p, text, piece, watch)
	} else {
		a, err = c.whole(life, p, text, watch)
	}
	if cause := context.Cause(life); err != nil && cause != nil {
		err = cause // and not that a request was canceled
	}
	return a, err
}

// watched tells of each read.
type watched struct {
	io.ReadCloser
	alive func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.alive()
	return n, err
}

// whole asks for the answer in one piece.
func (c *client) whole(ctx context.Context, p openai.ChatCompletionNewParams, text func(string) error, watch option.RequestOption) (*answer, error) {
	res, err := c.api.New(ctx, p, watch)
	if err != nil {
		return nil, err
	}
	if len(res.Choices) == 0 {
		return nil, errCut
	}
	choice := &res.Choices[0]
	g := gathered{answer: answer{text: c.secrets.Text(choice.Message.Content), finish: choice.FinishReason, usage: usageOf(&res.Usage)}}
	a := &g.answer
	if err := g.refuse(choice.Message.Refusal); err != nil {
		return nil, err
	}
	for i := range choice.Message.ToolCalls {
		t := &choice.Message.ToolCalls[i]
		call, err := g.begin()
		if err != nil {
			return nil, err
		}
		if err := g.add(call, t.ID, t.Function.Name, t.Function.Arguments); err != nil {
			return nil, err
		}
	}
	if a.finish == "" {
		a.finish = "stop"
	}
	c.hide(a)
	if a.text != "" {
		if err := text(a.text); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// stream asks for the answer in pieces, and calls piece with each that has something.
// One that comes to no end was cut.
func (c *client) stream(ctx context.Context, p openai.ChatCompletionNewParams, text func(string) error, piece func(), watch option.RequestOption) (*answer, error) {
	stream := c.api.NewStreaming(ctx, p, watch)
	defer func() { _ = stream.Close() }() // what was read is all that counts
	g := gathered{byIndex: map[int64]int{}, hidden: c.secrets.Stream()}
	for stream.Next() {
		chunk := stream.Current()
		if chunk.JSON.Usage.Valid() {
			g.answer.usage = usageOf(&chunk.Usage)
		}
		if brings(&chunk) {
			piece()
		}
		for i := range chunk.Choices {
			if chunk.Choices[i].Index == 0 {
				if err := g.take(&chunk.Choices[i], text); err != nil {
					return nil, err
				}
			}
		}
	}
	switch err := stream.Err(); {
	case err != nil:
		return nil, err
	case g.answer.finish == "":
		return nil, errCut
	}
	if err := g.tell(g.hidden.Rest(), text); err != nil {
		return nil, err
	}
	g.answer.text = g.text.String()
	c.hide(&g.answer)
	return &g.answer, nil
}

// hide masks what an answer has besides its text.
func (c *client) hide(a *answer) {
	a.refusal, a.finish = c.secrets.Text(a.refusal), c.secrets.Text(a.finish)
	for i := range a.calls {
		f := &a.calls[i]
		f.ID, f.Name, f.Arguments = c.secrets.Text(f.ID), c.secrets.Text(f.Name), c.secrets.Text(f.Arguments)
	}
}

// brings reports whether an event has anything of the answer in it: words, calls, an
// end, or what an API has of its own, such as the model's reasoning.
func brings(chunk *openai.ChatCompletionChunk) bool {
	for i := range chunk.Choices {
		d := &chunk.Choices[i].Delta
		if d.Content != "" || d.Refusal != "" || len(d.ToolCalls) > 0 || chunk.Choices[i].FinishReason != "" {
			return true
		}
		for _, field := range d.JSON.ExtraFields {
			switch field.Raw() {
			case "", "null", `""`, "{}", "[]":
			default:
				return true
			}
		}
	}
	return false
}

// gathered is an answer as it comes.
type gathered struct {
	answer  answer
	text    strings.Builder
	byIndex map[int64]int // of calls
	bytes   int           // of calls and a refusal
	hidden  *mask.Stream  // masks its text
}

// Bounds of one answer but for its text, which limits.artifact_bytes has.
const (
	maxGatheredBytes = 4 << 20
	maxGatheredCalls = 256
)

// take takes a piece of an answer.
func (g *gathered) take(choice *openai.ChatCompletionChunkChoice, text func(string) error) error {
	d := &choice.Delta
	if err := g.tell(g.hidden.Add(d.Content), text); err != nil {
		return err
	}
	if err := g.refuse(d.Refusal); err != nil {
		return err
	}
	for i := range d.ToolCalls {
		t := &d.ToolCalls[i]
		at, ok := g.byIndex[t.Index]
		// Some have no index, and begin the next call with another id.
		if ok && t.ID != "" && g.answer.calls[at].ID != "" && t.ID != g.answer.calls[at].ID {
			ok = false
		}
		if !ok {
			var err error
			if at, err = g.begin(); err != nil {
				return err
			}
			g.byIndex[t.Index] = at
		}
		if err := g.add(at, t.ID, t.Function.Name, t.Function.Arguments); err != nil {
			return err
		}
	}
	if choice.FinishReason != "" {
		g.answer.finish = choice.FinishReason
	}
	return nil
}

// tell adds a piece of the text, which has no credentials any more.
func (g *gathered) tell(piece string, text func(string) error) error {
	if piece == "" {
		return nil
	}
	g.text.WriteString(piece)
	return text(piece)
}

// begin begins a call.
func (g *gathered) begin() (at int, err error) {
	if at = len(g.answer.calls); at == maxGatheredCalls {
		return 0, errors.New("the answer has too many calls")
	}
	g.answer.calls = append(g.answer.calls, function{})
	return at, nil
}

// add adds a piece of a call.
func (g *gathered) add(at int, id, name, arguments string) error {
	if err := g.grow(len(id) + len(name) + len(arguments)); err != nil {
		return err
	}
	call := &g.answer.calls[at]
	if call.ID == "" {
		call.ID = id
	}
	if call.Name != name {
		call.Name += name
	}
	call.Arguments += arguments
	return nil
}

// refuse adds a piece of a refusal.
func (g *gathered) refuse(text string) error {
	g.answer.refusal += text
	return g.grow(len(text))
}

func (g *gathered) grow(bytes int) error {
	if g.bytes += bytes; g.bytes > maxGatheredBytes {
		return errors.New("the answer is too long")
	}
	return nil
}

func usageOf(u *openai.CompletionUsage) usage {
	const most = 1 << 40 // nobody's tokens are so many
	in, out, cached := u.PromptTokens, u.CompletionTokens, u.PromptTokensDetails.CachedTokens
	if in < 0 || out < 0 || in > most || out > most || in+out == 0 {
		return usage{}
	}
	return usage{input: in, output: out, cached: max(0, min(cached, in)), told: true}
}

// failure is what an error of the API means.
type failure struct {
	text    string        // for whoever reads the task
	detail  string        // for the log: what the API has said, which is not the caller's business
	outcome string        // busy, cut, failed
	status  int           // of HTTP; 0: there was none
	again   bool          // the model may be asked again
	after   time.Duration // as it has said; 0: it has not
	counts  bool          // it may have cost something
}

// failureOf understands an error of the API.
func (c *client) failureOf(err error, now time.Time) failure {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return c.refusal(e, now)
	}
	if e, ok := errors.AsType[*ssestream.StreamError](err); ok {
		return failure{text: "The model has ended its answer with an error.", detail: c.shown(e.Message), outcome: "cut", again: true, counts: true}
	}
	if e, ok := errors.AsType[*netguard.BlockedError](err); ok {
		return failure{text: "The model is not reached: its address is not allowed.", detail: c.shown(e.Error()), outcome: "failed"}
	}
	switch {
	case errors.Is(err, errSilent):
		return failure{text: "The model was silent for longer than " + c.conf.Timeout.String() + ".", outcome: "cut", again: true, counts: true}
	case errors.Is(err, errIdle):
		return failure{text: "The answer of the model brought nothing for longer than " + c.conf.Limits.AnswerIdle.String() + " (run.llm.limits.answer_idle).", outcome: "cut", again: true, counts: true}
	case errors.Is(err, errEndless):
		return failure{text: "The answer of the model came to no end within " + c.conf.Limits.AnswerTime.String() + " (run.llm.limits.answer_time).", outcome: "cut", again: true, counts: true}
	case errors.Is(err, errCut), errors.Is(err, io.ErrUnexpectedEOF):
		return failure{text: "The answer of the model was cut.", outcome: "cut", again: true, counts: true}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the URL may have a secret
	}
	return failure{text: "The model has not answered.", detail: c.shown(err.Error()), outcome: "failed", again: true, counts: true}
}

// refusal understands an answer that is no success.
func (c *client) refusal(e *openai.Error, now time.Time) failure {
	f := failure{status: e.StatusCode, outcome: "failed", detail: c.shown(e.Message)}
	switch {
	case e.StatusCode == http.StatusUnauthorized, e.StatusCode == http.StatusForbidden:
		f.text = fmt.Sprintf("The model's API has refused the agent's key (%d).", e.StatusCode)
	case e.Code == "insufficient_quota":
		f.text = "The agent's account at the model's API has no quota left."
	case e.Code == "context_length_exceeded":
		f.text = "The conversation is longer than the model takes; lower run.llm.limits.context."
	case e.StatusCode == http.StatusTooManyRequests, e.StatusCode == http.StatusRequestTimeout, e.StatusCode == http.StatusConflict, e.StatusCode >= 500:
		f.text, f.again = fmt.Sprintf("The model's API has answered %d.", e.StatusCode), true
		if e.StatusCode == http.StatusTooManyRequests || e.StatusCode == http.StatusServiceUnavailable {
			f.outcome = "busy"
		}
		if e.Response != nil {
			f.after = retryAfter(e.Response.Header, now)
		}
	default:
		f.text = fmt.Sprintf("The model's API has refused the request (%d).", e.StatusCode)
	}
	return f
}

// shown is a text of the API as a log may have it: short, and without secrets.
func (c *client) shown(text string) string {
	text = strings.Join(strings.Fields(c.secrets.Text(text)), " ")
	return clean(auth.Redact(text), 300)
}

// retryAfter is how long an answer asks to wait; 0: it does not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, 1e12)) * time.Millisecond
	}
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 1e8) * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// How long to wait after failures.
const (
	firstRetry = 500 * time.Millisecond // doubled each time
	mostRetry  = time.Minute
	parkRetry  = 5 * time.Second // from here on the turn ends meanwhile
)

func backoff(failures int) time.Duration {
	d := min(firstRetry<<min(failures-1, 10), mostRetry)
	return d/2 + rand.N(d/2)
}

// chunks gathers the pieces of a text to chunks of an artifact, so that one comes at
// most every so often.
type chunks struct {
	emit func(text string, last bool) error

	mu      sync.Mutex
	pending strings.Builder
	timer   *time.Timer
	err     error
	sent    bool // anything
}

// betweenChunks is how long pieces are gathered.
const betweenChunks = 50 * time.Millisecond

// add takes a piece.
func (c *chunks) add(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending.WriteString(text)
	if c.timer == nil {
		c.timer = time.AfterFunc(betweenChunks, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.flush(false)
		})
	}
	return c.err
}

func (c *chunks) flush(last bool) {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if c.err == nil && (c.pending.Len() > 0 || last && c.sent) {
		c.err, c.sent = c.emit(c.pending.String(), last), true
		c.pending.Reset()
	}
}

// end sends what is left, as the last chunk or not.
func (c *chunks) end(last bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush(last)
	return c.err
}
