package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"handoff.example/handoff"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/store/sqlite"
)

func newDoctorCommand(a *app) *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look for what is wrong with a node on this machine",
		Long: `Look for what is wrong with a node on this machine: its configuration, store,
socket, bus, address, disk, clock, key and cards, and the other nodes of its store.
Each line says ok, warn or fail, and what to do. Exits with 1 when something has failed. Nothing is changed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{app: a, named: cmd.Flags().Changed("socket")}
			d.examine(cmd.Context(), &f)
			return d.tell()
		},
	}
	f.registerFile(cmd)
	f.registerOverrides(cmd)
	return cmd
}

// verdict says how something is.
type verdict string

// Verdicts.
const (
	verdictOK   verdict = "ok"
	verdictWarn verdict = "warn"
	verdictFail verdict = "fail"
)

// examined is one thing that the doctor has looked at.
type examined struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Text    string  `json:"text"`
	Advice  string  `json:"advice,omitempty"` // what to do
}

type doctor struct {
	*app
	named    bool // the socket is named on the command line, so that a node should answer there
	findings []examined
	running  bool // a node answers on the socket
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, examined{Check: check, Verdict: verdictOK, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(check, advice, format string, args ...any) {
	d.findings = append(d.findings, examined{check, verdictWarn, fmt.Sprintf(format, args...), advice})
}

func (d *doctor) fail(check, advice, format string, args ...any) {
	d.findings = append(d.findings, examined{check, verdictFail, fmt.Sprintf(format, args...), advice})
}

// tell writes what was found.
func (d *doctor) tell() error {
	failed := false
	p := printer{w: d.stdout}
	for _, f := range d.findings {
		failed = failed || f.Verdict == verdictFail
		if d.output != formatText {
			continue
		}
		p.write(fmt.Sprintf("%-4s %s\n", f.Verdict, oneLine(f.Check+": "+f.Text)))
		if f.Advice != "" {
			p.write("     " + oneLine(f.Advice) + "\n")
		}
	}
	if d.output != formatText {
		p.err = d.writeValue(struct {
			OK     bool       `json:"ok"`
			Checks []examined `json:"checks"`
		}{!failed, d.findings})
	}
	if failed {
		return errors.Join(p.err, exitStatus(exitFailure))
	}
	return p.err
}

// examine looks at everything. What does not depend on a configuration is
// looked at without one too.
func (d *doctor) examine(ctx context.Context, f *nodeFlags) {
	d.clock()
	c, err := f.load()
	if err != nil {
		e := classify(err)
		text, _, _ := strings.Cut(e.Message, "\n")
		advice := e.Hint
		if advice == "" {
			advice = "See all problems with: handoff check"
		}
		d.fail("configuration", advice, "%s", text)
		return
	}
	d.configuration(c)
	d.secretKey(c)
	d.socket(ctx, c)
	d.store(ctx, c)
	d.disk(c)
	d.address(ctx, c)
	d.publicURL(ctx, c)
}

func (d *doctor) configuration(c *config.Config) {
	warnings, err := handoff.Check(c)
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		d.fail("configuration", "See all problems with: handoff check "+quoteShell(c.File()), "%s", text)
		return
	}
	for _, line := range warningsOf(c, warnings) {
		d.warn("configuration", "", "%s", line)
	}
	if len(c.Agents) == 0 && len(c.Peers) == 0 {
		d.warn("configuration", "Add an agent below agents:, or make one with: handoff card new", "%s has no agents", c.File())
		return
	}
	d.ok("configuration", "%s, %s", c.File(), plural(len(c.Agents), "agent"))
}

// secretKey looks at who can read the key.
func (d *doctor) secretKey(c *config.Config) {
	const check = "secret key"
	if c.SecretKey.IsZero() {
		d.warn(check, "Set secret_key: file:handoff.key and make the file with: handoff init", "there is none; grants cannot carry data, and callbacks end with the process")
		return
	}
	path := keyPath(c)
	if path == "" {
		d.ok(check, "from %s", c.Origin("secret_key"))
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		d.fail(check, "", "%v", err)
	case info.Mode().Perm()&0o077 != 0 && filepath.Separator == '/':
		d.fail(check, "Run: chmod 600 "+quoteShell(path), "%s can be read by others (mode %04o)", path, info.Mode().Perm())
	default:
		d.ok(check, "%s, mode %04o", path, info.Mode().Perm())
	}
}

// seals looks whether the node has the keys that it needs, and none that it does
// not need.
func (d *doctor) seals(s *sealStatus) {
	const check = "old secret keys"
	switch {
	case s == nil:
	case s.Unknown > 0:
		d.fail(check, "Add the key that secret_key was before to old_secret_keys, and restart", "%s sealed with a key that is not configured", plural(s.Unknown, "value"))
	case s.Spare:
		d.warn(check, "Remove old_secret_keys, when no key in it comes next, and restart", "none is needed: nothing in the store is sealed with one")
	case len(s.Waiting) > 0:
		d.warn(check, "Give these nodes the same secret_key, and restart them", "%s not sealed again before all nodes have the same secret_key; another one have: %s", plural(s.Old, "value"), strings.Join(s.Waiting, ", "))
	default:
		d.warn(check, "Keep old_secret_keys; the node's log says when they are not needed", "%s sealed with one", plural(s.Old, "value"))
	}
}

// keyPath returns the file that the configuration reads the secret key from, ""
// when it does not come from a file of its own.
func keyPath(c *config.Config) string {
	keys, _ := peek(c.File())
	path, ok := strings.CutPrefix(keys.SecretKey, "file:")
	switch {
	case !ok:
		return ""
	case filepath.IsAbs(path):
		return path
	}
	return filepath.Join(c.Dir(), path)
}

// socket looks whether a node answers.
func (d *doctor) socket(ctx context.Context, c *config.Config) {
	const check = "node"
	path := handoff.SocketPath(c)
	if path == "" {
		d.warn(check, "", "a store in memory has no admin socket; the node cannot be looked at from here")
		return
	}
	node := socketAt(path)
	defer node.close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var s nodeStatus
	_, err := node.get(ctx, "GET", "/status", nil, &s)
	switch {
	case err == nil:
		d.running = true
		d.ok(check, "runs since %s, version %s, socket %s", d.timeText(s.Started), s.Version, path)
		if s.Version != versionText() {
			d.warn(check, "Restart the node to run this version", "it runs version %s, and this program is %s", s.Version, versionText())
		}
		if s.Draining {
			d.warn(check, "", "it is stopping")
		}
		if err := node.ready(ctx); err != nil {
			d.fail(check, "See the node's log", "it is not ready: %v", err)
		}
		d.seals(s.Seals)
		d.bus(s.Bus)
		d.nodes(ctx, node, c)
	case absent(err) && !d.named:
		d.ok(check, "not running")
	default:
		e := classify(err)
		d.fail(check, e.Hint, "%s", e.Message)
	}
}

// store looks whether the store can be opened, and who has it open.
func (d *doctor) store(ctx context.Context, c *config.Config) {
	const check = "store"
	if c.UsesPostgres() {
		d.database(ctx, c)
		return
	}
	path := c.StorePath()
	if path == ":memory:" {
		d.warn(check, "Name a file in store: to keep tasks over a restart", "in memory")
		return
	}
	pid, held := sqlite.Holder(path)
	by := ""
	if pid != 0 {
		by = " by process " + strconv.Itoa(pid)
	}
	switch {
	case held && d.running:
		d.ok(check, "%s, open%s", path, by)
		return
	case held:
		d.fail(check, "Another node, of another configuration or starting or stopping, has the store; stop it, or name another file in store:", "%s is held%s, but no node answers on its socket", path, by)
		return
	case !fileExists(path):
		if err := writable(filepath.Dir(path)); err != nil {
			d.fail(check, "Make the directory, and let the user of the node write there", "%s cannot be made: %v", path, err)
			return
		}
		d.ok(check, "%s does not exist yet", path)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tasks, err := sqlite.Inspect(ctx, path)
	if err != nil {
		d.fail(check, "Restore a backup with: handoff restore FILE --force", "%v", err)
		return
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err != nil {
		d.fail(check, "Let the user of the node write it", "%v", err)
		return
	} else {
		_ = f.Close()
	}
	d.ok(check, "%s, whole, %s", path, plural(int(tasks), "task"))
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 && filepath.Separator == '/' {
		d.warn(check, "Run: chmod 600 "+quoteShell(path), "others can read it (mode %04o)", info.Mode().Perm())
	}
}

// writable reports whether files can be made in a directory.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".handoff-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// disk looks at the space where the store is.
func (d *doctor) disk(c *config.Config) {
	path := c.StorePath()
	if path == ":memory:" || path == "" {
		return
	}
	free, err := freeBytes(filepath.Dir(path))
	const low, least = 1 << 30, 64 << 20
	switch {
	case err != nil:
		d.warn("disk", "", "the free space is not known: %v", err)
	case free < least:
		d.fail("disk", "Make room; a full disk refuses messages", "%s free", bytesText(free))
	case free < low:
		d.warn("disk", "Make room; a full disk refuses messages", "%s free", bytesText(free))
	default:
		d.ok("disk", "%s free", bytesText(free))
	}
}

// clock looks whether the clock can be right.
func (d *doctor) clock() {
	now := d.now()
	built := buildOf().Time
	if at, err := time.Parse(time.RFC3339, built); err == nil && now.Before(at) {
		d.fail("clock", "Set the clock", "it is %s, before this program was built", now.UTC().Format(time.RFC3339))
		return
	}
	if now.Year() < 2025 {
		d.fail("clock", "Set the clock", "it is %s", now.UTC().Format(time.RFC3339))
		return
	}
	d.ok("clock", "%s", now.UTC().Format(time.RFC3339))
}

// address looks whether the address is free, or the node answers there.
func (d *doctor) address(ctx context.Context, c *config.Config) {
	const check = "address"
	if !d.running {
		listener, err := net.Listen("tcp", c.Listen)
		if err != nil {
			f := classify(listenFailure(c.Listen, err))
			d.fail(check, f.Hint, "%s", f.Message)
			return
		}
		_ = listener.Close()
		d.ok(check, "%s is free", c.Listen)
		return
	}
	if strings.HasSuffix(c.Listen, ":0") {
		d.ok(check, "%s is whatever is free; the log of the node says which", c.Listen)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url := "http://" + localAddress(c.Listen) + "/healthz"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		d.fail(check, "", "%v", err)
		return
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		d.fail(check, "Restart the node when listen: has changed", "the node does not answer at %s: %v", url, err)
		return
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		d.fail(check, "Something else listens there; the node was started with another address", "%s answers with %s", url, response.Status)
		return
	}
	d.ok(check, "the node answers on %s", c.Listen)
}

// publicURL looks whether a card can be got from where the cards say.
func (d *doctor) publicURL(ctx context.Context, c *config.Config) {
	const check = "public URL"
	if c.PublicURL == "" {
		if host, _, err := net.SplitHostPort(c.Listen); err == nil && host != "localhost" && !net.ParseIP(host).IsLoopback() {
			d.warn(check, "Set public_url to the URL at which clients reach the node", "there is none; cards say what each request says")
		}
		return
	}
	if !d.running {
		d.ok(check, "%s; the node is not running, so that nothing was asked there", c.PublicURL)
		return
	}
	for _, id := range c.AgentIDs() {
		url := card.URL(c.PublicURL, c.Agents[id], id, "")
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		found, err := client.Discover(ctx, url, client.Options{})
		cancel()
		switch {
		case err != nil:
			d.fail(check, "Check DNS, the proxy and its path prefix; the node itself is at "+c.Listen, "the card of %s cannot be got: %v", id, err)
		case found.Name != c.Agents[id].Name:
			d.fail(check, "The proxy leads elsewhere", "%s is the card of %q", url, found.Name)
		default:
			d.ok(check, "%s", url)
		}
	}
}
