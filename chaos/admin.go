//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// admin reads what is in the store, over the socket of any node that answers.
type admin struct{ http *http.Client }

func newAdmin(sockets []string) *admin {
	return &admin{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var errs []error
			for _, socket := range sockets {
				connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
				if err == nil {
					return connection, nil
				}
				errs = append(errs, err)
			}
			return nil, errors.Join(errs...)
		},
	}}}
}

func (a *admin) open(ctx context.Context, path string) (io.ReadCloser, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node/api/v1"+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := a.http.Do(q)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		return nil, fmt.Errorf("read %s: %s: %s", path, answer.Status, body)
	}
	return answer.Body, nil
}

func (a *admin) get(ctx context.Context, path string, v any) error {
	body, err := a.open(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.UnmarshalRead(body, v)
}

// stored is a task as the store has it.
type stored struct {
	Agent   string   `json:"agent"`
	Turn    int      `json:"turn"`
	Attempt int      `json:"attempt"`
	Events  int64    `json:"events"`
	Task    a2a.Task `json:"task"`
}

// tasks returns all tasks.
func (a *admin) tasks(ctx context.Context) ([]stored, error) {
	var all []stored
	for token := ""; ; {
		var page struct {
			Tasks []stored `json:"tasks"`
			Next  string   `json:"next_page_token"`
			Total int      `json:"total_size"`
		}
		if err := a.get(ctx, "/tasks?page_size=100&page_token="+url.QueryEscape(token), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Tasks...)
		if token = page.Next; token == "" {
			if len(all) != page.Total {
				return nil, fmt.Errorf("the pages have %d tasks, and there should be %d", len(all), page.Total)
			}
			return all, nil
		}
	}
}

// event is an event as the store has it.
type event struct {
	Seq   int64          `json:"seq"`
	Kind  string         `json:"kind"`
	Event jsontext.Value `json:"event"`
}

// events returns the log of a task.
func (a *admin) events(ctx context.Context, id string) ([]event, error) {
	body, err := a.open(ctx, "/tasks/"+id+"/events")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var events []event
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
}

// unsettled counts the tasks that somebody works on.
func (a *admin) unsettled(ctx context.Context) (int, error) {
	var status struct {
		Tasks []struct {
			State string `json:"state"`
			Count int    `json:"count"`
		} `json:"tasks"`
	}
	if err := a.get(ctx, "/status", &status); err != nil {
		return 0, err
	}
	n := 0
	for _, s := range status.Tasks {
		if s.State == a2a.StateWorking.String() || s.State == a2a.StateSubmitted.String() {
			n += s.Count
		}
	}
	return n, nil
}
