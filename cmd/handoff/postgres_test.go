//go:build postgres

package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestPostgresScripts runs nodes on a PostgreSQL server of the test's own. Each
// script has a schema; what leads there is in DATABASE_FOLDER,
// DATABASE_PASSWORD and DATABASE_SCHEMA.
func TestPostgresScripts(t *testing.T) {
	t.Parallel()
	const password = "s3cret/of@the#test"
	folder := startDatabase(t, password)
	var schemas atomic.Int64
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "postgres"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("TZ", "UTC")
			env.Setenv("DATABASE_FOLDER", folder)
			env.Setenv("DATABASE_PASSWORD", url.QueryEscape(password))
			env.Setenv("DATABASE_SCHEMA", fmt.Sprintf("test%d", schemas.Add(1)))
			env.Values[serverKey{}] = &serving{}
			return nil
		},
		Cmds: nodeCommands(),
	})
}

// startDatabase starts a server that listens on a socket in the folder that it
// returns, until the test has ended. The user handoff has the password.
func startDatabase(t *testing.T, password string) (folder string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); len(found) == 0 && err == nil {
		found = []string{path}
	}
	if len(found) == 0 {
		t.Fatal("no PostgreSQL server: install it (apt-get install postgresql)")
	}
	slices.Sort(found)
	// Not below the folder of the test: the name of a socket has to be short.
	folder, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	file, data := filepath.Join(folder, "password"), filepath.Join(folder, "data")
	err = os.WriteFile(file, []byte(password+"\n"), 0o644)
	var as []string
	if os.Geteuid() == 0 { // who may not run a server
		u, lookup := user.Lookup("postgres")
		if lookup != nil {
			t.Fatal(lookup)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		as = []string{"setpriv", "--reuid", u.Uid, "--regid", u.Gid, "--clear-groups"}
		err = errors.Join(err, os.Chown(folder, uid, gid))
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		line := append(slices.Clone(as), filepath.Join(filepath.Dir(found[len(found)-1]), name))
		line = append(line, args...)
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "LC_ALL=C")
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	run("initdb", "-D", data, "-U", "handoff", "-A", "scram-sha-256", "--pwfile", file, "-E", "UTF8", "--locale=C", "-N")
	run("pg_ctl", "-D", data, "-l", filepath.Join(folder, "log"), "-o", "-k "+folder+" -c listen_addresses= -c fsync=off", "-w", "start")
	t.Cleanup(func() { run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop") })
	return folder
}
