package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"handoff.example/handoff/a2a"
)

// envPrefix begins the name of every environment variable of the client
// (a2a-cli §7.2).
const envPrefix = "A2ACLI_"

// Annotations of flags.
const (
	// settableKey marks flags whose value may come from the environment or a
	// file.
	settableKey = "handoff_settable"
	// sourceKey tells where a value came from, once it is known.
	sourceKey = "handoff_source"
)

// clientKey marks commands that read the client's settings.
const clientKey = "handoff_client"

// secretSettings are never shown.
var secretSettings = []string{"bearer", "api-key", "svc-param"}

// sourceDefault is the source of a value that nobody set.
const sourceDefault = "default"

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// settable marks flags whose value may come from the environment or a file.
func settable(fs *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = fs.SetAnnotation(name, settableKey, nil)
	}
}

// sourceOf returns where the value of a flag came from.
func sourceOf(f *pflag.Flag) string {
	if s := f.Annotations[sourceKey]; len(s) > 0 {
		return s[0]
	}
	if f.Changed {
		return "flag --" + f.Name
	}
	return sourceDefault
}

// byFlag reports whether a flag stands on the command line.
func byFlag(f *pflag.Flag) bool { return f.Changed && len(f.Annotations[sourceKey]) == 0 }

// resolveSettings gives the flags that are not on the command line their values
// from the environment, the local file and the global file, in this order
// (a2a-cli §8.3).
func (a *app) resolveSettings(cmd *cobra.Command) error {
	if _, client := cmd.Annotations[clientKey]; !client {
		return nil
	}
	files, err := a.settingFiles(cmd)
	if err != nil {
		return err
	}
	for _, d := range files {
		if d.exposed() {
			a.warn("%s holds credentials and others can read it; run: chmod 600 %s", d.path, d.path)
		}
	}
	a.warnOfSettings(cmd.Root(), files)
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[settableKey]; !ok || f.Changed || failed != nil {
			return
		}
		value, source, strength := a.findSetting(envName(f.Name), files)
		if strength == 0 {
			return
		}
		if err := f.Value.Set(value); err != nil {
			text := fmt.Sprintf("%q: %v", value, err)
			if slices.Contains(secretSettings, f.Name) {
				text = "the value is not valid"
			}
			failed = usagef("%s (%s): %s", envName(f.Name), source, text)
			return
		}
		f.Changed = true
		f.Annotations[sourceKey] = []string{source, strconv.Itoa(strength)}
	})
	if failed != nil {
		return failed
	}
	return settleWait(cmd.Flags())
}

// warnOfSettings tells lines of the files that set nothing.
func (a *app) warnOfSettings(root *cobra.Command, files []*dotenv) {
	known := map[string]bool{}
	var gather func(cmd *cobra.Command)
	gather = func(cmd *cobra.Command) {
		for _, fs := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			fs.VisitAll(func(f *pflag.Flag) {
				if _, ok := f.Annotations[settableKey]; ok {
					known[envName(f.Name)] = true
				}
			})
		}
		for _, sub := range cmd.Commands() {
			gather(sub)
		}
	}
	gather(root)
	for _, d := range files {
		for _, line := range d.bad {
			a.warn("%s:%d is not of the form NAME=value, and is ignored", d.path, line)
		}
		for _, name := range slices.Sorted(maps.Keys(d.values)) {
			if !known[name] {
				a.warn("%s sets %s, which is no setting; see: handoff config show", d.path, name)
			}
		}
	}
}

// settingFiles returns the files that settings come from, the strongest first.
func (a *app) settingFiles(cmd *cobra.Command) ([]*dotenv, error) {
	var files []*dotenv
	path, _ := cmd.Flags().GetString("config")
	if path == "" {
		path, _ = a.lookupEnv(envPrefix + "CONFIG")
	}
	if path != "" {
		d, err := readDotenv(path)
		if err != nil {
			return nil, usagef("%w", err)
		}
		files = append(files, d)
	} else if d, err := localDotenv(); err != nil {
		return nil, usagef("%w", err)
	} else if d != nil {
		files = append(files, d)
	}
	d, err := a.globalDotenv()
	if err != nil {
		return nil, usagef("%w", err)
	}
	if d != nil && (len(files) == 0 || files[0].path != d.path) {
		files = append(files, d)
	}
	return files, nil
}

// findSetting returns a value, where it came from and the strength of that, 0
// when there is none.
func (a *app) findSetting(name string, files []*dotenv) (value, source string, strength int) {
	if value, ok := a.lookupEnv(name); ok && value != "" {
		return value, "environment " + name, len(files) + 1
	}
	for i, d := range files {
		if value, ok := d.values[name]; ok && value != "" {
			return value, "file " + d.path, len(files) - i
		}
	}
	return "", "", 0
}

// settleWait lets the stronger one of --wait and --async win where both are
// set, and refuses both on one command line.
func settleWait(fs *pflag.FlagSet) error {
	wait, async := fs.Lookup("wait"), fs.Lookup("async")
	if wait == nil || async == nil || !wait.Changed || wait.Value.String() != "true" || async.Value.String() != "true" {
		return nil
	}
	switch w, a := strengthOf(wait), strengthOf(async); {
	case w == a && byFlag(wait):
		return usagef("--wait and --async exclude each other")
	case w < a:
		return wait.Value.Set("false")
	}
	return async.Value.Set("false")
}

