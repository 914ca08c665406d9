package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/content"
)

var agentsPages = []page{
	{path: "agents", nav: "agents", title: "Agents and peers", role: auth.RoleViewer, get: showAgents},
	{path: "agents/{id}", nav: "agents", title: "Agent", role: auth.RoleViewer, get: showAgent, post: tryAgent},
}

// shownAgent is an agent of the node, as the API has it.
type shownAgent struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Version     string   `json:"version"`
	Address     string   `json:"address"`
	Card        string   `json:"card"`
	Tenants     []string `json:"tenants"`
	Retired     bool     `json:"retired"`
}

// listedAgent is an agent of the node in a list.
type listedAgent struct {
	shownAgent
	States []stateCount
}

// listedPeer is an agent elsewhere in a list.
type listedPeer struct {
	shownPeer
	Open []stateCount
}

func showAgents(v *view) error {
	var d struct {
		Agents   []listedAgent `json:"agents"`
		Peers    []listedPeer  `json:"peers"`
		SeePeers bool
	}
	if err := v.get("/agents", &d); err != nil {
		return err
	}
	// Peers and servers of tools have tasks too, and pages of their own.
	d.Agents = slices.DeleteFunc(d.Agents, func(a listedAgent) bool { return a.Retired && originOf(a.ID).Kind != "" })
	var o overview
	if err := v.get("/overview", &o); err != nil {
		return err
	}
	for i := range d.Agents {
		for _, a := range o.Agents {
			if a.Agent == d.Agents[i].ID {
				d.Agents[i].States = a.States
			}
		}
	}
	if d.SeePeers = v.mayNode(auth.RoleOperator); d.SeePeers {
		if err := v.get("/peers", &d); err != nil {
			return err
		}
		for i := range d.Peers {
			for _, open := range o.Delegations {
				if open.Peer && open.To == d.Peers[i].Name {
					d.Peers[i].Open = open.States
				}
			}
		}
	}
	return v.render("agents", &d)
}

// shownCard is what an agent says of itself: as people read it, and as it is.
type shownCard struct {
	Document   jsontext.Value `json:"document"`
	Lint       []cardFinding  `json:"lint"`
	Interfaces []struct {
		Binding string `json:"binding"`
		Version string `json:"version"`
		URL     string `json:"url"`
		Tenant  string `json:"tenant"`
	} `json:"interfaces"`
	Skills []struct {
		ID          string   `json:"id"`
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Tags        []string `json:"tags"`
		Examples    []string `json:"examples"`
		InputModes  []string `json:"input_modes"`
		OutputModes []string `json:"output_modes"`
	} `json:"skills"`
}

type cardFinding struct {
	Level   string `json:"level"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

// State is a state that stands for the level.
func (f *cardFinding) State() string {
	switch f.Level {
	case "error":
		return "down"
	case "warning":
		return "retrying"
	}
	return "idle"
}

// Examples are messages that the agent names.
func (c *shownCard) Examples() []string {
	var all []string
	for i := range c.Skills {
		for _, example := range c.Skills[i].Examples {
			if len(all) < 8 && !strings.HasPrefix(strings.TrimSpace(example), "{") {
				all = append(all, example)
			}
		}
	}
	return all
}

// agentDetail is what the page of an agent shows.
type agentDetail struct {
	shownCard
	shownAgent
	Run       string `json:"run"`
	Signature struct {
		Signed bool `json:"signed"`
		Keys   []struct {
			ID  string `json:"kid"`
			Alg string `json:"alg"`
		} `json:"keys"`
	} `json:"signature"`
	Limits []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"limits"`
	Tasks   []stateCount `json:"tasks"`
	Text    string
	Problem string
	Answer  *said
}

func (v *view) agent() (*agentDetail, error) {
	d := &agentDetail{}
	if err := v.get("/agents/"+url.PathEscape(v.param("id")), d); err != nil {
		return nil, err
	}
	v.title = content.Visible(cmp.Or(d.Name, d.ID))
	// The card is of this node, wherever the browser reaches it.
	if u, err := url.Parse(d.Card); err == nil {
		d.Card = u.EscapedPath()
	}
	return d, nil
}

func showAgent(v *view) error {
	d, err := v.agent()
	if err != nil {
		return err
	}
	d.Text = v.query().Get("text")
	return v.render("agent", d)
}

// tryAgent sends a message to an agent, as any of its callers does.
func tryAgent(v *view) error {
	d, err := v.agent()
	if err != nil {
		return err
	}
	if d.Text = strings.TrimSpace(v.form.Get("text")); d.Text == "" {
		return v.again("agent", d, &d.Problem, errEmptyMessage)
	}
	sent, err := v.sendMessage(d.ID, d.Text)
	if err != nil {
		return v.again("agent", d, &d.Problem, err)
	}
	if sent.Task != nil {
		return v.redirect(Prefix+"tasks/"+url.PathEscape(sent.Task.ID), "The message is sent. The page follows the task.")
	}
	d.Answer = &said{Who: d.Name, Parts: partsOf(sent.Message, "", &shownParts{})}
	return v.render("agent", d)
}
