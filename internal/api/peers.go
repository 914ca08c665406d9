package api

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/oauth"
	"handoff.example/handoff/internal/peer"
)

// peerView is a peer without what is secret. What it says of itself is text, and
// has been cleaned.
type peerView struct {
	Name         string        `json:"name"`
	Added        bool          `json:"added"`
	Source       string        `json:"source"`
	Credentials  []string      `json:"credentials"`
	Login        bool          `json:"login"`
	Agent        *peerAgent    `json:"agent,omitzero"`
	Interface    string        `json:"interface,omitempty"`
	Digest       string        `json:"digest,omitempty"`
	Pinned       string        `json:"pinned,omitempty"`
	Held         *peerHeld     `json:"held,omitzero"`
	Signature    string        `json:"signature,omitempty"`
	KeyID        string        `json:"kid,omitempty"`
	Deduplicates bool          `json:"deduplicates"`
	Known        string        `json:"deduplicates_known,omitempty"`
	Version      string        `json:"version,omitempty"`
	Latency      float64       `json:"latency_ms,omitzero"`
	Seen         time.Time     `json:"seen,omitzero"`
	Error        string        `json:"error,omitempty"`
	ErrorAt      time.Time     `json:"error_at,omitzero"`
	Bindings     []peerBinding `json:"bindings"`
}

type peerAgent struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Version     string      `json:"version"`
	Provider    string      `json:"provider,omitempty"`
	Skills      []peerSkill `json:"skills"`
}

type peerSkill struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

type peerHeld struct {
	Digest  string    `json:"digest"`
	Since   time.Time `json:"since,omitzero"`
	Changes []string  `json:"changes"`
}

type peerBinding struct {
	Interface string    `json:"interface"`
	Worked    time.Time `json:"worked,omitzero"`
	Failed    time.Time `json:"failed,omitzero"`
}

func peerViewOf(p *peer.Peer) *peerView {
	v := &peerView{
		Name: p.Name, Added: p.Added, Source: sourceOf(p.Config.Card), Credentials: append([]string{}, p.Config.Auth.Kinds()...),
		Digest: p.Digest, Pinned: p.Pinned, Signature: p.Facts.Signature, KeyID: p.Facts.KeyID, Version: p.Facts.Version, Latency: p.Facts.Latency,
		Seen: p.Seen, Error: p.Facts.Error, ErrorAt: p.Facts.ErrorAt, Bindings: []peerBinding{},
	}
	v.Deduplicates, v.Known = p.Deduplicates()
	if o := p.Config.Auth.OAuth2; o != nil {
		v.Login = o.Flow == config.PeerFlowAuthorizationCode
	}
	if i := p.Interface; i != nil {
		v.Interface = peer.Clean(i.ProtocolBinding+" "+i.ProtocolVersion+" "+i.URL, maxNote, false)
	}
	if p.Held != nil {
		v.Held = &peerHeld{p.Held.Digest, p.Held.Since, append([]string{}, p.Held.Changes...)}
	}
	for _, b := range p.Facts.Bindings {
		v.Bindings = append(v.Bindings, peerBinding(b))
	}
	if c := p.Card; c != nil {
		v.Agent = &peerAgent{Name: c.Name, Description: c.Description, Version: c.Version, Skills: make([]peerSkill, len(c.Skills))}
		if c.Provider != nil {
			v.Agent.Provider = c.Provider.Organization
		}
		for i := range c.Skills {
			v.Agent.Skills[i] = peerSkill{peer.Clean(c.Skills[i].ID, 200, false), c.Skills[i].Name, c.Skills[i].Description}
		}
	}
	return v
}

