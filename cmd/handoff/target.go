package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/peer"
)

// configFile is the configuration of a node whose agents have names here.
const configFile = "handoff.yaml"

// target is the agent that a command speaks to.
type target struct {
	ref     string          // what package client finds the card by
	said    string          // how a person names the agent: for the next command
	token   string          // HANDOFF_TOKEN, when the agent is one of the node's
	peers   *peer.Directory // of the configuration, when the agent is a peer; else nil
	card    []byte          // of a peer whose card is in a file or written out; else nil
	secrets []string        // of the peer, which are not shown
}

// agentID is what may be the id of a local agent.
var agentID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// findTarget returns the agent that is named: as an argument, or by
// --agent-card and what stands for it. An empty name is the default agent of
// the node.
func (a *app) findTarget(f *clientFlags, named string) (target, error) {
	if named == "" {
		named = f.agentCard
	}
	node := f.node
	if node == "" {
		node, _ = a.lookupEnv("HANDOFF_NODE")
	}
	if node != "" {
		if !strings.Contains(node, "://") {
			return target{}, usagef("the node %q is not a URL such as http://127.0.0.1:8080", node)
		}
		if named == "" || agentID.MatchString(named) && named != "localhost" {
			return a.nodeTarget(node, named), nil
		}
	}
	if ext := strings.ToLower(filepath.Ext(named)); (ext == ".yaml" || ext == ".yml") && hasCardFile(named) {
		return target{}, usagef("%s is the configuration of a node, and no agent card", named).
			hint("Run the command in its directory and name the agent by its id, such as: handoff send AGENT \"hello\"")
	}
	if named != "" && !agentID.MatchString(named) {
		return target{ref: named, said: named}, nil
	}
	local, err := loadLocal()
	if err != nil {
		if t, ok := agentTarget(named); ok {
			return t, nil
		}
	}
	switch {
	case err != nil && (named == "" || !hasCardFile(named)):
		return target{}, failf(codeCardNotFound, "find agent %q: %w", named, err).hint("Run: handoff check, or name the agent by its URL")
	case local == nil && named == "":
		return target{}, usagef("no agent is named").hint("Name one as an argument or with -a: a URL, a card file, or an agent of ./%s", configFile)
	case local == nil:
		return target{ref: named, said: named}, nil
	case named == "":
		if named = local.DefaultAgentID(); named == "" {
			return target{}, usagef("no agent is named, and %s has several: %s", configFile, strings.Join(local.AgentIDs(), ", ")).
				hint("Name one as an argument or with -a")
		}
	}
	if local.Peers[named] != nil {
		return peerTarget(local, named)
	}
	agent, ok := local.Agents[named]
	switch {
	case !ok && a.added(context.Background(), local, named):
		return target{}, usagef("%s is a peer of the node, added while it runs: only the node has its address and credentials", named).
			hint("Hand work to it with: handoff send %s \"<text>\"; see what was handed on with: handoff delegation list --peer %s, and the peer with: handoff peer show %s", named, named, named)
	case !ok:
		return target{ref: named, said: named}, nil
	}
	return target{ref: card.URL(localBase(local), agent, named, ""), said: named}, nil
}

// agentTarget returns an agent of the configuration when there is no more to be known
// than where it is: variables of the environment that the configuration names for other
// things may be missing. An empty name is the default agent.
func agentTarget(named string) (t target, ok bool) {
	local, err := config.LoadAddresses(configFile)
	if err != nil {
		return target{}, false
	}
	if named == "" {
		named = local.DefaultAgentID()
	}
	agent := local.Agents[named]
	if agent == nil || local.Peers[named] != nil {
		return target{}, false
	}
	return target{ref: card.URL(localBase(local), agent, named, ""), said: named}, true
}

// nodeTarget returns an agent of a node; without an id its default one.
func (a *app) nodeTarget(node, id string) target {
	t := target{ref: strings.TrimSuffix(node, "/") + "/", said: id}
	if id != "" {
		t.ref = card.Address(node, id, "")
	}
	t.token, _ = a.lookupEnv("HANDOFF_TOKEN")
	return t
}

// loadLocal returns the configuration of the working directory, or nil when
// there is none.
func loadLocal() (*config.Config, error) {
	if _, err := os.Stat(configFile); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return config.Load(configFile)
}

func hasCardFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// localBase returns the URL at which the node of a configuration is reached
// from here.
func localBase(c *config.Config) string {
	if c.PublicURL != "" {
		return strings.TrimSuffix(c.PublicURL, "/")
	}
	scheme := "http://"
	if c.TLS != nil {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return scheme + c.Listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}

// completeAgents completes the ids of the agents of the working directory, and the
// names of its peers.
func (a *app) completeAgents(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	local, err := loadLocal()
	if err != nil || local == nil {
		return nil, cobra.ShellCompDirectiveDefault // a card file
	}
	ids := local.AgentIDs()
	for i, id := range ids {
		ids[i] = cobra.CompletionWithDesc(id, oneLine(local.Agents[id].Name))
	}
	ids = append(ids, local.PeerNames()...)
	return ids, cobra.ShellCompDirectiveDefault
}

// completeFirstAgent completes AGENT where it is the first argument.
func (a *app) completeFirstAgent(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeAgents(cmd, args, prefix)
}

// nextCommand returns the command line that goes on: the words, and the options
// that lead to the same agent. It holds no credentials.
func (t target) nextCommand(f *clientFlags, words ...string) string {
	line := append([]string{"handoff"}, words...)
	if t.said != "" && !fromEnvironment(f) {
		line = append(line, "-a", quoteShell(t.said))
	}
	for _, name := range []string{"node", "config", "a2a-version", "ca", "client-cert", "client-key", "insecure"} {
		flag := f.set.Lookup(name)
		switch {
		case !byFlag(flag):
		case flag.Value.Type() == "bool":
			line = append(line, "--"+name)
		default:
			line = append(line, "--"+name, quoteShell(flag.Value.String()))
		}
	}
	for _, transport := range f.transports {
		if byFlag(f.set.Lookup("transport")) {
			line = append(line, "--transport", quoteShell(transport))
		}
	}
	for _, name := range []string{"bearer", "api-key"} {
		if byFlag(f.set.Lookup(name)) {
			line = append(line, "--"+name, `"$`+envName(name)+`"`)
		}
	}
	return strings.Join(line, " ")
}

// fromEnvironment reports whether the agent is named by a setting that the next
// command reads as well.
func fromEnvironment(f *clientFlags) bool {
	flag := f.set.Lookup("agent-card")
	return flag.Changed && !byFlag(flag)
}

// plainShell are words that no shell changes.
var plainShell = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]+$`)

// quoteShell quotes a word for a POSIX shell.
func quoteShell(word string) string {
	if plainShell.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
