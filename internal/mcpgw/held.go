package mcpgw

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcpgw/policy"
	"handoff.example/handoff/internal/store"
)

// SpaceTool is the space of the store in which the digests of definitions are that
// were seen or approved (SEC-10).
const SpaceTool = "mcp.tool"

// HeldInbox tells people of definitions that wait for approval.
type HeldInbox interface {
	Raise(ctx context.Context, item *store.InboxItem) error
	// Settle settles the open items about what an agent of that name has asked, but
	// one.
	Settle(ctx context.Context, name, by, decision, except string) error
}

// Definitions knows which definitions of tools were seen first or approved, and
// holds those back that have changed since. All nodes share what it knows.
type Definitions struct {
	docs  store.Docs
	inbox HeldInbox // nil: nobody is told
	log   *slog.Logger
	now   func() time.Time
	// changed is told of a server one of whose definitions was approved.
	changed func(server string)
}

// NewDefinitions returns what is known in a store. Changed is told of a server one
// of whose definitions was approved; nil: nobody is.
func NewDefinitions(docs store.Docs, inbox HeldInbox, log *slog.Logger, changed func(server string)) *Definitions {
	return &Definitions{docs: docs, inbox: inbox, log: log, now: time.Now, changed: changed}
}

// pin is what is kept of a definition.
type pin struct {
	Digest     string         `json:"digest"`
	Definition jsontext.Value `json:"definition,omitzero"`
	Held       *policy.Held   `json:"held,omitzero"`
}

// nodeScope is where definitions are kept: they belong to the node.
var nodeScope = auth.Reach(&auth.Principal{Role: auth.RoleAdmin})

// maxKeptDefinition is how much of a definition is kept to be compared, in bytes.
const maxKeptDefinition = 64 << 10

