package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
)

func newKeysCommand(a *app) *cobra.Command {
	cmd := newGroup("keys", "Make and revoke the API keys of callers")
	cmd.AddCommand(newKeysCreateCommand(a), newKeysListCommand(a), newKeysRevokeCommand(a), newKeysHashCommand(a))
	return cmd
}

// callerKey is an API key as the node tells of it.
type callerKey struct {
	ID, Key, Subject, Tenant, Role, By string
	Scopes                             []string
	Created, Expires, Revoked, Used    time.Time
}

func newKeysCreateCommand(a *app) *cobra.Command {
	var q struct {
		Subject string     `json:"subject"`
		Tenant  string     `json:"tenant,omitempty"`
		Role    string     `json:"role"`
		Scopes  []string   `json:"scopes,omitempty"`
		Expires *time.Time `json:"expires,omitempty"`
	}
	var expires string
	cmd := adminCommand(a, "create", "Make an API key for a caller", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		if q.Subject == "" {
			return usagef("say whom the key is for: handoff keys create --subject NAME")
		}
		if expires != "" {
			at, err := a.expiry(expires)
			if err != nil {
				return err
			}
			q.Expires = &at
		}
		var k callerKey
		value, err := node.get(ctx, "POST", "/keys", &q, &k)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		p.field("Key", k.Key)
		a.tellKey(&p, &k)
		a.note("Keep the key now: it is not shown again. Send it as Authorization: Bearer hk_… or in X-API-Key.")
		return p.err
	})
	cmd.Long = `Make an API key for a caller. The key is shown once; the node keeps a hash. Who
calls with it is the subject, whichever of its keys that is: keys can be replaced
without losing tasks.`
	cmd.Example = `  handoff keys create --subject erp
  handoff keys create --subject partner-a --tenant acme --scopes quotes --expires 90d`
	cmd.Flags().StringVar(&q.Subject, "subject", "", "the caller that the key is for")
	cmd.Flags().StringVar(&q.Tenant, "tenant", "", "the tenant of the caller")
	cmd.Flags().StringVar(&q.Role, "role", "caller", "what the caller may do: viewer, caller, operator or admin")
	cmd.Flags().StringSliceVar(&q.Scopes, "scopes", nil, "the scopes of the caller, with commas between them")
	cmd.Flags().StringVar(&expires, "expires", "", "when the key ends: a duration such as 90d, or a time such as 2027-01-31T12:00:00Z (default: never)")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"viewer", "caller", "operator", "admin"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// expiry reads when a key ends.
func (a *app) expiry(text string) (time.Time, error) {
	var d config.Duration
	if err := d.UnmarshalText([]byte(text)); err == nil && d > 0 {
		return a.now().Add(d.Std()).UTC().Truncate(time.Second), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("--expires %q is neither a duration such as 90d nor a time such as 2027-01-31T12:00:00Z", text)
	}
	return at.UTC(), nil
}

// tellKey writes what is known of a key.
func (a *app) tellKey(p *printer, k *callerKey) {
	p.field("Key ID", k.ID)
	p.field("Subject", k.Subject)
	if k.Tenant != "" {
		p.field("Tenant", k.Tenant)
	}
	p.field("Role", k.Role)
	if len(k.Scopes) > 0 {
		p.field("Scopes", strings.Join(k.Scopes, ", "))
	}
	p.field("Created", a.timeText(k.Created))
	for _, at := range []struct {
		label string
		time  time.Time
	}{{"Expires", k.Expires}, {"Used", k.Used}, {"Revoked", k.Revoked}} {
		if !at.time.IsZero() {
			p.field(at.label, a.timeText(at.time))
		}
	}
}

func newKeysListCommand(a *app) *cobra.Command {
	var all bool
	cmd := adminCommand(a, "list", "List the API keys", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		var answer struct{ Keys []callerKey }
		value, err := node.get(ctx, "GET", "/keys", nil, &answer)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		shown := 0
		for i := range answer.Keys {
			k := &answer.Keys[i]
			over := !k.Revoked.IsZero() || !k.Expires.IsZero() && !k.Expires.After(a.now())
			if over && !all {
				continue
			}
			a.tellKey(&p, k)
			p.blank()
			shown++
		}
		if shown == 0 {
			p.write("There are no API keys.\n")
		}
		return p.err
	})
	cmd.Long = "List the API keys, newest first, without what is secret. When a key was last\nused is known to within ten minutes."
	cmd.Flags().BoolVar(&all, "all", false, "also those that were revoked or have expired")
	return cmd
}

func newKeysRevokeCommand(a *app) *cobra.Command {
	cmd := adminCommand(a, "revoke ID", "Revoke an API key", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		id, err := keyIDOf(args[0])
		if err != nil {
			return err
		}
		if _, err := node.call(ctx, "DELETE", "/keys/"+url.PathEscape(id), struct{}{}); err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeValue(struct {
				Revoked string `json:"revoked"`
			}{id})
		}
		p := printer{w: a.stdout}
		p.field("Revoked", id)
		return p.err
	})
	cmd.Long = "Revoke an API key. Every node refuses it within five seconds. The id is the part\nof the key between its underscores; the whole key will do too."
	cmd.Example = "  handoff keys revoke 4fQ0bZ1xK9aB"
	return cmd
}

// keyIDOf returns the id that somebody means: an id, or a key, whose secret is
// not sent on.
func keyIDOf(text string) (string, error) {
	rest, isKey := strings.CutPrefix(text, "hk_")
	id, _, _ := strings.Cut(rest, "_")
	if id == "" || !isKey && id != text {
		return "", usagef("%.20q is not the id of a key", text).hint("List the keys with: handoff keys list")
	}
	return id, nil
}

func newKeysHashCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "hash-password", Short: "Hash a password for callers.basic", Args: cobra.NoArgs,
		Long: `Hash a password for callers.basic in the configuration. The password is asked for
on a terminal, without being shown, and else read from standard input, up to the
end of its first line.`,
		Example: "  handoff keys hash-password\n  pass show erp | handoff keys hash-password",
		RunE: func(*cobra.Command, []string) error {
			password, err := a.readPassword()
			if err != nil {
				return err
			}
			hash, err := auth.HashPassword(password)
			if err != nil {
				return usagef("%v", err)
			}
			if a.output != formatText {
				return a.writeValue(struct {
					Hash string `json:"password_hash"`
				}{hash})
			}
			p := printer{w: a.stdout}
			p.write(hash + "\n")
			return p.err
		},
	}
	return cmd
}

// maxPasswordLine bounds what is read of a password, in bytes.
const maxPasswordLine = 4 << 10

// readPassword reads a password from a terminal, twice and without showing it, or
// from standard input.
func (a *app) readPassword() ([]byte, error) {
	if !a.asksPeople() {
		line, err := bufio.NewReader(io.LimitReader(a.stdin, maxPasswordLine)).ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read password: %w", err)
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
	fd := int(a.stdin.(*os.File).Fd())
	var typed [2][]byte
	for i, prompt := range []string{"Password: ", "Again: "} {
		fmt.Fprint(a.stderr, prompt)
		var err error
		typed[i], err = term.ReadPassword(fd)
		fmt.Fprintln(a.stderr)
		if err != nil {
			return nil, fmt.Errorf("read password: %w", err)
		}
	}
	if !bytes.Equal(typed[0], typed[1]) {
		return nil, usagef("the two passwords differ")
	}
	return typed[0], nil
}
