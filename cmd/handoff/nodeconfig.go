package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"handoff.example/handoff/config"
)

// codeConfig is the failure of a configuration that is wrong.
const codeConfig = "HANDOFF_ERR_CONFIG"

// nodeFlags are the options of commands that read the configuration of a node.
type nodeFlags struct {
	file string
	set  []string // path=value
	cmd  *cobra.Command
}

// overrides are the flags that set a value over the file's.
var overrides = []struct{ flag, path, usage string }{
	{"listen", "listen", "the address to listen on, host:port"},
	{"store", "store", "where tasks are kept, such as sqlite:handoff.db, sqlite::memory: or postgres://db/handoff"},
	{"bus", "bus", "over what nodes tell each other what happens, such as nats://nats:4222"},
	{"socket", "socket", "where the admin socket is"},
	{"node-url", "node_url", "the URL at which this one node is reached"},
	{"public-url", "public_url", "the URL at which clients reach the node"},
	{"secret-key", "secret_key", "the key that encrypts credentials: file: and a path"},
	{"anonymous", "callers.anonymous", "callers without credentials: off, loopback or everywhere"},
	{"default-agent", "default_agent", "the agent whose card is also at /.well-known/agent-card.json"},
	{"log-level", "log.level", "debug, info, warn or error"},
	{"log-format", "log.format", "text or json"},
	{"shutdown-grace", "shutdown_grace", "how long a node that is told to stop lets turns finish"},
	{"telemetry-listen", "telemetry.listen", "an address of its own for /metrics"},
	{"otlp-endpoint", "telemetry.otlp.endpoint", "where traces go"},
}

// registerFile adds the option that names the file.
func (f *nodeFlags) registerFile(cmd *cobra.Command) {
	f.cmd = cmd
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "the configuration file (default ./"+configFile+")")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
}

// registerOverrides adds the options that set values over the file's.
func (f *nodeFlags) registerOverrides(cmd *cobra.Command) {
	for _, o := range overrides {
		cmd.Flags().String(o.flag, "", o.usage+" (instead of "+o.path+")")
	}
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "any other value, as path=value; repeatable")
}

// registerStore adds the option that names a store in place of the
// configuration's.
func (f *nodeFlags) registerStore(cmd *cobra.Command, usage string) {
	cmd.Flags().String("store", "", usage)
	_ = cmd.MarkFlagFilename("store", "db")
}

