package mcpgw

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw/policy"
)

// pageSize is how many items a page has.
const pageSize = 500

// kindOfList returns what a list method lists.
func kindOfList(method string) (listKind, group, bool) {
	switch method {
	case mcp.MethodListTools:
		return listTools, groupTools, true
	case mcp.MethodListPrompts:
		return listPrompts, groupPrompts, true
	case mcp.MethodListResources:
		return listResources, groupResources, true
	case mcp.MethodListTemplates:
		return listTemplates, groupResources, true
	}
	return 0, 0, false
}

// List returns a page of a list.
func (d *Directory) List(ctx context.Context, v View, method, cursor string) (jsontext.Value, error) {
	kind, group, ok := kindOfList(method)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")
	}
	after := ""
	if cursor != "" {
		if after, ok = d.position(v, method, cursor); !ok {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid cursor")
		}
	}
	s := d.current.Load()
	shown := d.view(ctx, s, v, group, asFresh)
	items := shown.lists[kind]
	if kind == listTools && s.searched(v.Endpoint) {
		items = slices.Concat(searchTools, keepHandles(items))
		slices.SortFunc(items, byExposed)
	}
	begin := 0
	if after != "" {
		begin = sort.Search(len(items), func(i int) bool { return items[i].exposed > after })
	}
	end := min(begin+pageSize, len(items))
	out, err := s.startList(v, kind, items[begin:end], shown)
	if err != nil {
		return nil, err
	}
	if end < len(items) {
		out = append(append(out, `,"nextCursor":`...), quote(d.cursor(v, method, items[end-1].exposed))...)
	}
	return append(d.appendCaching(out, v, shown), '}'), nil
}

// startList returns a list up to the end of its items.
func (s *shelf) startList(v View, kind listKind, items []*item, shown *view) ([]byte, error) {
	size := 512
	for _, it := range items {
		size += len(it.text) + 1
	}
	out := append(make([]byte, 0, size), '{')
	if len(shown.stale) > 0 {
		names, err := json.Marshal(s.named(v, shown.stale))
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, `"_meta":`...), appendMembers(nil, mcp.MetaStale, names)...), ',')
	}
	out = append(append(append(out, `"resultType":"complete","`...), listMembers[kind]...), `":[`...)
	for i, it := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, it.text...)
	}
	return append(out, ']'), nil
}

func byExposed(a, b *item) int {
	if a.exposed < b.exposed {
		return -1
	}
	return 1
}

// named leaves out the servers of which a caller may see nothing.
func (s *shelf) named(v View, servers []string) []string {
	return slices.DeleteFunc(slices.Clone(servers), func(name string) bool {
		seen := func(kind policy.Kind) bool {
			return s.Policy.ShowsAny(name, kind) && (v.Endpoint.Set == "" || s.Policy.SetHas(v.Endpoint.Set, name, kind))
		}
		return !seen(policy.Tools) && !seen(policy.Prompts) && !seen(policy.Resources)
	})
}

// appendCaching appends how long a result may be kept, and by whom (CCH-01, CCH-12).
func (d *Directory) appendCaching(out []byte, v View, shown *view) []byte {
	out = append(out, `,"ttlMs":`...)
	out = strconv.AppendInt(out, int64(shown.ttl(d.now())/time.Millisecond), 10)
	scope := "public"
	if shown.private || shown.shaped || !v.Caller.Anonymous() {
		scope = "private"
	}
	return append(append(append(out, `,"cacheScope":"`...), scope...), '"')
}

// cursor returns the cursor of what follows an item: its name, which only who has
// got it can use, where it was got (PAG-03).
func (d *Directory) cursor(v View, method, last string) string {
	return base64.RawURLEncoding.EncodeToString(append(d.seal(v, method, last), last...))
}

const sealSize = 16

func (d *Directory) seal(v View, method, last string) []byte {
	mac := hmac.New(sha256.New, d.opts.Key)
	for _, part := range []string{"mcp cursor", v.Endpoint.Path(), method, callerKey(v.Caller), last} {
		mac.Write(strconv.AppendInt(nil, int64(len(part)), 10))
		mac.Write([]byte(":" + part))
	}
	return mac.Sum(nil)[:sealSize]
}

// position returns the name that a cursor follows.
func (d *Directory) position(v View, method, cursor string) (string, bool) {
	if len(cursor) > 2*maxURI {
		return "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) <= sealSize {
		return "", false
	}
	last := string(raw[sealSize:])
	return last, hmac.Equal(raw[:sealSize], d.seal(v, method, last))
}

// Discover returns what the endpoint is: what its servers can do, as far as the
// caller may see it (DSC-02, DSC-05).
func (d *Directory) Discover(ctx context.Context, v View) (jsontext.Value, error) {
	s := d.current.Load()
	snaps, private, _ := d.snapshots(ctx, s, v, groupDiscover, asFresh)
	made := &view{snaps: snaps, private: private, shaped: s.Policy.TellsCallersApart()}
	var tools, prompts, resources, subscribe, completions bool
	instructions := ""
	for _, snap := range snaps {
		may := func(kind policy.Kind) bool {
			return s.Policy.ShowsAny(snap.server, kind) && (v.Endpoint.Set == "" || s.Policy.SetHas(v.Endpoint.Set, snap.server, kind))
		}
		c := &snap.facts.Capabilities
		// Of a server that has never answered nothing is known, but what it may have.
		blind := !snap.known && snap.server != AgentsServer
		tools = tools || (blind || c.Tools != nil || snap.server == AgentsServer) && may(policy.Tools)
		prompts = prompts || (blind || c.Prompts != nil) && may(policy.Prompts)
		resources = resources || (blind || c.Resources != nil) && may(policy.Resources)
		subscribe = subscribe || c.Resources != nil && c.Resources.Subscribe && may(policy.Resources)
		completions = completions || c.Completions != nil && (may(policy.Prompts) || may(policy.Resources))
		if v.Endpoint.Server == snap.server {
			instructions = clean(snap.facts.Instructions, maxDescription, true)
		}
	}
	if set := s.Config.Sets[v.Endpoint.Set]; set != nil {
		instructions = set.Instructions
		tools = tools || set.Mode == config.MCPSetSearch
	}
	versions, err := json.Marshal(s.Config.Revisions)
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"resultType":"complete","supportedVersions":`), versions...)
	out = append(out, `,"capabilities":{`...)
	if tools {
		out = append(out, `"tools":{"listChanged":true},`...)
	}
	if prompts {
		out = append(out, `"prompts":{"listChanged":true},`...)
	}
	switch {
	case resources && subscribe:
		out = append(out, `"resources":{"listChanged":true,"subscribe":true},`...)
	case resources:
		out = append(out, `"resources":{"listChanged":true},`...)
	}
	if completions {
		out = append(out, `"completions":{},`...)
	}
	out = append(out, `"extensions":{"`+mcp.ExtensionTasks+`":{}}}`...)
	if instructions != "" {
		out = append(append(out, `,"instructions":`...), quote(instructions)...)
	}
	return append(d.appendCaching(out, v, made), '}'), nil
}
