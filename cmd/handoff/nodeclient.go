package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
)

// maxAnswer bounds an answer of the node's API, in bytes.
const maxAnswer = 64 << 20

// nodeAPI speaks to the API of a node.
type nodeAPI struct {
	name  string // of the node, for messages
	base  string // URL without a slash at its end
	token string
	http  *http.Client
	local bool // over the admin socket
}

// apiFlags say which node is meant.
type apiFlags struct {
	nodeFlags
	tls    tlsFlags
	node   string
	socket string
}

// register adds the options that name a node.
func (f *apiFlags) register(cmd *cobra.Command) {
	f.registerFile(cmd)
	f.registerStore(cmd, "the store of the node, when it was started with --store: the admin socket of a SQLite file is beside it")
	cmd.Flags().StringVar(&f.socket, "socket", "", "the admin socket of the node (default: that of the configuration)")
	cmd.Flags().StringVar(&f.node, "node", "", "the URL of the node (also HANDOFF_NODE; with HANDOFF_TOKEN); by default the one of the configuration file, over its admin socket")
	f.tls.register(cmd)
	cmd.MarkFlagsMutuallyExclusive("node", "store", "socket")
}

// openNode returns the node that is meant: by --socket, --store or --node, by
// HANDOFF_NODE where no option names another, else the one whose admin socket
// is beside the store of the configuration.
func (a *app) openNode(f *apiFlags) (*nodeAPI, error) {
	if f.socket != "" {
		return socketAt(f.socket), nil
	}
	node := f.node
	if node == "" && f.file == "" && !f.cmd.Flags().Changed("store") {
		node, _ = a.lookupEnv("HANDOFF_NODE")
	}
	if node == "" {
		c, err := f.loadStore()
		if err != nil {
			if e, ok := errors.AsType[*failure](err); ok && e.Hint != "" && e.Code == codeConfig {
				e.Hint = "Name a configuration with -c FILE, the store of the node with --store, its socket with --socket, or its URL with --node"
			}
			return nil, err
		}
		return socketNode(c)
	}
	u, err := url.Parse(node)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, usagef("the node %q is not a URL such as http://127.0.0.1:8080", node)
	}
	token, _ := a.lookupEnv("HANDOFF_TOKEN")
	base := strings.TrimSuffix(node, "/")
	// A redirect would take the token elsewhere.
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	transport, _, err := f.tls.transport(false)
	if err != nil {
		return nil, err
	}
	return &nodeAPI{name: base, base: base, token: token, http: &http.Client{CheckRedirect: refuse, Transport: transport}}, nil
}

// socketNode returns the node of a configuration, over its admin socket.
func socketNode(c *config.Config) (*nodeAPI, error) {
	path := handoff.SocketPath(c)
	if path == "" {
		return nil, usagef("a node whose store is in memory has no admin socket").hint("Name the node with --node URL")
	}
	return socketAt(path), nil
}

// socketAt returns the node that listens on an admin socket.
func socketAt(path string) *nodeAPI {
	dialer := &net.Dialer{}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", path)
	}}
	return &nodeAPI{name: path, base: "http://node", http: &http.Client{Transport: transport}, local: true}
}

// close frees the connections.
func (n *nodeAPI) close() { n.http.CloseIdleConnections() }

// request sends a request and returns the answer of a success; the caller closes its
// body. A body that is not nil is sent as JSON.
func (n *nodeAPI) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("write request: %w", err)
		}
		content = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, n.base+path, content)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
	}
	if n.token != "" {
		r.Header.Set("Authorization", "Bearer "+n.token)
	}
	response, err := n.http.Do(r)
	if err != nil {
		return nil, n.unreachable(err)
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return nil, n.refused(path, response.StatusCode, text)
}

