package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// jsonRPC is the JSON-RPC binding (A2A §9).
type jsonRPC struct {
	*link
	url    *url.URL
	tenant string
	old    bool // speaks version 0.3
	lastID atomic.Uint64
}

func (b *jsonRPC) newCall(r *request, accept string) (*call, jsontext.Value, error) {
	method, params, header := r.op, []byte(nil), r.header
	if b.old {
		var err error
		if method, params, header, err = oldCall(r, &b.opts); err != nil {
			return nil, nil, err
		}
	}
	// Some peers take a numeral in a string for a number, and answer with that.
	id := `"h` + strconv.FormatUint(b.lastID.Add(1), 10) + `"`
	body := make([]byte, 0, 512)
	body = append(body, `{"jsonrpc":"2.0","id":`...)
	body = append(body, id...)
	body = append(body, `,"method":"`...)
	body = append(body, method...)
	body = append(body, `","params":`...)
	if b.old {
		body = append(body, params...)
	} else {
		setTenant(r.params, b.tenant)
		body = r.params.AppendJSON(body)
	}
	body = append(body, '}')
	return &call{
		op:        r.op,
		method:    http.MethodPost,
		url:       b.url,
		body:      body,
		mediaType: mediaJSON,
		accept:    accept,
		header:    header,
	}, jsontext.Value(id), nil
}

func (b *jsonRPC) unary(ctx context.Context, r *request, out a2a.Decodable) error {
	c, id, err := b.newCall(r, mediaJSON)
	if err != nil {
		return err
	}
	resp, err := b.do(ctx, c)
	if err != nil {
		return err
	}
	if !success(resp) {
		return b.statusError(ctx, c, resp)
	}
	body, err := b.readBody(ctx, c, resp, b.opts.MaxResponse)
	if err != nil {
		return err
	}
	result, err := resultOf(body, id, out == nil)
	if err == nil && r.result != nil {
		*r.result = result
	}
	if err == nil && out != nil {
		err = b.decode(nil, result, out)
	}
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		e.RetryAfter = max(e.RetryAfter, retryAfter(resp.Header, time.Now()))
		return e
	}
	if err != nil {
		return b.badAnswer(c, resp, describe(resp, body, err))
	}
	return nil
}

func (b *jsonRPC) stream(ctx context.Context, r *request) (*Stream, error) {
	c, id, err := b.newCall(r, mediaEvents+", "+mediaJSON)
	if err != nil {
		return nil, err
	}
	return b.openStream(ctx, c, b.do, func(frame []byte, memory *a2a.Memory, out *a2a.StreamResponse) error {
		result, err := resultOf(frame, id, false)
		if err != nil {
			return err
		}
		return b.decode(memory, result, out)
	})
}

func (b *jsonRPC) decode(memory *a2a.Memory, result []byte, out a2a.Decodable) error {
	if b.old {
		return decodeOld(v03.RPC, result, out)
	}
	return decodeWith(memory, result, out)
}

// resultOf returns the result of a JSON-RPC response. The error is an
// *a2a.Error when the response holds one. Where nothing is to be answered, the
// result may be missing: some peers leave it out because it is null.
func resultOf(body []byte, id jsontext.Value, empty bool) (jsontext.Value, error) {
	env, err := parseEnvelope(body)
	switch {
	case err != nil:
		return nil, err
	case env.err.Kind() == '{' && (env.result == nil || env.result.Kind() == 'n'):
		// A request that could not be read is answered with a null id.
		if env.id != nil && env.id.Kind() != 'n' && !sameID(env.id, id) {
			return nil, errWrongID(env.id)
		}
		return nil, a2a.ParseJSONRPCError(env.err)
	case env.err != nil && env.err.Kind() != 'n':
		return nil, errors.New("the JSON-RPC response has an unusable error")
	case env.result == nil && (!empty || env.id == nil):
		return nil, errors.New("the JSON-RPC response has neither result nor error")
	case !sameID(env.id, id):
		return nil, errWrongID(env.id)
	}
	return env.result, nil
}

func errWrongID(id jsontext.Value) error {
	if id == nil {
		return errors.New("the JSON-RPC response has no id")
	}
	return fmt.Errorf("the JSON-RPC response has the id %s of another request", summary(id))
}

// sameID reports whether a response names the request: by the same string,
// however it is escaped.
func sameID(got, want jsontext.Value) bool {
	if string(got) == string(want) {
		return true
	}
	if got.Kind() != '"' {
		return false
	}
	text, err := jsontext.AppendUnquote(nil, got)
	return err == nil && string(text) == string(want[1:len(want)-1])
}
