package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newPeerCommand(a *app) *cobra.Command {
	cmd := newGroup("peer", "See, check and approve the agents that work is handed to")
	cmd.Long = `See, check and approve the peers of a node: the agents elsewhere that work is
handed to. They stand in the configuration, under peers, or are added while the
node runs. What a peer says of itself is shown as text and never obeyed.`
	cmd.AddCommand(newPeerListCommand(a), newPeerShowCommand(a), newPeerAddCommand(a), newPeerRemoveCommand(a))
	cmd.AddCommand(newPeerCheckCommand(a), newPeerPinCommand(a), newPeerLoginCommand(a), newPeerLogoutCommand(a))
	return cmd
}

// peerInfo is a peer as the API has it.
type peerInfo struct {
	Name        string
	Added       bool
	Source      string
	Credentials []string
	Login       bool
	Agent       *struct {
		Name, Description, Version, Provider string
		Skills                               []struct{ ID, Name, Description string }
	}
	Interface, Digest, Pinned string
	Held                      *struct {
		Digest  string
		Since   time.Time
		Changes []string
	}
	Signature    string
	KeyID        string `json:"kid"`
	Deduplicates bool
	Known        string `json:"deduplicates_known"`
	Version      string
	Latency      float64 `json:"latency_ms"`
	Seen         time.Time
	Error        string
	ErrorAt      time.Time `json:"error_at"`
	Bindings     []struct {
		Interface      string
		Worked, Failed time.Time
	}
}

// peerPath returns the path of a peer in the API.
func peerPath(name, action string) string { return "/peers/" + url.PathEscape(name) + action }

func newPeerListCommand(a *app) *cobra.Command {
	return adminCommand(a, "list", "List the peers of a node", cobra.NoArgs, func(ctx context.Context, node *nodeAPI, _ []string) error {
		var answer struct{ Peers []peerInfo }
		value, err := node.get(ctx, "GET", "/peers", nil, &answer)
		if err != nil {
			return err
		}
		if a.output != formatText {
			return a.writeDocument(a.output, value, false)
		}
		p := printer{w: a.stdout}
		for i := range answer.Peers {
			one := &answer.Peers[i]
			p.field("Peer", one.Name)
			a.tellPeer(&p, one)
			p.blank()
		}
		if len(answer.Peers) == 0 {
			p.write("There are no peers. Name them in the configuration, under peers, or add one with: handoff peer add\n")
		}
		return p.err
	})
}

// tellPeer writes what a list says of a peer.
func (a *app) tellPeer(p *printer, one *peerInfo) {
	if one.Agent != nil {
		p.field("Agent", one.Agent.Name+" "+one.Agent.Version)
	}
	p.field("Card", one.Source)
	p.field("Interface", one.Interface)
	if one.Known != "" {
		p.field("Deduplicates", yesNo(&one.Deduplicates)+" ("+one.Known+")")
	}
	switch {
	case one.Held != nil:
		p.field("State", "its card has changed and waits for approval: handoff peer show "+one.Name)
	case one.Error != "":
		p.field("State", "failing since "+a.timeText(one.ErrorAt)+": "+one.Error)
	case one.Seen.IsZero():
		p.field("State", "not seen yet: handoff peer check "+one.Name)
	default:
		p.field("State", "answered "+a.timeText(one.Seen))
	}
}

func newPeerShowCommand(a *app) *cobra.Command {
	cmd := adminCommand(a, "show PEER", "Show a peer, its card and what was observed of it", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		return a.showPeer(ctx, node, "GET", peerPath(args[0], ""), nil)
	})
	cmd.Long = "Show a peer, as the node knows it; the peer is not asked. A card that has changed\nis shown with what differs from the one that was approved."
	return cmd
}

// showPeer writes the peer that the API answers with.
func (a *app) showPeer(ctx context.Context, node *nodeAPI, method, path string, body any) error {
	var one peerInfo
	value, err := node.get(ctx, method, path, body, &one)
	if err != nil {
		return err
	}
	if a.output != formatText {
		return a.writeDocument(a.output, value, false)
	}
	p := printer{w: a.stdout}
	p.field("Peer", one.Name)
	if one.Added {
		p.field("Added", "while the node ran")
	}
	a.tellPeer(&p, &one)
	a.tellCard(&p, &one)
	p.field("Credentials", orWord(strings.Join(one.Credentials, ", "), "none"))
	p.field("Protocol", one.Version)
	if one.Latency > 0 {
		p.field("Latency", fmt.Sprintf("%.0f ms", one.Latency))
	}
	for _, b := range one.Bindings {
		text := b.Interface
		if !b.Worked.IsZero() {
			text += ", worked " + a.timeText(b.Worked)
		}
		if !b.Failed.IsZero() {
			text += ", failed " + a.timeText(b.Failed)
		}
		p.field("Observed", text)
	}
	return p.err
}

// tellCard writes what the card of a peer says, and what became of it.
func (a *app) tellCard(p *printer, one *peerInfo) {
	if agent := one.Agent; agent != nil {
		p.field("Provider", agent.Provider)
		p.field("Description", agent.Description)
		for _, s := range agent.Skills {
			p.field("Skill", s.ID+": "+s.Name)
		}
	}
	signature := one.Signature
	if one.KeyID != "" {
		signature += ", key " + one.KeyID
	}
	p.field("Signature", signature)
	p.field("Digest", one.Digest)
	p.field("Pinned", orWord(one.Pinned, "no"))
	if one.Held == nil {
		return
	}
	p.field("Waiting", one.Held.Digest+", since "+a.timeText(one.Held.Since))
	for _, change := range one.Held.Changes {
		p.field("Change", change)
	}
	p.field("Approve", "handoff peer pin "+quoteShell(one.Name)+" --digest "+one.Held.Digest)
}

func orWord(text, word string) string {
	if text == "" {
		return word
	}
	return text
}

func newPeerCheckCommand(a *app) *cobra.Command {
	var send string
	cmd := adminCommand(a, "check PEER", "Try a peer, step by step", cobra.ExactArgs(1), func(ctx context.Context, node *nodeAPI, args []string) error {
		var r struct {
			OK    bool
			Steps []struct {
				Name, Result, Detail, Do string
				Took                     float64 `json:"took_ms"`
			}
		}
		value, err := node.get(ctx, "POST", peerPath(args[0], ":check"), map[string]string{"send": send}, &r)
		if err != nil {
			return err
		}
		if a.output != formatText {
			err = a.writeDocument(a.output, value, false)
		} else {
			p := printer{w: a.stdout}
			for _, s := range r.Steps {
				text := s.Result
				if s.Detail != "" {
					text += ": " + s.Detail
				}
				if s.Took > 0 {
					text += fmt.Sprintf(" (%.0f ms)", s.Took)
				}
				p.field(strings.ToUpper(s.Name[:1])+s.Name[1:], text)
				p.field("To do", s.Do)
			}
			err = p.err
		}
		if err == nil && !r.OK {
			err = exitStatus(exitFailure)
		}
		return err
	})
	cmd.Long = `Try a peer, step by step, and say what to do where something does not work: get
the card, verify its signatures, compare it with the one that is pinned, choose an
interface and credentials, and ask for a task that there is not. Nothing is changed
at the peer. With --send, a message of that text is sent twice under one id, what
comes of it is canceled, and it is kept whether the peer takes a message that comes
twice for one. Exits with 1 when a step fails.`
	cmd.Flags().StringVar(&send, "send", "", "send this text twice, to see whether the peer deduplicates")
	return cmd
}
