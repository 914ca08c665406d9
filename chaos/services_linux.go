package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// databasePassword is looked for in every log afterwards.
const databasePassword = "pEr1w1nkle-5ecret"

// database is a PostgreSQL server on a host of its own, which syncs what it
// writes to the disk, since it is killed.
type database struct {
	*process
	on       *host
	binaries string
	as       []string // runs a command as a user who may run a server
}

// newDatabase makes a cluster of databases in a directory.
func newDatabase(on *host, dir string) (*database, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New("the cluster needs a PostgreSQL server of its own: install its programs (apt-get install postgresql)")
	}
	slices.Sort(found)
	d := &database{on: on, binaries: filepath.Dir(found[len(found)-1])}
	who, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("root may not run a PostgreSQL server: %w", err)
	}
	d.as = []string{"setpriv", "--reuid", who.Uid, "--regid", who.Gid, "--clear-groups"}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	home := filepath.Join(dir, "postgres")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	password := filepath.Join(home, "password")
	data := filepath.Join(home, "data")
	err = errors.Join(
		os.WriteFile(password, []byte(databasePassword), 0o600),
		os.Chown(home, uid, gid), os.Chown(password, uid, gid),
	)
	if err != nil {
		return nil, err
	}
	initdb := slices.Concat(d.as, []string{
		filepath.Join(d.binaries, "initdb"), "-D", data, "-U", "handoff", "-A", "scram-sha-256", "--pwfile", password, "-E", "UTF8", "--locale=C",
	})
	cmd := exec.Command(initdb[0], initdb[1:]...)
	cmd.Dir = home
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a database: %w\n%s", err, out)
	}
	access, err := os.OpenFile(filepath.Join(data, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	_, err = access.WriteString("host all all " + network + "0/24 scram-sha-256\n")
	if err := errors.Join(err, access.Close()); err != nil {
		return nil, err
	}
	d.process, err = on.newProcess(filepath.Join(dir, "postgres.log"), slices.Concat(d.as, []string{
		filepath.Join(d.binaries, "postgres"), "-D", data,
		"-c", "listen_addresses=" + on.address, "-c", "unix_socket_directories=" + home,
		"-c", "max_connections=200", "-c", "shared_buffers=64MB",
	})...)
	return d, err
}

// dsn is how nodes reach it.
func (d *database) dsn() string {
	return "postgres://handoff:" + databasePassword + "@" + net.JoinHostPort(d.on.address, "5432") + "/postgres?sslmode=disable"
}

// begin starts it and waits until it answers. What a killed one has left may
// keep it from starting for a moment.
func (d *database) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := d.start(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if d.alive() != nil {
			wait(ctx, 50*time.Millisecond)
			if err := d.start(); err != nil {
				return err
			}
		}
		asks := slices.Concat(d.on.exec(), []string{filepath.Join(d.binaries, "pg_isready"), "-q", "-t", "2", "-h", d.on.address})
		if exec.CommandContext(ctx, asks[0], asks[1:]...).Run() == nil {
			return nil
		}
		wait(ctx, 20*time.Millisecond)
	}
	return fmt.Errorf("the database does not start: %w", ctx.Err())
}

// kill kills all of its processes.
func (d *database) kill() error {
	if err := d.alive(); err != nil {
		return err
	}
	if err := killAll(d.on.namespace()); err != nil {
		return err
	}
	<-d.exited
	return nil
}

// natsPort is where NATS listens on its host.
const natsPort = 4222

// messenger is a NATS server on a host of its own.
type messenger struct {
	*process
	on *host
}

func newMessenger(on *host, dir string) (*messenger, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := on.newProcess(filepath.Join(dir, "nats.log"), self, "nats", on.address)
	return &messenger{p, on}, err
}

func (m *messenger) url() string { return "nats://" + m.address() }

func (m *messenger) address() string { return net.JoinHostPort(m.on.address, strconv.Itoa(natsPort)) }

// begin starts it and waits until it answers.
func (m *messenger) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := m.start(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := m.alive(); err != nil {
			return err
		}
		connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", m.address())
		if err == nil {
			return connection.Close()
		}
		wait(ctx, 20*time.Millisecond)
	}
	return fmt.Errorf("NATS does not start: %w", ctx.Err())
}

// runNATS is a process that is a NATS server at an address, until it is told to
// stop.
func runNATS(address string) error {
	options := &natsserver.Options{Host: address, Port: natsPort, NoSigs: true, LogFile: ""}
	s, err := natsserver.NewServer(options)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	s.Start()
	<-stop
	s.Shutdown()
	return nil
}