// call sends a request to the API and returns the JSON of the answer, nil when
// there is none.
func (n *nodeAPI) call(ctx context.Context, method, path string, body any) (jsontext.Value, error) {
	response, err := n.request(ctx, method, "/api/v1"+path, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, failf(codeUnreachable, "the answer of the node broke off: %w", err)
	case len(data) > maxAnswer:
		return nil, failf(codeInternal, "the answer of the node is larger than %d bytes", maxAnswer)
	case len(data) == 0:
		return nil, nil
	}
	value := jsontext.Value(data)
	if !value.IsValid() {
		return nil, failf(codeInternal, "the answer of %s is not JSON; is it a node?", n.name)
	}
	return value, nil
}

// get is call for an answer that is decoded too.
func (n *nodeAPI) get(ctx context.Context, method, path string, body, into any) (jsontext.Value, error) {
	value, err := n.call(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	return value, decodeAnswer(value, into)
}

// decodeAnswer decodes an answer of the API.
func decodeAnswer(value jsontext.Value, into any) error {
	if err := json.Unmarshal(value, into, json.MatchCaseInsensitiveNames(true)); err != nil {
		return failf(codeInternal, "the answer of the node is not understood: %w", err)
	}
	return nil
}

// refused makes a failure of an answer that is an error. The names of the
// protocol are for what it knows: tasks. What else a node refuses has names of
// ours (a2a-cli §11.4).
func (n *nodeAPI) refused(path string, status int, body []byte) error {
	if hint := schemeHint(string(body)); status == http.StatusBadRequest && hint != "" {
		return failf(codeUnreachable, "the node at %s does not answer: HTTP %d", n.name, status).hint("%s", hint)
	}
	e := a2a.ParseStatusError(body, status)
	f := protocolFailure(e)
	f.Message = strings.TrimSpace(f.Message)
	switch {
	case e.Code == a2a.CodeUnauthenticated:
		f.A2ACode = 0
		f.Hint = "Set HANDOFF_TOKEN to an API key of an operator or an admin (handoff keys create --role), or to a token of one, or run the command on the node's machine, where the admin socket is"
	case e.Code == a2a.CodePermissionDenied:
		f.A2ACode = 0
		f.Hint = "Use a token of that role, or run the command on the node's machine, where the admin socket is"
	case strings.HasPrefix(path, "/api/v1/tasks"):
	case strings.Contains(f.Message, "\n"):
		f.Code, f.A2ACode = codeConfig, 0
	case e.Code == a2a.CodeTaskNotFound:
		f.Code, f.A2ACode = codeNotFound, 0
	case e.Code == a2a.CodeInternal:
		f.Code, f.A2ACode = codeInternal, 0
	default:
		f.Code, f.A2ACode = codeRefused, 0
	}
	if strings.Contains(f.Message, "\n") {
		return &problemsFailure{f}
	}
	return f
}

// unreachable tells why there was no answer.
func (n *nodeAPI) unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	f := failf(codeUnreachable, "the node at %s does not answer: %w", n.name, err)
	switch {
	case !n.local && schemeHint(err.Error()) != "":
		f.Hint = schemeHint(err.Error())
	case !n.local && tlsHint(err, n.base) != "":
		f.Hint = tlsHint(err, n.base)
	case !n.local:
		f.Hint = "Is it running? Check the URL of --node or HANDOFF_NODE"
	case absent(err):
		f = failf(codeUnreachable, "the node is not running: nobody listens on %s%w", n.name, silent{err})
		f.Hint = "Start it with: handoff serve; one that was started with --store is named with the same --store here, or with --socket"
	case errors.Is(err, os.ErrPermission):
		f.Hint = "The admin socket belongs to the user who runs the node; run the command as that user"
	}
	return f
}

// silent is a cause that the message does not repeat.
type silent struct{ err error }

func (silent) Error() string { return "" }

func (s silent) Unwrap() error { return s.err }

// absent reports whether nobody listens on a socket.
func absent(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// ready reports whether the node answers and takes messages.
func (n *nodeAPI) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	response, err := n.request(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
