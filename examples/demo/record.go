package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// record is the company's node as its API shows it: what the console shows too.
type record struct {
	base string
	keys map[string]string // by who asks
	http *http.Client
}

func newRecord(p *place) *record {
	return &record{base: p.url(company), keys: p.Key, http: &http.Client{Transport: new(http.Transport)}}
}

// maxAnswer bounds an answer of the API, in bytes.
const maxAnswer = 8 << 20

// call asks the API for somebody.
func (r *record) call(ctx context.Context, who, method, path string, body, into any) error {
	text, err := r.fetch(ctx, who, method, path, body)
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (r *record) fetch(ctx context.Context, who, method, path string, body any) ([]byte, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.base+"/api/v1"+path, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+r.keys[who])
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := r.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil && response.StatusCode != http.StatusOK {
		err = refusal(response.Status, text)
	}
	return text, err
}

// refusal is what the API says when it does not do what was asked.
func refusal(status string, text []byte) error {
	var said struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &said) != nil || said.Error.Message == "" {
		return errors.New(status)
	}
	return errors.New(said.Error.Message)
}

func (r *record) get(ctx context.Context, path string, into any) error {
	return r.call(ctx, reader, http.MethodGet, path, nil, into)
}

// delegation is work that was handed on.
type delegation struct {
	ID      string    `json:"id"`
	To      string    `json:"to"`
	State   string    `json:"state"`
	Created time.Time `json:"created"`
}

// delegations are those for a task.
func (r *record) delegations(ctx context.Context, task string) ([]delegation, error) {
	var list struct {
		Delegations []delegation `json:"delegations"`
	}
	err := r.get(ctx, "/delegations?root="+url.QueryEscape(task), &list)
	return list.Delegations, err
}

// event is one of a task.
type event struct {
	Seq   int64              `json:"seq"`
	Event a2a.StreamResponse `json:"event"`
}

// events are those of a task after one of them.
func (r *record) events(ctx context.Context, task string, after int64) ([]event, error) {
	path := "/tasks/" + url.PathEscape(task) + "/events?limit=10000&after=" + strconv.FormatInt(after, 10)
	text, err := r.fetch(ctx, reader, http.MethodGet, path, nil)
	var all []event
	for line := range strings.Lines(string(text)) {
		var e event
		if err == nil {
			err = json.Unmarshal([]byte(line), &e)
		}
		all = append(all, e)
	}
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return all, nil
}

// item is what waits for somebody, or has.
type item struct {
	ID       string         `json:"id"`
	Kind     string         `json:"kind"`
	Agent    string         `json:"agent"`
	Task     string         `json:"task"`
	Text     string         `json:"text"`
	Schema   jsontext.Value `json:"schema"`
	Created  time.Time      `json:"created"`
	Settled  time.Time      `json:"settled"`
	By       string         `json:"by"`
	Decision string         `json:"decision"`
	Words    string         `json:"words"`
}

// inbox are the items of a task, which wait or were settled.
func (r *record) inbox(ctx context.Context, task string, settled bool) ([]item, error) {
	var list struct {
		Items []item `json:"items"`
	}
	err := r.get(ctx, "/inbox?settled="+strconv.FormatBool(settled)+"&task="+url.QueryEscape(task), &list)
	return list.Items, err
}

// toolCall is a call that the gateway has let through.
type toolCall struct {
	ID        int64          `json:"id"`
	At        time.Time      `json:"time"`
	Operation string         `json:"operation"`
	Agent     string         `json:"agent"`
	Target    string         `json:"target"`
	Result    string         `json:"result"`
	Request   string         `json:"request"`
	Content   jsontext.Value `json:"content"`
}

// toolCalls are the calls of tools after one in the log, and where the log ends.
func (r *record) toolCalls(ctx context.Context, after int64) (calls []toolCall, last int64, err error) {
	var list struct {
		Entries []toolCall `json:"entries"`
	}
	err = r.get(ctx, "/audit?limit=1000&after="+strconv.FormatInt(after, 10), &list)
	for _, e := range list.Entries {
		if after = e.ID; e.Operation == "tools/call" {
			calls = append(calls, e)
		}
	}
	return calls, after, err
}