// storeScheme is what begins the name of a store that is no plain path.
var storeScheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]+:`)

// givenStore returns a configuration that has the store of --store and nothing
// else, nil when there is no such option. What serve takes means the same here;
// a plain path is a file of the working directory.
func (f *nodeFlags) givenStore() (*config.Config, error) {
	flag := f.cmd.Flags().Lookup("store")
	if flag == nil || !flag.Changed {
		return nil, nil
	}
	dsn := flag.Value.String()
	if !storeScheme.MatchString(dsn) {
		path, err := absolute(dsn)
		if dsn == "" || err != nil {
			return nil, usagef("--store names no file").hint("Write it like handoff.db or sqlite:handoff.db")
		}
		dsn = "sqlite:" + path
	}
	dir, err := filepath.Abs(filepath.Dir(f.path()))
	if err != nil {
		return nil, fmt.Errorf("find directory of %s: %w", f.path(), err)
	}
	c, err := config.Parse(nil, dir)
	if err != nil {
		return nil, configFailure(err)
	}
	err = c.Set("store", dsn, "--store")
	if wrong, ok := errors.AsType[*config.Error](err); ok && len(wrong.Problems) > 0 {
		p := wrong.Problems[0] // the value may hold a password, and is not repeated
		return nil, usagef("--store %s", p.Message).hint("%s", sentence(p.Hint))
	}
	if err != nil {
		return nil, usagef("%w", err)
	}
	return c, nil
}

// sentence makes the hint of a problem one of the command line.
func sentence(hint string) string {
	if hint == "" {
		return "Write it like handoff.db, sqlite:handoff.db or postgres://HOST/DATABASE"
	}
	return strings.ToUpper(hint[:1]) + hint[1:]
}

// overridden returns the values that are set on the command line.
func (f *nodeFlags) overridden() ([]config.Override, error) {
	var list []config.Override
	for _, o := range overrides {
		if flag := f.cmd.Flags().Lookup(o.flag); flag != nil && flag.Changed {
			value := flag.Value.String()
			if o.path == "socket" && value != "" { // a path of the working directory
				var err error
				if value, err = absolute(value); err != nil {
					return nil, err
				}
			}
			list = append(list, config.Override{Path: o.path, Value: value, Flag: "--" + o.flag})
		}
	}
	for _, text := range f.set {
		path, value, ok := strings.Cut(text, "=")
		if !ok || path == "" {
			return nil, usagef("--set %s is not of the form path=value, such as limits.body=1MiB", text)
		}
		list = append(list, config.Override{Path: path, Value: value, Flag: "--set " + path})
	}
	return list, nil
}

// path returns the file that is meant.
func (f *nodeFlags) path() string {
	if f.file == "" {
		return configFile
	}
	return f.file
}

// load reads the configuration.
func (f *nodeFlags) load() (*config.Config, error) {
	list, err := f.overridden()
	if err != nil {
		return nil, err
	}
	c, err := config.Load(f.path(), list...)
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.file == "" && !fileExists(configFile):
		return nil, failf(codeConfig, "there is no %s in this directory", configFile).
			hint("Write one with: handoff init, or name one with -c FILE")
	case err != nil:
		return nil, configFailure(err)
	}
	return c, nil
}

// loadStore is load for commands that only have to know where the store is. A
// file that is wrong elsewhere must not keep anybody from a node that runs.
func (f *nodeFlags) loadStore() (*config.Config, error) {
	if c, err := f.givenStore(); c != nil || err != nil {
		return c, err
	}
	c, err := f.load()
	if !is[*problemsFailure](err) {
		return c, err
	}
	keys, ok := peek(f.path())
	if !ok {
		return nil, err
	}
	if isPostgres := strings.HasPrefix(keys.Store, "postgres"); keys.Socket != "" || isPostgres {
		keys.Store = "postgres://host/database" // which one makes no difference to the socket
	}
	dir, derr := filepath.Abs(filepath.Dir(f.path()))
	c, perr := config.Parse(nil, dir)
	if derr != nil || perr != nil {
		return nil, err
	}
	for path, value := range map[string]string{"store": keys.Store, "socket": keys.Socket} {
		if strings.Contains(value, "$") || value != "" && c.Set(path, value, "") != nil {
			return nil, err
		}
	}
	return c, nil
}

// peeked are keys of a file that is not checked.
type peeked struct {
	Store     string `yaml:"store"`
	Socket    string `yaml:"socket"`
	SecretKey string `yaml:"secret_key"`
}

// peek reads those keys alone, and reports whether the file could be read.
func peek(path string) (keys peeked, ok bool) {
	data, err := os.ReadFile(path)
	if err != nil || len(data) > config.MaxFile {
		return keys, false
	}
	return keys, yaml.Unmarshal(data, &keys) == nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// configFailure makes a failure of an error of package config. It is told with
// every problem on lines of its own.
func configFailure(err error) error {
	f := failf(codeConfig, "%w", err)
	if is[*config.Error](err) {
		return &problemsFailure{f}
	}
	return f
}

// problemsFailure is a failure whose message has lines.
type problemsFailure struct{ *failure }

// Unwrap makes it the failure that it is, in formats for programs.
func (e *problemsFailure) Unwrap() error { return e.failure }

// tellProblems prints the problems of a configuration for people, and returns
// what ends the command; every other error it returns as it is.
func (a *app) tellProblems(err error) error {
	e, ok := errors.AsType[*problemsFailure](err)
	if !ok || a.output != formatText {
		return err
	}
	lines := strings.Split(e.Message, "\n")
	for i, line := range lines {
		lines[i] = visible(line)
	}
	fmt.Fprintln(a.stderr, strings.Join(lines, "\n"))
	return exitStatus(exitFailure)
}

// warningsOf writes the warnings of a configuration like its problems.
func warningsOf(c *config.Config, warnings []config.Problem) []string {
	lines := make([]string, 0, len(warnings))
	for _, w := range warnings {
		text := c.File()
		if text == "" {
			text = "configuration"
		}
		if w.Line > 0 {
			text += fmt.Sprintf(":%d:%d", w.Line, w.Column)
		}
		text += ": warning: "
		if w.Path != "" {
			text += w.Path + ": "
		}
		text += w.Message
		if w.Hint != "" {
			text += "; " + w.Hint
		}
		lines = append(lines, visible(text))
	}
	return slices.Clip(lines)
}

// absolute returns a path that means the same from elsewhere.
func absolute(path string) (string, error) {
	file, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	return file, nil
}
