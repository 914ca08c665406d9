//go:build postgres

package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// databasePassword must not show anywhere. It has what has to be escaped.
const databasePassword = "s3cret/of@the#test"

// database is a PostgreSQL server of a test's own.
type database struct {
	binaries string   // folder of initdb and pg_ctl
	folder   string   // of its data and its socket
	as       []string // the command that runs others as a user who may run a server
}

var (
	sharedDatabase = sync.OnceValues(func() (*database, error) {
		d, err := newDatabase()
		if err == nil {
			atEnd = append(atEnd, d.close)
		}
		return d, err
	})
	schemas atomic.Int64
)

// aSchema returns the address of an empty schema of the server that tests share.
func aSchema(t *testing.T) (address string) {
	t.Helper()
	d, err := sharedDatabase()
	if err != nil {
		t.Fatal(err)
	}
	return d.address(fmt.Sprintf("test%d", schemas.Add(1)))
}

// address returns the address of a schema.
func (d *database) address(schema string) string {
	return "postgres://handoff:" + url.QueryEscape(databasePassword) + "@/postgres?host=" + d.folder + "&search_path=" + schema
}

// newDatabase makes and starts a server that listens on a socket only.
func newDatabase() (d *database, err error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		path, err := exec.LookPath("initdb")
		if err != nil {
			return nil, errors.New("no PostgreSQL server: install it (apt-get install postgresql)")
		}
		found = []string{path}
	}
	slices.Sort(found)
	d = &database{binaries: filepath.Dir(found[len(found)-1])}
	// Not below the folder of a test: the name of a socket has to be short.
	if d.folder, err = os.MkdirTemp("", "pg"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(d.folder))
		}
	}()
	password := filepath.Join(d.folder, "password")
	if err := os.WriteFile(password, []byte(databasePassword+"\n"), 0o644); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, fmt.Errorf("root may not run a server: %w", err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		d.as = []string{"setpriv", "--reuid", u.Uid, "--regid", u.Gid, "--clear-groups"}
		if err := os.Chown(d.folder, uid, gid); err != nil {
			return nil, err
		}
	}
	if err := d.run("initdb", "-D", filepath.Join(d.folder, "data"), "-U", "handoff", "-A", "scram-sha-256", "--pwfile", password, "-E", "UTF8", "--locale=C", "-N"); err != nil {
		return nil, err
	}
	return d, d.start()
}

// run runs a program of the server.
func (d *database) run(name string, args ...string) error {
	line := append(slices.Clone(d.as), filepath.Join(d.binaries, name))
	line = append(line, args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Env = d.folder, append(os.Environ(), "LC_ALL=C")
	// A server that stays must not hold our pipes open.
	log, err := os.CreateTemp("", "pg-*.log")
	if err != nil {
		return err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w\n%s", name, err, said)
	}
	return nil
}

func (d *database) start() error {
	return d.run("pg_ctl", "-D", filepath.Join(d.folder, "data"), "-l", filepath.Join(d.folder, "log"),
		"-o", "-k "+d.folder+" -c listen_addresses= -c max_connections=200 -c fsync=off", "-w", "start")
}

// crash ends the server without letting it finish anything.
func (d *database) crash() error {
	return d.run("pg_ctl", "-D", filepath.Join(d.folder, "data"), "-m", "immediate", "-w", "stop")
}

func (d *database) close() error {
	_ = d.crash() // it may have ended
	return os.RemoveAll(d.folder)
}

// execute runs statements in a schema.
func execute(t *testing.T, address string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, s := range statements {
		if _, err := conn.Exec(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// hidesPassword checks that a text has no part of the password, as it is or
// escaped.
func hidesPassword(t *testing.T, what, text string) {
	t.Helper()
	for _, part := range []string{"s3cret", "the#test", "the%23test", "of@the", "of%40the"} {
		if strings.Contains(text, part) {
			t.Errorf("%s shows %q of the password:\n%s", what, part, text)
		}
	}
}