// DigestOf returns the digest of a definition, which is the same however it is
// written.
func DigestOf(definition jsontext.Value) string {
	canonical := slices.Clone(definition)
	if err := canonical.Canonicalize(); err != nil {
		canonical = definition
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func pinKey(server, tool string) string { return server + "/" + tool }

// hold marks the tools of a server whose definitions have changed, and notes those
// that are seen for the first time.
func (d *Definitions) hold(ctx context.Context, server string, items []*entry) error {
	pins, err := d.pins(ctx, server+"/")
	if err != nil {
		return err
	}
	for _, e := range items {
		digest := DigestOf(e.text)
		doc := pins[pinKey(server, e.name)]
		if doc == nil {
			first, err := d.put(ctx, &store.Doc{Space: SpaceTool, Key: pinKey(server, e.name)}, &pin{Digest: digest, Definition: kept(e.text)})
			if errors.Is(err, store.ErrConflict) { // another node has seen it
				if doc, err = d.docs.Doc(ctx, nodeScope, SpaceTool, pinKey(server, e.name)); err != nil {
					return fmt.Errorf("read definition: %w", err)
				}
			} else if err != nil {
				return err
			} else {
				doc = first
			}
		}
		var known pin
		if err := json.Unmarshal(doc.Body, &known); err != nil {
			return fmt.Errorf("read definition of %s: %w", e.name, err)
		}
		if e.held = known.Digest != digest; e.held {
			if err := d.holdOne(ctx, doc, &known, server, e, digest); err != nil {
				return err
			}
		} else if known.Held != nil { // the server has gone back to what was approved
			if _, err := d.put(ctx, doc, &pin{Digest: known.Digest, Definition: known.Definition}); err != nil && !errors.Is(err, store.ErrConflict) {
				return err
			}
			if d.inbox != nil {
				agent := inboxName(server, e.name)
				if err := d.inbox.Settle(ctx, agent, agent, "gone on", ""); err != nil {
					return fmt.Errorf("settle inbox: %w", err)
				}
			}
		}
	}
	return nil
}

// pins returns what is known of the tools whose keys begin with a prefix.
func (d *Definitions) pins(ctx context.Context, prefix string) (map[string]*store.Doc, error) {
	const page = 1_000
	pins := map[string]*store.Doc{}
	after := ""
	for {
		docs, err := d.docs.Docs(ctx, nodeScope, SpaceTool, prefix, after, page)
		if err != nil {
			return nil, fmt.Errorf("list definitions: %w", err)
		}
		for i := range docs {
			pins[docs[i].Key] = &docs[i]
		}
		if len(docs) < page {
			return pins, nil
		}
		after = docs[len(docs)-1].Key
	}
}

// holdOne notes that a definition waits, and tells people.
func (d *Definitions) holdOne(ctx context.Context, doc *store.Doc, known *pin, server string, e *entry, digest string) error {
	if known.Held != nil && known.Held.Digest == digest {
		return nil
	}
	known.Held = &policy.Held{Server: server, Tool: e.name, Digest: digest, Pinned: known.Digest, Since: d.now().UTC(), New: kept(e.text), Item: rand.Text()}
	if _, err := d.put(ctx, doc, known); err != nil {
		if errors.Is(err, store.ErrConflict) { // another node was faster
			return nil
		}
		return err
	}
	d.log.Warn("The definition of a tool has changed and waits for approval", "server", server, "tool", e.name, "digest", digest, "approved", known.Digest)
	if d.inbox == nil {
		return nil
	}
	agent := inboxName(server, e.name)
	if err := d.inbox.Settle(ctx, agent, agent, "gone on", known.Held.Item); err != nil {
		return fmt.Errorf("settle inbox: %w", err)
	}
	text := fmt.Sprintf("The definition of the tool %s of the server %s has changed. Its digest is %s; %s was approved.\n%s", e.name, server, digest, known.Digest, changeText(known.Definition, e.text))
	err := d.inbox.Raise(ctx, &store.InboxItem{
		ID: known.Held.Item, Kind: store.InboxCard, Agent: agent, Peer: true, Text: text, Op: opDefinition + server + " " + digest + " " + e.name,
	})
	if err != nil {
		return fmt.Errorf("tell inbox: %w", err)
	}
	return nil
}

// inboxName is what a tool is called in the inbox. No peer has such a name.
func inboxName(server, tool string) string { return "mcp:" + server + "/" + tool }

// opDefinition begins what an item asks to be approved; the server, the digest and
// the tool follow.
const opDefinition = "approve the definition "

// IsDefinition reports whether an item of the inbox is about a definition, so that
// Decide carries it out.
func IsDefinition(item *store.InboxItem) bool { return strings.HasPrefix(item.Op, opDefinition) }

// Decide carries out what was decided on an item of the inbox. The item itself is
// left to the caller.
func (d *Definitions) Decide(ctx context.Context, item *store.InboxItem, approved bool) error {
	rest, ok := strings.CutPrefix(item.Op, opDefinition)
	parts := strings.SplitN(rest, " ", 3)
	if !ok || len(parts) != 3 {
		return fmt.Errorf("the item %s names no definition", item.ID)
	}
	if !approved {
		return nil
	}
	return d.approve(ctx, parts[0], parts[2], parts[1], item.ID, item.Assignee)
}

// Approve takes the definition of a tool that waits. With a digest it has to be the
// one that does.
func (d *Definitions) Approve(ctx context.Context, server, tool, digest, by string) error {
	return d.approve(ctx, server, tool, digest, "", by)
}

func (d *Definitions) approve(ctx context.Context, server, tool, digest, except, by string) error {
	for {
		doc, err := d.docs.Doc(ctx, nodeScope, SpaceTool, pinKey(server, tool))
		if errors.Is(err, store.ErrNotFound) {
			return policy.ErrNotHeld
		}
		if err != nil {
			return fmt.Errorf("read definition: %w", err)
		}
		var known pin
		if err := json.Unmarshal(doc.Body, &known); err != nil {
			return fmt.Errorf("read definition of %s: %w", tool, err)
		}
		switch {
		case known.Held == nil && digest != "" && known.Digest == digest:
			return nil // it was approved before
		case known.Held == nil || digest != "" && known.Held.Digest != digest:
			return policy.ErrNotHeld
		}
		_, err = d.put(ctx, doc, &pin{Digest: known.Held.Digest, Definition: known.Held.New})
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		d.log.Info("The definition of a tool was approved", "server", server, "tool", tool, "digest", known.Held.Digest, "by", by)
		if d.changed != nil {
			d.changed(server)
		}
		if d.inbox != nil {
			return d.inbox.Settle(ctx, inboxName(server, tool), cmp.Or(by, "node"), "approved", except)
		}
		return nil
	}
}

// Held returns the definitions that wait for approval, by server and tool.
func (d *Definitions) Held(ctx context.Context) ([]policy.Held, error) {
	pins, err := d.pins(ctx, "")
	if err != nil {
		return nil, err
	}
	var list []policy.Held
	for _, doc := range pins {
		var known pin
		if err := json.Unmarshal(doc.Body, &known); err != nil {
			return nil, fmt.Errorf("read definition %s: %w", doc.Key, err)
		}
		if known.Held != nil {
			known.Held.Old = known.Definition
			list = append(list, *known.Held)
		}
	}
	slices.SortFunc(list, func(a, b policy.Held) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Tool, b.Tool))
	})
	return list, nil
}

func (d *Definitions) put(ctx context.Context, doc *store.Doc, p *pin) (*store.Doc, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write definition: %w", err)
	}
	next := *doc
	next.Body = body
	if err := d.docs.PutDoc(ctx, &next); err != nil {
		return nil, fmt.Errorf("keep definition: %w", err)
	}
	return &next, nil
}

// kept returns a definition if it is not too large to be kept.
func kept(text jsontext.Value) jsontext.Value {
	if len(text) > maxKeptDefinition {
		return nil
	}
	return text
}

// changeText says which members of a definition have changed.
func changeText(old, now jsontext.Value) string {
	before, after := map[string]jsontext.Value{}, map[string]jsontext.Value{}
	if len(old) == 0 || json.Unmarshal(old, &before) != nil || json.Unmarshal(now, &after) != nil {
		return ""
	}
	var lines []string
	for name, value := range after {
		was, had := before[name]
		switch {
		case !had:
			lines = append(lines, "- "+name+" is new: "+short(value))
		case DigestOf(was) != DigestOf(value):
			lines = append(lines, "- "+name+" was "+short(was)+" and is "+short(value))
		}
	}
	for name := range before {
		if _, has := after[name]; !has {
			lines = append(lines, "- "+name+" is gone")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines[:min(len(lines), 20)], "\n")
}

func short(value jsontext.Value) string { return clean(string(value), 300, false) }
