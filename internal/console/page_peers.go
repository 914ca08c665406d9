package console

import (
	"net/url"
	"strings"
	"time"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/content"
)

var peersPages = []page{
	{path: "peers/{id}", nav: "agents", title: "Peer", role: auth.RoleOperator, node: true, get: showPeer, post: changePeer},
}

// peerAgent is what the card of a peer says.
type peerAgent struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Provider    string `json:"provider"`
}

// heldCard is a card that waits for an approval.
type heldCard struct {
	Digest  string    `json:"digest"`
	Since   time.Time `json:"since"`
	Changes []string  `json:"changes"`
}

// peerStep is one thing that was tried with a peer.
type peerStep struct {
	Name   string  `json:"name"`
	Result string  `json:"result"`
	Detail string  `json:"detail"`
	Do     string  `json:"do"`
	Took   float64 `json:"took_ms"`
}

// State is a state that stands for the result.
func (s *peerStep) State() string {
	switch s.Result {
	case "ok", "pass":
		return "good"
	case "failed", "fail":
		return "down"
	case "warning", "warn":
		return "retrying"
	}
	return "idle"
}

// shownPeer is an agent elsewhere, as the API has it.
type shownPeer struct {
	Name    string     `json:"name"`
	Agent   *peerAgent `json:"agent"`
	Held    *heldCard  `json:"held"`
	Latency float64    `json:"latency_ms"`
	Seen    time.Time  `json:"seen"`
	Error   string     `json:"error"`
}

// peerDetail is what the page of a peer shows.
type peerDetail struct {
	shownCard
	shownPeer
	Added        bool      `json:"added"`
	Source       string    `json:"source"`
	Credentials  []string  `json:"credentials"`
	Login        bool      `json:"login"`
	Interface    string    `json:"interface"`
	Digest       string    `json:"digest"`
	Pinned       string    `json:"pinned"`
	Signature    string    `json:"signature"`
	KeyID        string    `json:"kid"`
	Deduplicates bool      `json:"deduplicates"`
	Known        string    `json:"deduplicates_known"`
	Version      string    `json:"version"`
	ErrorAt      time.Time `json:"error_at"`
	Bindings     []struct {
		Interface string    `json:"interface"`
		Worked    time.Time `json:"worked"`
		Failed    time.Time `json:"failed"`
	} `json:"bindings"`
	Delegations []stateCount `json:"delegations"`

	Check *struct {
		OK    bool       `json:"ok"`
		Steps []peerStep `json:"steps"`
	}
	LoginURL  string
	Text, Ref string
	Problem   string
}

// Up says in one word how the peer is.
func (p *shownPeer) Up() string {
	switch {
	case p.Error != "":
		return "down"
	case p.Seen.IsZero():
		return "unknown"
	}
	return "up"
}

func (v *view) peer() (*peerDetail, error) {
	d := &peerDetail{}
	if err := v.get("/peers/"+url.PathEscape(v.param("id")), d); err != nil {
		return nil, err
	}
	v.title = content.Visible(d.Name)
	return d, nil
}

func showPeer(v *view) error {
	d, err := v.peer()
	if err != nil {
		return err
	}
	return v.render("peer", d)
}

// changePeer does what a form of the page says.
func changePeer(v *view) error {
	d, err := v.peer()
	if err != nil {
		return err
	}
	api, here := "/peers/"+url.PathEscape(d.Name), Prefix+"peers/"+url.PathEscape(d.Name)
	done := ""
	switch v.form.Get("do") {
	case "check":
		if err = v.post(api+":check", nil, &d.Check); err == nil {
			return v.render("peer", d)
		}
	case "pin":
		body := map[string]string{}
		if digest := v.form.Get("digest"); digest != "" {
			body["digest"] = digest // that which was shown, and no other
		}
		err, done = v.post(api+":pin", body, nil), "The card is approved, and the peer is pinned to it."
	case "unpin":
		err, done = v.post(api+":unpin", nil, nil), "Any card of the peer passes now."
	case "login":
		var login struct {
			URL string `json:"url"`
		}
		if err = v.post(api+":login", nil, &login); err == nil {
			d.LoginURL = login.URL
			return v.render("peer", d)
		}
	case "logout":
		err, done = v.post(api+":logout", nil, nil), "The login is forgotten."
	case "remove":
		err, done, here = v.delete(api), "The peer "+d.Name+" is removed.", Prefix+"agents"
	case "delegate":
		return v.tryPeer(d)
	default:
		return errNoAction()
	}
	if err != nil {
		return v.again("peer", d, &d.Problem, err)
	}
	return v.redirect(here, done)
}

// tryPeer hands work to the peer.
func (v *view) tryPeer(d *peerDetail) error {
	d.Text, d.Ref = strings.TrimSpace(v.form.Get("text")), strings.TrimSpace(v.form.Get("ref"))
	if d.Text == "" {
		return v.again("peer", d, &d.Problem, errEmptyMessage)
	}
	task, err := v.delegate(d.Name, d.Ref, d.Text)
	if err != nil {
		return v.again("peer", d, &d.Problem, err)
	}
	return v.redirect(Prefix+"tasks/"+url.PathEscape(task), "The work is handed on. The page follows it.")
}
