//go:build postgres

package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The commands of pages that need PostgreSQL, jq, openssl, grpcurl or nginx as well.
func TestCommandsOfPagesRunWithTools(t *testing.T) {
	t.Parallel()
	tools := t.TempDir()
	install := exec.Command("go", "install", "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4")
	install.Env = append(os.Environ(), "GOBIN="+tools)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const password = "s3cret/of@the#page"
	server := newPostgres(t, password)
	playScenes(t, "testdata/docs-tools",
		"PATH="+os.Getenv("PATH")+":"+tools+":"+filepath.Dir(server.Program("createdb")),
		"PGHOST="+server.Folder(), "PGUSER=handoff", "PGPASSWORD="+password, "DATABASE_PASSWORD="+url.QueryEscape(password))
}