// sourceOf returns where a card is from, without what may be secret in a URL.
func sourceOf(s config.CardSource) string {
	if s.Inline() != nil {
		return "inline"
	}
	u, err := url.Parse(s.Ref())
	if err != nil {
		return ""
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return u.String()
}

var errNoPeers = a2a.Errorf(a2a.CodeUnsupportedOperation, "This node has no peers")

// peers returns the directory.
func (c *call) peers() (*peer.Directory, error) {
	if c.h.opts.Peers == nil {
		return nil, errNoPeers
	}
	return c.h.opts.Peers, nil
}

// peerError makes an error of the directory one of the protocol.
func peerError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*peer.UnknownError](err); ok {
		return a2a.Errorf(a2a.CodeTaskNotFound, "%s", upper(err.Error()))
	}
	if e, ok := errors.AsType[*config.Error](err); ok {
		var text strings.Builder
		for i, p := range e.Problems {
			if i > 0 {
				text.WriteString("; ")
			}
			text.WriteString(clip(p.Path+" "+p.Message, maxNote))
			if p.Hint != "" {
				text.WriteString(" (" + p.Hint + ")")
			}
		}
		return a2a.Errorf(a2a.CodeInvalidParams, "%s", text.String())
	}
	if refused(err) {
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "%s", upper(clip(err.Error(), maxNote)))
	}
	return err
}

