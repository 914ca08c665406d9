package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"

	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

// database is a PostgreSQL server that writes to the disk in earnest.
type database struct {
	server  *postgrestest.Server
	conn    *pgx.Conn // for looking at it
	schemas atomic.Int64
	counts  bool // statements are counted
}

// startDatabase starts a server of the benchmark's own. With counting it counts
// statements and the time of its disk, which costs a little.
func startDatabase(ctx context.Context, counting bool) (*database, error) {
	s, err := postgrestest.New(true)
	if err != nil {
		return nil, err
	}
	d := &database{server: s}
	if err = d.connect(ctx); err == nil && counting {
		err = d.count(ctx)
	}
	if err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

func (d *database) connect(ctx context.Context) (err error) {
	d.conn, err = pgx.Connect(ctx, d.server.DSN())
	return err
}

// count has the server count, as far as it has its extension for that.
func (d *database) count(ctx context.Context) error {
	library := ""
	if err := d.conn.QueryRow(ctx, "SELECT coalesce((SELECT name FROM pg_available_extensions WHERE name = 'pg_stat_statements'), '')").Scan(&library); err != nil {
		return err
	}
	settings := []string{"track_wal_io_timing = on"}
	if d.counts = library != ""; d.counts {
		settings = append(settings, "shared_preload_libraries = pg_stat_statements")
	}
	for _, s := range settings {
		if _, err := d.conn.Exec(ctx, "ALTER SYSTEM SET "+s); err != nil {
			return err
		}
	}
	_ = d.conn.Close(ctx)
	if err := d.server.Stop("fast"); err != nil {
		return err
	}
	if err := d.server.Start(); err != nil {
		return err
	}
	if err := d.connect(ctx); err != nil || !d.counts {
		return err
	}
	_, err := d.conn.Exec(ctx, "CREATE EXTENSION pg_stat_statements")
	return err
}

func (d *database) stop() {
	if d.conn != nil {
		_ = d.conn.Close(context.Background())
	}
	if err := d.server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
	}
}

// folder returns where the server has its socket and its data.
func (d *database) folder() string {
	return strings.TrimPrefix(strings.Fields(d.server.DSN())[0], "host=")
}

// schema returns the name of a new schema, and the address of a store in it.
func (d *database) schema() (name, url string) {
	name = fmt.Sprintf("bench_%d", d.schemas.Add(1))
	return name, postgrestest.With(d.server.URL(), "search_path", name)
}

// cpu returns the seconds of CPU that the processes of the server have used.
func (d *database) cpu() (float64, error) {
	text, err := os.ReadFile(filepath.Join(d.folder(), "data", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	parent, err := strconv.Atoi(first)
	if err != nil {
		return 0, err
	}
	// Processes that have ended count with their parent.
	sum, err := cpuOf(parent, true)
	if err != nil {
		return 0, err
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		pid, _ := strconv.Atoi(filepath.Base(p))
		if parentOf(pid) != parent {
			continue
		}
		if seconds, err := cpuOf(pid, false); err == nil { // or it has ended
			sum += seconds
		}
	}
	return sum, nil
}

// busServer is a NATS server in a process of its own.
type busServer struct {
	process
	address string
}

func startNATS(ctx context.Context) (*busServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &busServer{process: process{cmd: exec.CommandContext(ctx, self, "nats")}}
	b.cmd.Stderr = os.Stderr
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.process.stop()
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	b.address = strings.TrimSpace(address)
	return b, nil
}

// serveNATS is the process of a NATS server. It prints its URL.
func serveNATS() {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err == nil {
		s.Start()
		if !s.ReadyForConnections(10 * time.Second) {
			err = fmt.Errorf("the server does not get ready")
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.ClientURL())
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt)
	<-end
}
