package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for a release; see the Makefile.
var version string

// build is what the program was built from.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the version control
	Modified bool   `json:"modified"`           // whether files were changed since
	Time     string `json:"time,omitempty"`     // of the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := buildOf()
			if a.output != formatText {
				return a.writeValue(b)
			}
			p := printer{w: a.stdout}
			p.field("Version", b.Version)
			p.field("Revision", b.Revision)
			if b.Modified {
				p.field("Modified", "yes")
			}
			p.field("Time", b.Time)
			p.field("Go", b.Go)
			p.field("Platform", b.Platform)
			return p.err
		},
	}
}

func buildOf() build {
	b := build{Version: versionText(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