// refused reports whether an error says what a caller has to know: what the
// directory refuses, and what the peer has answered, which is no answer of ours.
func refused(err error) bool {
	for _, one := range []error{peer.ErrNoKey, peer.ErrNoLogin, peer.ErrNothingToPin, peer.ErrBusy} {
		if errors.Is(err, one) {
			return true
		}
	}
	return is[*peer.HeldError](err) || is[*peer.DigestError](err) || is[*peer.CredentialsError](err) || is[*peer.FieldError](err) || is[*oauth.TokenError](err) || is[*oauth.MetadataError](err) ||
		is[*client.TransportError](err) || is[*client.CardError](err) || is[*a2a.Error](err)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// onPeers reads the request and returns the directory.
func (c *call) onPeers(body any) (*peer.Directory, error) {
	if err := c.read(body); err != nil {
		return nil, err
	}
	return c.peers()
}

// seePeers checks that the request has no query and returns the directory.
func (c *call) seePeers() (*peer.Directory, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	return c.peers()
}

// changed answers with a peer after a change of it, which it logs.
func (c *call) changed(what string, p *peer.Peer, err error, args ...any) (any, error) {
	if err != nil {
		return nil, peerError(err)
	}
	args = append([]any{"peer", p.Name}, args...)
	c.h.log.InfoContext(c.context(), what, append(args, "by", c.caller.Subject)...)
	return peerViewOf(p), nil
}

// listPeers returns all peers by name.
func (c *call) listPeers() (any, error) {
	d, err := c.seePeers()
	if err != nil {
		return nil, err
	}
	answer := struct {
		Peers []*peerView `json:"peers"`
	}{[]*peerView{}}
	for _, name := range d.Names() {
		p, err := d.Get(name)
		if _, ok := errors.AsType[*peer.UnknownError](err); ok {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		answer.Peers = append(answer.Peers, peerViewOf(p))
	}
	return answer, nil
}

// getPeer returns a peer.
func (c *call) getPeer() (any, error) {
	d, err := c.seePeers()
	if err != nil {
		return nil, err
	}
	p, err := d.Get(c.r.PathValue("id"))
	if err != nil {
		return nil, peerError(err)
	}
	return c.peerDetail(p)
}

// addPeer adds a peer.
func (c *call) addPeer() (any, error) {
	var q struct {
		Name   string         `json:"name"`
		Config jsontext.Value `json:"config"`
	}
	d, err := c.onPeers(&q)
	switch {
	case err != nil:
		return nil, err
	case q.Name == "":
		return nil, a2a.Invalid("name", "is required")
	case q.Config.Kind() != '{':
		return nil, a2a.Invalid("config", "has to be an object")
	}
	p, err := d.Add(c.context(), q.Name, q.Config)
	if err == nil {
		c.target = p.Name
	}
	return c.changed("A peer was added", p, err)
}

// removePeer removes a peer.
func (c *call) removePeer() (any, error) {
	d, err := c.onPeers(&nothing{})
	if err != nil {
		return nil, err
	}
	name := c.r.PathValue("id")
	if err := d.Remove(c.context(), name); err != nil {
		return nil, peerError(err)
	}
	c.h.log.InfoContext(c.context(), "A peer was removed", "peer", name, "by", c.caller.Subject)
	return nil, nil
}

// peerCheck is what works with a peer.
type peerCheck struct {
	Peer  string     `json:"peer"`
	OK    bool       `json:"ok"`
	Steps []peerStep `json:"steps"`
}

type peerStep struct {
	Name   string  `json:"name"`
	Result string  `json:"result"`
	Detail string  `json:"detail,omitempty"`
	Do     string  `json:"do,omitempty"`
	Took   float64 `json:"took_ms,omitzero"`
}

// checkPeer tries a peer.
func (c *call) checkPeer() (any, error) {
	var q struct {
		Send string `json:"send"`
	}
	d, err := c.onPeers(&q)
	if err != nil {
		return nil, err
	}
	if len(q.Send) > maxNote {
		return nil, a2a.Invalid("send", "is longer than %d bytes", maxNote)
	}
	report, err := d.CheckBySending(c.context(), c.r.PathValue("id"), c.user(), q.Send)
	if err != nil {
		return nil, peerError(err)
	}
	answer := &peerCheck{Peer: report.Peer, OK: report.OK}
	for _, s := range report.Steps {
		answer.Steps = append(answer.Steps, peerStep{s.Name, string(s.Result), s.Detail, s.Do, float64(s.Took.Microseconds()) / 1000})
	}
	return answer, nil
}

// user is for whom a peer is called.
func (c *call) user() peer.User { return peer.User{Tenant: c.caller.Tenant, Subject: c.caller.Subject} }

// pinPeer approves a card.
func (c *call) pinPeer() (any, error) {
	var q struct {
		Digest string `json:"digest"`
	}
	d, err := c.onPeers(&q)
	if err != nil {
		return nil, err
	}
	p, err := d.Pin(c.context(), c.r.PathValue("id"), q.Digest, c.caller.Subject)
	if err != nil {
		return nil, peerError(err)
	}
	return c.changed("The card of a peer was approved", p, nil, "digest", p.Pinned)
}

// unpinPeer lets any card of a peer pass.
func (c *call) unpinPeer() (any, error) {
	d, err := c.onPeers(&nothing{})
	if err != nil {
		return nil, err
	}
	p, err := d.Unpin(c.context(), c.r.PathValue("id"), c.caller.Subject)
	return c.changed("A peer is not pinned any more", p, err)
}

// loginPeer begins a login of the caller to a peer.
func (c *call) loginPeer() (any, error) {
	d, err := c.mayLogIn()
	if err != nil {
		return nil, err
	}
	login, err := d.Login(c.context(), c.r.PathValue("id"), c.user())
	if err != nil {
		return nil, peerError(err)
	}
	return struct {
		URL     string    `json:"url"`
		Expires time.Time `json:"expires"`
	}{login.URL, login.Expires.UTC().Truncate(time.Second)}, nil
}

// logoutPeer forgets the caller's login to a peer.
func (c *call) logoutPeer() (any, error) {
	d, err := c.mayLogIn()
	if err != nil {
		return nil, err
	}
	return nil, peerError(d.Logout(c.context(), c.r.PathValue("id"), c.user()))
}

// mayLogIn reads the request and checks that the caller may log in: for itself, or as an operator where
// one login counts for all.
func (c *call) mayLogIn() (*peer.Directory, error) {
	d, err := c.onPeers(&nothing{})
	if err != nil {
		return nil, err
	}
	p, err := d.Get(c.r.PathValue("id"))
	if err != nil {
		return nil, peerError(err)
	}
	o := p.Config.Auth.OAuth2
	if (o == nil || !o.PerUser) && (c.caller.Role < auth.RoleOperator || c.caller.Tenant != "") {
		return nil, a2a.Errorf(a2a.CodePermissionDenied, "One login to this peer counts for all; it takes the role operator without a tenant")
	}
	if o != nil && o.PerUser && c.caller.Subject == "" {
		return nil, a2a.Errorf(a2a.CodePermissionDenied, "Each caller logs in to this peer, and this one has no name")
	}
	return d, nil
}
