package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newBackupCommand(a *app) *cobra.Command {
	var f apiFlags
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Copy the store of a running node to a new file",
		Long: `Let a running node write a consistent copy of its store to a new file, while it
works. The file is on the node's machine. It holds no keys: keep secret_key
elsewhere. handoff restore makes a store of it again.`,
		Args: needs("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.backup(cmd.Context(), &f, args[0])
		},
	}
	f.register(cmd)
	return cmd
}

func (a *app) backup(ctx context.Context, f *apiFlags, file string) error {
	node, err := a.openNode(f)
	if err != nil {
		return err
	}
	defer node.close()
	if node.local {
		if file, err = absolute(file); err != nil {
			return err
		}
		if fileExists(file) {
			return failf(codeExists, "the file %s exists; a backup goes to a new file", file)
		}
	}
	var answer struct {
		File  string
		Bytes int64
	}
	value, err := node.get(ctx, "POST", "/backup", map[string]string{"file": file}, &answer)
	if err != nil {
		return err
	}
	if a.output != formatText {
		return a.writeDocument(a.output, value, false)
	}
	p := printer{w: a.stdout}
	p.field("Backup", answer.File)
	p.field("Size", bytesText(answer.Bytes))
	return p.err
}
