// Package postgrestest gives tests a real PostgreSQL server: the one that
// HANDOFF_TEST_POSTGRES names, or one of their own, which needs the programs of
// the server on the machine and nothing else.
package postgrestest

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

// Environment names a server that the tests may use.
const Environment = "HANDOFF_TEST_POSTGRES"

var errNoServer = fmt.Errorf("no PostgreSQL server: set %s to a DSN, or install the server (apt-get install postgresql)", Environment)

// Server is a PostgreSQL server of the tests' own. It listens on a socket in its
// folder only.
type Server struct {
	binaries string // folder of initdb and pg_ctl
	folder   string
	password string // of the user handoff; "": none is asked for
	fsync    bool
	as       []string // the command that runs others as a user who may run a server
}

// New makes and starts a server, with or without writing to the disk in earnest.
// Close it.
func New(fsync bool) (*Server, error) { return start(&Server{fsync: fsync}) }

// NewWithPassword is New for a server whose user has to show a password.
func NewWithPassword(password string) (*Server, error) { return start(&Server{password: password}) }

func start(s *Server) (_ *Server, err error) {
	if s.binaries, err = binaries(); err != nil {
		return nil, err
	}
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
	args := []string{"-D", s.data(), "-U", "handoff", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"}
	if s.password != "" {
		file := filepath.Join(s.folder, "password")
		if err := os.WriteFile(file, []byte(s.password+"\n"), 0o644); err != nil {
			return nil, err
		}
		args = append(args, "-A", "scram-sha-256", "--pwfile", file)
	}
	if err := s.run("initdb", args...); err != nil {
		return nil, err
	}
	running.Lock()
	running.servers = append(running.servers, s)
	running.Unlock()
	return s, s.Start()
}

// running are the servers that New has made and nobody has closed.
var running struct {
	sync.Mutex
	servers []*Server
}

// binaries returns the folder with the programs of the newest server.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		path, err := exec.LookPath("initdb")
		if err != nil {
			return "", errNoServer
		}
		found = []string{path}
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// becomeOther gives the folder to a user who may run a server: root may not.
func (s *Server) becomeOther() error {
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

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// run runs a program of the server.
func (s *Server) run(name string, args ...string) error {
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

// Start starts the server again, and waits until it answers.
func (s *Server) Start() error {
	options := "-k " + s.folder + " -c listen_addresses= -c max_connections=400 -c shared_buffers=256MB -c max_wal_size=2GB"
	if !s.fsync {
		options += " -c fsync=off -c full_page_writes=off"
	}
	return s.run("pg_ctl", "-D", s.data(), "-l", filepath.Join(s.folder, "log"), "-o", options, "-w", "start")
}

// Stop stops the server: mode is fast, or immediate for a crash.
func (s *Server) Stop(mode string) error {
	return s.run("pg_ctl", "-D", s.data(), "-m", mode, "-w", "stop")
}

// Close stops the server and removes all it has left.
func (s *Server) Close() error {
	running.Lock()
	running.servers = slices.DeleteFunc(running.servers, func(other *Server) bool { return other == s })
	running.Unlock()
	if err := s.run("pg_ctl", "-D", s.data(), "status"); err == nil {
		if err := s.Stop("immediate"); err != nil {
			return err
		}
	}
	return os.RemoveAll(s.folder)
}

// DSN returns the address of the server's database.
func (s *Server) DSN() string {
	return fmt.Sprintf("host=%s user=handoff dbname=postgres", s.folder)
}

// URL returns the address as a URL, with the password in it.
func (s *Server) URL() string {
	user := "handoff"
	if s.password != "" {
		user += ":" + url.QueryEscape(s.password)
	}
	return "postgres://" + user + "@/postgres?host=" + s.folder
}

// Folder returns the folder that the socket of the server is in.
func (s *Server) Folder() string { return s.folder }

// Socket returns the path of the socket that the server listens on.
func (s *Server) Socket() string { return filepath.Join(s.folder, SocketName) }

// SocketName is the name of a server's socket in its folder.
const SocketName = ".s.PGSQL.5432"

// Program returns the path of one of the programs that come with the server,
// such as pg_dump.
func (s *Server) Program(name string) string { return filepath.Join(s.binaries, name) }

// shared is the server of a test binary.
var shared struct {
	once   sync.Once
	server *Server
	dsn    string
	err    error
}

func sharedURL() (string, error) {
	shared.once.Do(func() {
		if shared.dsn = os.Getenv(Environment); shared.dsn != "" {
			return
		}
		if shared.server, shared.err = New(false); shared.err == nil {
			shared.dsn = shared.server.URL()
		}
	})
	return shared.dsn, shared.err
}

// Close closes the servers that nobody has closed, that of DSN among them.
// TestMain calls it.
func Close() error {
	running.Lock()
	left := slices.Clone(running.servers)
	running.Unlock()
	var errs []error
	for _, s := range left {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

var schemas atomic.Int64

// DSN returns the address of an empty schema that only this test uses, on the
// server of the test binary. Without a server the test fails.
func DSN(tb testing.TB) string {
	tb.Helper()
	dsn, err := sharedURL()
	if err != nil {
		tb.Fatal(err)
	}
	schema := fmt.Sprintf("handoff_test_%d_%d", os.Getpid(), schemas.Add(1))
	tb.Cleanup(func() {
		if shared.server == nil { // otherwise it goes with its server
			drop(tb, dsn, schema)
		}
	})
	return With(dsn, "search_path", schema)
}

func drop(tb testing.TB, dsn, schema string) {
	ctx := context.Background() // that of the test is over
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		tb.Error(err)
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
		tb.Error(err)
	}
}

// With returns a DSN with one more setting.
func With(dsn, name, value string) string {
	switch {
	case !strings.Contains(dsn, "://"):
		return dsn + " " + name + "=" + value
	case strings.Contains(dsn, "?"):
		return dsn + "&" + name + "=" + value
	}
	return dsn + "?" + name + "=" + value
}
