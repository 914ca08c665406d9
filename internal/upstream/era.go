package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
)

// clientInfo is how the node presents itself.
var clientInfo = jsontext.Value(`{"name":"handoff","version":"1"}`)

// eraMemory remembers which revision a server speaks (VER-05).
type eraMemory struct {
	fixed string // by the configuration; "": found out

	mu    sync.Mutex
	found string
	gate  chan struct{} // holds one: only one asks
}

func newEra(revision string) *eraMemory {
	m := &eraMemory{gate: make(chan struct{}, 1)}
	switch revision {
	case "", "auto":
	case "modern":
		m.fixed = mcp.Modern
	case "legacy":
		m.fixed = mcp.Legacy
	default:
		m.fixed = revision
	}
	return m
}

// known returns the revision, or "".
func (m *eraMemory) known() string {
	if m.fixed != "" {
		return m.fixed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.found
}

func (m *eraMemory) set(revision string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found = revision
}

// forget makes the next request ask anew.
func (m *eraMemory) forget() { m.set("") }

// once calls find unless the revision is known, one at a time.
func (m *eraMemory) once(ctx context.Context, find func() (string, error)) (string, error) {
	if known := m.known(); known != "" {
		return known, nil
	}
	select {
	case m.gate <- struct{}{}:
		defer func() { <-m.gate }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if known := m.known(); known != "" {
		return known, nil
	}
	found, err := find()
	if err != nil {
		return "", err
	}
	m.set(found)
	return found, nil
}

// modern reports whether a server is a modern one, and asks it where that is not
// known.
func (m *eraMemory) modern(ctx context.Context, h *httpServer, caller *auth.Principal) (bool, error) {
	revision, err := m.once(ctx, func() (string, error) { return h.detect(ctx, caller) })
	if err != nil {
		if _, ok := errors.AsType[*Error](err); !ok {
			err = h.unavailable(err)
		}
		return false, err
	}
	h.health.speaks(revision)
	return mcp.IsModern(revision), nil
}

// detect finds out which revision a server speaks: it is asked what it is, and
// taken for a legacy one where it does not answer as a modern one (VER-06).
func (h *httpServer) detect(ctx context.Context, caller *auth.Principal) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.timeout, &tooLong{h.timeout})
	defer cancel()
	probe := mcp.NewRequest(jsontext.Value(`"discover"`), mcp.MethodDiscover, nil, mcp.Meta{Client: clientInfo})
	call := &Request{Message: probe, Caller: caller}
	answer, err := h.modern(ctx, call)
	if err != nil {
		status, ok := errors.AsType[*statusError](err)
		if !errors.Is(err, errEra) && (!ok || status.status == http.StatusUnauthorized || status.status == http.StatusForbidden) {
			return "", err
		}
	} else if m, err := lastOf(answer); err == nil {
		if supported, ok := revisionOf(m); ok {
			return h.choose(supported)
		}
	}
	revision, legacyErr := h.legacy.probe(ctx, caller)
	if isModernRefusal(legacyErr) {
		return mcp.Modern, nil // it knows no initialize (VER-09)
	}
	if legacyErr != nil {
		return "", h.sessionError(legacyErr)
	}
	return revision, nil
}

// choose takes the newest revision of those that both sides speak.
func (t *target) choose(supported []string) (string, error) {
	for _, revision := range mcp.Revisions {
		if slices.Contains(supported, revision) {
			return revision, nil
		}
	}
	return "", t.refused("it speaks no revision that the node speaks", fmt.Errorf("it speaks %.200q", supported))
}

// revisionOf returns what a modern server says that it speaks in answer to
// server/discover. ok is false for an answer that a modern server does not give.
func revisionOf(m *mcp.Message) (supported []string, ok bool) {
	if e := m.Error(); e != nil {
		switch {
		case e.Code == mcp.CodeUnsupportedVersion:
			return supportedBy(e), true
		case isModernError(e):
			return []string{mcp.Modern}, true
		}
		return nil, false
	}
	if err := json.Unmarshal(m.Param("supportedVersions"), &supported); err != nil {
		return nil, false
	}
	return supported, true
}

// isModernError reports whether only modern servers answer with such an error.
func isModernError(e *mcp.Error) bool {
	switch e.Code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return true
	}
	return false
}

// isModernRefusal reports whether a server has refused to begin a session because it
// knows none (VER-09).
func isModernRefusal(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		err = e.Err
	}
	e, ok := errors.AsType[*mcp.Error](err)
	return ok && (e.Code == mcp.CodeMethodNotFound || isModernError(e))
}

// supportedBy returns the revisions that an error names.
func supportedBy(e *mcp.Error) []string {
	var data struct {
		Supported []string `json:"supported"`
	}
	if e.Data == nil || json.Unmarshal(e.Data, &data) != nil {
		return nil
	}
	return data.Supported
}

func contains(list []string, one string) bool { return slices.Contains(list, one) }
