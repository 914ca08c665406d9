package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"handoff.example/handoff/internal/store/sqlite"
)

func newRestoreCommand(a *app) *cobra.Command {
	var f nodeFlags
	var force bool
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Make a store of a backup",
		Long: `Make the store of a backup. The backup is checked first. A store that a node has
open is never replaced; one that exists is replaced with --force only, and then
kept beside the new one, with .replaced at the end of its name, or .replaced-2
and so on where that is taken. What was kept is never written over.`,
		Args: needs("a file, that of the backup"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.tellProblems(a.restore(cmd.Context(), &f, args[0], force))
		},
	}
	f.registerFile(cmd)
	f.registerStore(cmd, "the store to make: a file, or sqlite: and a file (default: that of the configuration)")
	cmd.Flags().BoolVar(&force, "force", false, "replace a store that exists")
	return cmd
}

// restored is the answer for programs.
type restored struct {
	Store    string `json:"store"`
	Tasks    int64  `json:"tasks"`
	Replaced string `json:"replaced,omitempty"`
}

func (a *app) restore(ctx context.Context, f *nodeFlags, file string, force bool) error {
	path, err := f.storePath()
	if err != nil {
		return err
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return failf(codeNotFound, "there is no such backup: %s", file)
	}
	result, err := sqlite.Restore(ctx, file, path, force)
	switch {
	case errors.Is(err, fs.ErrExist):
		return failf(codeExists, "the store %s exists", path).hint("Replace it with --force; it is kept as %s", sqlite.KeptName(path))
	case is[*sqlite.LockedError](err):
		return failf(codeInternal, "%w", err).hint("A store cannot be replaced under a running node")
	case err != nil:
		return failf(codeInternal, "nothing was restored: %w", err)
	}
	if a.output != formatText {
		return a.writeValue(restored{Store: path, Tasks: result.Tasks, Replaced: result.Replaced})
	}
	p := printer{w: a.stdout}
	p.field("Store", path)
	p.field("Tasks", plural(int(result.Tasks), "task"))
	p.field("Replaced", result.Replaced)
	return p.err
}

// storePath returns the path of the store that is meant: by --store, else that
// of the configuration.
func (f *nodeFlags) storePath() (string, error) {
	c, err := f.givenStore()
	if c == nil && err == nil {
		c, err = f.load()
	}
	if err != nil {
		return "", err
	}
	path := c.StorePath()
	if path == "" {
		return "", usagef("a PostgreSQL database is restored with its own tools").hint("Use pg_restore, or the archive of the server, while no node runs")
	}
	if path == ":memory:" {
		return "", usagef("a store in memory has no file")
	}
	return absolute(path)
}
