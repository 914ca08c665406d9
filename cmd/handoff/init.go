package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"handoff.example/handoff/config"
)

// Files that init writes beside the configuration.
const (
	schemaFile = "handoff.schema.json"
	keyFile    = "handoff.key"
)

func newInitCommand(a *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "init [DIR]", Short: "Write a configuration to begin with",
		Long: `Write a commented handoff.yaml with one agent, the JSON Schema that editors check
it with, and a secret key that only you can read. Files that exist are kept
unless --force is given; a key is always kept.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return a.initNode(dir, force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "overwrite a configuration that exists")
	return cmd
}

func (a *app) initNode(dir string, force bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	file := filepath.Join(dir, configFile)
	if fileExists(file) && !force {
		return failf(codeConfig, "%s exists", file).hint("Check it with: handoff check %s, or overwrite it with --force", quoteShell(file))
	}
	// The template has the key as a comment, since a node starts without one.
	// Here there is one.
	text := bytes.Replace(config.Template(), []byte("# secret_key: file:"+keyFile+" "), []byte("secret_key: file:"+keyFile+"   "), 1)
	if err := writeKey(filepath.Join(dir, keyFile)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, schemaFile), config.Schema(), 0o644); err != nil {
		return fmt.Errorf("write schema: %w", err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if a.output != formatText {
		return a.writeValue(struct {
			Files []string `json:"files"`
		}{[]string{file, filepath.Join(dir, schemaFile), filepath.Join(dir, keyFile)}})
	}
	a.note("Wrote %s, %s and %s.", file, filepath.Join(dir, schemaFile), filepath.Join(dir, keyFile))
	a.note("Keep the key and the tasks out of version control: add %s and handoff.db* to .gitignore.", keyFile)
	into := ""
	if filepath.Clean(dir) != "." {
		into = "cd " + quoteShell(dir) + " && "
	}
	a.note("Next: %shandoff serve, and in another terminal: %shandoff send hello -a echo", into, into)
	return nil
}

// writeKey makes a key that only its owner can read, unless there is one.
func writeKey(file string) error {
	var key [32]byte
	_, _ = rand.Read(key[:]) // it does not fail
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // what it has encrypted would be lost
	}
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(key[:]) + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return nil
}
