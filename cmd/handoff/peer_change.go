package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// newPeer is what peer add sends: the configuration of a peer in the form of the
// file.
type newPeer struct {
	from         string
	bearer, key  string
	basic        string
	pin          bool
	origins      []string
	deduplicates string
}

func newPeerAddCommand(a *app) *cobra.Command {
	var q newPeer
	cmd := adminCommand(a, "add NAME [CARD]", "Add a peer while the node runs", cobra.RangeArgs(1, 2), func(ctx context.Context, node *nodeAPI, args []string) error {
		body, err := q.body(a, args[1:])
		if err != nil {
			return err
		}
		return a.showPeer(ctx, node, "POST", "/peers", map[string]any{"name": args[0], "config": body})
	})
	cmd.Long = `Add a peer while the node runs, or replace one that was added. CARD is the URL of
the agent or of its card, or a file with the card. Options that are secret may be
file: and a path, so that no secret stands on the command line. What else a peer
has in the configuration can come from a file with JSON (--from, - for standard
input). The node keeps it, sealed with its secret_key.`
	cmd.Example = `  handoff peer add supplier https://agents.supplier.example/ --bearer file:token --pin
  handoff peer add finance card.json --api-key file:key
  handoff peer add bank --from bank.json`
	fs := cmd.Flags()
	fs.StringVar(&q.from, "from", "", "file with the peer's configuration as JSON; - is standard input")
	fs.StringVar(&q.bearer, "bearer", "", "token to send, or file: and a path")
	fs.StringVar(&q.key, "api-key", "", "API key to send, or file: and a path")
	fs.StringVar(&q.basic, "basic", "", "name and password with a colon between (HTTP Basic), or file: and a path")
	fs.BoolVar(&q.pin, "pin", false, "pin the card that is seen first")
	fs.StringSliceVar(&q.origins, "origin", nil, "further origin that the card may name and that credentials may go to; repeatable")
	fs.StringVar(&q.deduplicates, "deduplicates", "", "whether the peer takes a message that it gets twice for one: true, false or auto")
	return cmd
}

// body returns the configuration of the peer.
func (q *newPeer) body(a *app, args []string) (map[string]any, error) {
	body := map[string]any{}
	if q.from != "" {
		data, err := a.readDocument(q.from)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &body); err != nil {
			return nil, usagef("%s is not a JSON object: %v", q.from, err)
		}
	}
	if len(args) == 1 {
		card, err := cardArgument(args[0])
		if err != nil {
			return nil, err
		}
		body["card"] = card
	}
	if body["card"] == nil {
		return nil, usagef("no card is named").hint("Name the URL of the agent after the name of the peer")
	}
	auth := map[string]any{}
	for _, one := range []struct{ name, value string }{{"bearer", q.bearer}, {"key", q.key}, {"basic", q.basic}} {
		if one.value == "" {
			continue
		}
		secret, err := secretArgument(one.value)
		if err != nil {
			return nil, err
		}
		auth[one.name] = secret
		if one.name == "basic" {
			user, password, ok := strings.Cut(secret, ":")
			if !ok {
				return nil, usagef("--basic has no colon between a name and a password")
			}
			auth[one.name] = map[string]any{"user": user, "password": password}
		}
	}
	if len(auth) > 0 {
		body["auth"] = auth
	}
	if q.pin {
		body["pin"] = true
	}
	if len(q.origins) > 0 {
		body["origins"] = q.origins
	}
	if q.deduplicates != "" {
		body["deduplicates"] = q.deduplicates
	}
	return body, nil
}

// readDocument reads a file, or standard input for -.
func (a *app) readDocument(name string) ([]byte, error) {
	const limit = 2 << 20
	in := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("%v", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(data) > limit:
		return nil, usagef("%s has more than %d bytes", name, limit)
	}
	return data, nil
}

// cardArgument returns a URL, or the card in a file: the node may be elsewhere.
func cardArgument(text string) (any, error) {
	path := strings.TrimPrefix(text, "file:")
	if path == text && (strings.Contains(text, "://") || !hasCardFile(text)) {
		if !strings.Contains(text, "://") {
			text = "https://" + text
		}
		return text, nil
	}
	data, err := readCardBytes(path)
	if err != nil {
		return nil, err
	}
	value := jsontext.Value(data)
	if !value.IsValid() || value.Kind() != '{' {
		return nil, failf(codeCardInvalid, "%s is not an agent card: it is no JSON object", path)
	}
	return value, nil
}

// secretArgument returns a secret, which may be in a file.
func secretArgument(text string) (string, error) {
	path, ok := strings.CutPrefix(text, "file:")
	if !ok {
		return text, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", usagef("%v", err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

func newPeerRemoveCommand(a *app) *cobra.Command {
	cmd := adminCommand(a, "remove PEER", "Remove a peer that was added", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		if _, err := node.call(ctx, "DELETE", peerPath(args[0], ""), struct{}{}); err != nil {
			return err
		}
		return a.tellDone("Removed", "removed", args[0])
	})
	cmd.Long = "Remove a peer that was added while the node ran, with its tokens and what was\nobserved of it. A peer of the configuration is removed there."
	return cmd
}

// tellDone says what was done to what.
func (a *app) tellDone(label, key, name string) error {
	if a.output != formatText {
		return a.writeValue(map[string]string{key: name})
	}
	p := printer{w: a.stdout}
	p.field(label, name)
	return p.err
}

func newPeerPinCommand(a *app) *cobra.Command {
	var digest string
	var off bool
	cmd := adminCommand(a, "pin PEER", "Approve the card of a peer", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		if off {
			return a.showPeer(ctx, node, "POST", peerPath(args[0], ":unpin"), struct{}{})
		}
		return a.showPeer(ctx, node, "POST", peerPath(args[0], ":pin"), map[string]string{"digest": digest})
	})
	cmd.Long = `Approve the card of a peer and pin the peer to it: the one that waits for approval,
else the one in use. A card that differs from the one that is pinned is held, and
nothing is sent to the peer until somebody approves it. With --digest, that card is
approved and no other, though it should have changed again meanwhile.`
	cmd.Example = `  handoff peer show supplier
  handoff peer pin supplier --digest 47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU`
	cmd.Flags().StringVar(&digest, "digest", "", "digest of the card, as peer show has it")
	cmd.Flags().BoolVar(&off, "off", false, "let any card pass from now on")
	cmd.MarkFlagsMutuallyExclusive("digest", "off")
	return cmd
}

func newPeerLoginCommand(a *app) *cobra.Command {
	cmd := adminCommand(a, "login PEER", "Log in to a peer", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		var answer struct {
			URL     string
			Expires time.Time
		}
		value, err := node.get(ctx, "POST", peerPath(args[0], ":login"), struct{}{}, &answer)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		p.field("Open", answer.URL)
		p.field("Until", a.timeText(answer.Expires))
		a.note("Open the address in a browser, confirm, and log in there. Then try: handoff peer check %s", quoteShell(args[0]))
		return p.err
	})
	cmd.Long = `Log in to a peer whose tokens people get (oauth2 with the flow authorization_code).
The command prints an address to open in a browser. With per_user, the login is that
of the caller whose HANDOFF_TOKEN the command uses; otherwise it counts for all.`
	return cmd
}

func newPeerLogoutCommand(a *app) *cobra.Command {
	return adminCommand(a, "logout PEER", "Forget the login to a peer", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		if _, err := node.call(ctx, "POST", peerPath(args[0], ":logout"), struct{}{}); err != nil {
			return err
		}
		return a.tellDone("Logged out", "logged_out", args[0])
	})
}
