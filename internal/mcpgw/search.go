package mcpgw

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mcp"
)

// The tools of a set that is searched.
const (
	toolFind = "find_tools"
	toolCall = "call_tool"
)

// Bounds of a search.
const (
	foundAtFirst = 10
	foundAtMost  = 50
	maxQuery     = 1_000 // bytes
	maxWords     = 32
)

// searchTools are the definitions of the tools of a set that is searched.
var searchTools = []*item{
	ownTool(toolCall, "Call a tool", `{"name":"call_tool","title":"Call a tool","description":"Calls a tool that find_tools has found. The result is that of the tool.","inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"The name of the tool, as find_tools says it."},"arguments":{"type":"object","description":"The arguments of the tool, which fit its inputSchema."}},"required":["name"],"additionalProperties":false}}`),
	ownTool(toolFind, "Find tools", `{"name":"find_tools","title":"Find tools","description":"Finds tools by what they are for, and says how each is called. Call them with call_tool.","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Words that say what is to be done. Without them, all tools in the order of their names."},"limit":{"type":"integer","minimum":1,"maximum":50,"default":10}},"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`),
}

func ownTool(name, title, text string) *item {
	e := &entry{kind: listTools, name: name, title: title, text: jsontext.Value(text)}
	return &item{entry: e, exposed: name, text: e.text}
}

// searched reports whether the tools of an endpoint are found instead of listed.
func (s *shelf) searched(e Endpoint) bool {
	set := s.Config.Sets[e.Set]
	return e.Set != "" && set != nil && set.Mode == config.MCPSetSearch
}

// keepHandles leaves the tools for handles, which clients have to know.
func keepHandles(items []*item) (kept []*item) {
	for _, it := range items {
		if it.server == AgentsServer && slices.Contains(handleTools, it.exposed) {
			kept = append(kept, it)
		}
	}
	return kept
}

// localTool returns a tool of the gateway's own; nil: it has none of that name here.
func (d *Directory) localTool(s *shelf, v View, name string) *Target {
	if !s.searched(v.Endpoint) || !s.Policy.HasSet(v.Endpoint.Set, v.Caller) {
		return nil
	}
	for _, own := range searchTools {
		if own.exposed != name {
			continue
		}
		t := &Target{Name: name, Exposed: name, Definition: own.text, Rules: open{}}
		if name == toolFind {
			t.Local = func(ctx context.Context, params jsontext.Value) (jsontext.Value, *Redirect, error) {
				answer, err := d.findTools(ctx, v, params)
				return answer, nil, err
			}
		} else {
			t.Local = func(_ context.Context, params jsontext.Value) (jsontext.Value, *Redirect, error) {
				redirect, err := redirectOf(params)
				return nil, redirect, err
			}
		}
		return t
	}
	return nil
}

// redirectOf returns the call that call_tool means. It is begun anew, so that what is
// said of calls counts for it like for any other.
func redirectOf(params jsontext.Value) (*Redirect, error) {
	var p struct {
		Arguments struct {
			Name      string         `json:"name"`
			Arguments jsontext.Value `json:"arguments"`
		} `json:"arguments"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, &Result{Message: "The arguments do not fit: call_tool takes name and arguments"}
	}
	switch a := &p.Arguments; {
	case a.Name == "":
		return nil, &Result{Message: "The arguments do not fit: name is missing"}
	case a.Name == toolFind || a.Name == toolCall:
		return nil, unknown(mcp.MethodCallTool, a.Name)
	case a.Arguments != nil && a.Arguments.Kind() != '{':
		return nil, &Result{Message: "The arguments do not fit: arguments is not an object"}
	}
	return &Redirect{Name: p.Arguments.Name, Arguments: p.Arguments.Arguments}, nil
}

// findTools searches what the caller may see at the endpoint, and nothing else.
func (d *Directory) findTools(ctx context.Context, v View, params jsontext.Value) (jsontext.Value, error) {
	var p struct {
		Arguments struct {
			Query string `json:"query"`
			Limit int    `json:"limit"`
		} `json:"arguments"`
	}
	if err := json.Unmarshal(params, &p); err != nil || len(p.Arguments.Query) > maxQuery {
		return nil, &Result{Message: "The arguments do not fit: query is a text of up to " + strconv.Itoa(maxQuery) + " bytes, limit an integer"}
	}
	limit := p.Arguments.Limit
	if limit <= 0 {
		limit = foundAtFirst
	}
	s := d.current.Load()
	shown := d.view(ctx, s, v, groupTools, asKnown)
	found := rank(shown.lists[listTools], p.Arguments.Query)
	found = found[:min(len(found), limit, foundAtMost)]
	tools := []byte(`{"tools":[`)
	for i, it := range found {
		if i > 0 {
			tools = append(tools, ',')
		}
		tools = append(tools, it.text...)
	}
	tools = append(tools, "]}"...)
	out := append([]byte(`{"resultType":"complete","content":[{"type":"text","text":`), quote(string(tools))...)
	out = append(append(out, `}],"structuredContent":`...), tools...)
	return append(out, '}'), nil
}

// rank returns the tools that fit a query, the best first. Words that few tools have
// count for more, and so do those of the name.
func rank(items []*item, query string) []*item {
	words := wordsOf(query)
	if len(words) == 0 {
		return items
	}
	texts := make([]searchText, len(items))
	frequency := map[string]int{}
	for i, it := range items {
		texts[i] = searchText{wordsOf(it.exposed), wordsOf(it.title), wordsOf(it.description)}
		for _, word := range words {
			if texts[i].score(word) > 0 {
				frequency[word]++
			}
		}
	}
	type scored struct {
		item  *item
		score float64
	}
	var found []scored
	for i, it := range items {
		total, hits := 0.0, 0
		for _, word := range words {
			if score := texts[i].score(word); score > 0 {
				total += score / float64(frequency[word])
				hits++
			}
		}
		if hits > 0 {
			// Who has all the words comes before who has one of them often.
			found = append(found, scored{it, total + float64(hits)})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	list := make([]*item, len(found))
	for i := range found {
		list[i] = found[i].item
	}
	return list
}

// searchText are the words of a tool.
type searchText struct{ name, title, description []string }

// score returns how well a word fits.
func (t *searchText) score(word string) float64 {
	return max(4*fit(t.name, word), 3*fit(t.title, word), fit(t.description, word))
}

// fit returns 1 for a word that is there, and less for one that begins like it.
func fit(words []string, word string) float64 {
	best := 0.0
	for _, one := range words {
		switch {
		case one == word:
			return 1
		case len(word) >= 3 && strings.HasPrefix(one, word), len(one) >= 3 && strings.HasPrefix(word, one):
			best = 0.6
		}
	}
	return best
}

// wordsOf returns the words of a text in small letters: also those of draft_order
// and draftOrder.
func wordsOf(text string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	lower := false
	for _, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			end()
			lower = false
			continue
		}
		if unicode.IsUpper(r) && lower {
			end()
		}
		lower = unicode.IsLower(r)
		word = append(word, r)
	}
	end()
	return words
}
