//go:build postgres

package postgres_test

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
)

// server is a PostgreSQL server of the tests' own.
type server struct {
	binaries string // folder of initdb and pg_ctl
	folder   string
	port     int
	fsync    bool
	as       []string // the command that runs others as a user who may run a server
}

// errNoServer says what the tests need.
var errNoServer = errors.New("no PostgreSQL server: set HANDOFF_TEST_POSTGRES to a DSN, or install the server (apt-get install postgresql)")

// newServer makes and starts a server that listens on a socket in its folder
// only.
func newServer(fsync bool) (s *server, err error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		path, err := exec.LookPath("initdb")
		if err != nil {
			return nil, errNoServer
		}
		found = []string{path}
	}
	slices.Sort(found)
	s = &server{binaries: filepath.Dir(found[len(found)-1]), port: 5432, fsync: fsync}
	// Not below the folder of a test: the name of a socket has to be short.
	if s.folder, err = os.MkdirTemp("", "pg"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.folder))
		}
	}()
	if os.Geteuid() == 0 {
		if err := s.becomeOther(); err != nil {
			return nil, err
		}
	}
	if err := s.run("initdb", "-D", s.data(), "-U", "handoff", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"); err != nil {
		return nil, err
	}
	running.Lock()
	running.servers = append(running.servers, s)
	running.Unlock()
	return s, s.start()
}

// running are the servers that newServer has made, to be closed at the end.
var running struct {
	sync.Mutex
	servers []*server
}

func started() []*server {
	running.Lock()
	defer running.Unlock()
	return running.servers
}

// becomeOther gives the folder to a user who may run a server: root may not.
func (s *server) becomeOther() error {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.as = []string{"setpriv", "--reuid", u.Uid, "--regid", u.Gid, "--clear-groups"}
		return os.Chown(s.folder, uid, gid)
	}
	return errors.New("root may not run a PostgreSQL server, and there is no user postgres or nobody")
}

func (s *server) data() string { return filepath.Join(s.folder, "data") }

// run runs a program of the server.
func (s *server) run(name string, args ...string) error {
	line := append(slices.Clone(s.as), filepath.Join(s.binaries, name))
	line = append(line, args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = s.folder
	cmd.Env = append(os.Environ(), "LC_ALL=C")
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

// start starts the server and waits until it answers.
func (s *server) start() error {
	options := fmt.Sprintf("-k %s -p %d -c listen_addresses= -c max_connections=400 -c shared_buffers=256MB -c max_wal_size=2GB", s.folder, s.port)
	if !s.fsync {
		options += " -c fsync=off -c synchronous_commit=off -c full_page_writes=off"
	}
	return s.run("pg_ctl", "-D", s.data(), "-l", filepath.Join(s.folder, "log"), "-o", options, "-w", "start")
}

// stop stops the server: mode is fast, or immediate for a crash.
func (s *server) stop(mode string) error {
	return s.run("pg_ctl", "-D", s.data(), "-m", mode, "-w", "stop")
}

// close stops the server and removes all it has left.
func (s *server) close() error {
	if err := s.run("pg_ctl", "-D", s.data(), "status"); err == nil {
		if err := s.stop("immediate"); err != nil {
			return err
		}
	}
	return os.RemoveAll(s.folder)
}

func (s *server) dsn() string {
	return fmt.Sprintf("host=%s port=%d user=handoff dbname=postgres", s.folder, s.port)
}

// url is the address of a schema as a URL.
func (s *server) url(schema string) string {
	return "postgres://handoff@/postgres?" + url.Values{"host": {s.folder}, "port": {strconv.Itoa(s.port)}, "search_path": {schema}}.Encode()
}

// withSchema returns a DSN for the tables of one schema.
func withSchema(dsn, schema string) string { return with(dsn, "search_path", schema) }

// with returns a DSN with one more setting.
func with(dsn, name, value string) string {
	if !strings.Contains(dsn, "://") {
		return dsn + " " + name + "=" + value
	}
	if strings.Contains(dsn, "?") {
		return dsn + "&" + name + "=" + value
	}
	return dsn + "?" + name + "=" + value
}

// dump writes a schema to a file with pg_dump.
func dump(ctx context.Context, dsn, schema, file string) error {
	program := "pg_dump"
	if shared != nil {
		program = filepath.Join(shared.binaries, program)
	}
	out, err := exec.CommandContext(ctx, program, "-d", dsn, "-n", schema, "-Fc", "-f", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_dump: %w\n%s", err, out)
	}
	return nil
}