// strengthOf ranks where a value came from: the command line is the strongest.
func strengthOf(f *pflag.Flag) int {
	if s := f.Annotations[sourceKey]; len(s) > 1 {
		n, _ := strconv.Atoi(s[1])
		return n
	}
	return math.MaxInt
}

// clientFlags are the options of every command that speaks to an agent.
type clientFlags struct {
	agentCard  string
	node       string
	transports []string
	version    string
	bearer     string
	apiKey     string
	params     params
	tls        tlsFlags
	insecure   bool
	debug      bool
	verbose    bool
	timeout    time.Duration
	interval   time.Duration // between polls

	set *pflag.FlagSet
}

// register adds the options to a command.
func (f *clientFlags) register(a *app, cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[clientKey] = ""
	fs := cmd.Flags()
	f.set = fs
	fs.SortFlags = false
	fs.StringVarP(&f.agentCard, "agent-card", "a", "", "the agent: a URL or host, a card file, or the id of an agent of ./handoff.yaml or --node")
	fs.StringVar(&f.node, "node", "", "the URL of the node that agent ids belong to (also HANDOFF_NODE)")
	fs.StringSliceVar(&f.transports, "transport", nil, "preferred binding, JSONRPC, HTTP+JSON or GRPC; repeatable, highest first (default: the card's order)")
	fs.StringVar(&f.version, "a2a-version", "", "protocol version to speak, 1.0 or 0.3 (default: 1.0, and 0.3 where the card has nothing newer)")
	fs.StringVar(&f.bearer, "bearer", "", "bearer token")
	fs.StringVar(&f.apiKey, "api-key", "", "API key, sent where the agent's card asks for it")
	fs.Var(&f.params, "svc-param", "service parameter name:value, sent as a header; repeatable")
	f.tls.register(cmd)
	fs.BoolVar(&f.insecure, "insecure", false, "do not verify TLS certificates (development only)")
	fs.DurationVar(&f.timeout, "timeout", 0, "give up after this time (default: never)")
	fs.BoolVar(&f.verbose, "verbose", false, "show everything that was exchanged with the agent")
	fs.BoolVar(&f.debug, "debug", false, "log requests and answers to standard error, without credentials")
	fs.String("config", "", "read settings from this .env file instead of the one in or above the working directory")
	settable(fs, "agent-card", "node", "transport", "a2a-version", "bearer", "api-key", "svc-param", "ca", "client-cert", "client-key", "insecure", "timeout", "verbose", "debug")
	_ = cmd.RegisterFlagCompletionFunc("agent-card", a.completeAgents)
	_ = cmd.RegisterFlagCompletionFunc("transport", cobra.FixedCompletions([]string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}, cobra.ShellCompDirectiveNoFileComp))
}

// registerPolling adds the interval of polls.
func (f *clientFlags) registerPolling(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.interval, "poll-interval", 2*time.Second, "time between two polls at first; it grows")
	settable(cmd.Flags(), "poll-interval")
}

// check refuses values that no command can use.
func (f *clientFlags) check() error {
	if f.timeout < 0 {
		return usagef("--timeout %s is negative", f.timeout)
	}
	if f.set.Lookup("poll-interval") != nil && f.interval < minInterval {
		return usagef("--poll-interval %s is less than %s", f.interval, minInterval)
	}
	if f.version != "" {
		v, err := a2a.ParseVersion(f.version)
		if err != nil || v.Major() != a2a.Version10.Major() && v != a2a.Version03 {
			return usagef("--a2a-version %s is not spoken here; this program speaks 1.0 and 0.3", f.version)
		}
	}
	return nil
}

// minInterval keeps polls from being a busy loop.
const minInterval = 50 * time.Millisecond

// params is the value of --svc-param: lines of name:value. They are read by
// parse and not by Set, because pflag shows values that Set refuses, and a
// parameter may be a credential.
type params []string

type param struct{ name, value string }

// String returns nothing, since a parameter may be a credential.
func (p *params) String() string { return "" }

// Set adds the parameters of some lines.
func (p *params) Set(text string) error {
	*p = append(*p, strings.Split(text, "\n")...)
	return nil
}

// parse returns the parameters.
func (p *params) parse() ([]param, error) {
	list := make([]param, 0, len(*p))
	for _, line := range *p {
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !isToken(name) || strings.ContainsFunc(value, controls) {
			return nil, usagef("a --svc-param is not of the form name:value, such as x-trace-id:abc")
		}
		list = append(list, param{name, value})
	}
	return list, nil
}

// Type is for the help.
func (p *params) Type() string { return "name:value" }

// isToken reports whether a text can be the name of a header (RFC 9110 §5.1).
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// alias makes other names of flags mean the flag (a2a-cli §7.2).
func alias(fs *pflag.FlagSet, names map[string]string) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if canonical, ok := names[name]; ok {
			name = canonical
		}
		return pflag.NormalizedName(name)
	})
}
