package bus

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// maxPayload is how many bytes the text of one NOTIFY may have: fewer than
	// 8,000.
	maxPayload = 7999

	connectTimeout = 5 * time.Second
	helloTimeout   = 2 * time.Second // for a notification of one's own
	// A connection that has been silent for so long is asked whether it lives.
	silence = 30 * time.Second
)

// errDeaf is that of a connection on which LISTEN has no effect.
var errDeaf = errors.New("the connection does not hear what is notified on it: a pooler in transaction mode does that; let the node reach the server itself, or a pooler in session mode, or use a NATS server as the bus")

// Postgres returns a bus over LISTEN and NOTIFY of a database. It has two
// connections of its own. The context is for the first attempt to connect; a
// server that is away is no error: it is logged, and tried again until Close. An
// error says what is wrong with the DSN or the options, without repeating the
// DSN.
//
// NOTIFY takes a lock of the whole server when it commits. So a node has one
// statement under way at a time, with all hints that were gathered meanwhile.
func Postgres(ctx context.Context, dsn string, o Options) (Bus, error) {
	return newPostgres(ctx, dsn, silence, o)
}

// newPostgres is Postgres with a limit of the silence of a connection.
func newPostgres(ctx context.Context, dsn string, silence time.Duration, o Options) (Bus, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	// As the store reads it, so that settings of a pool are understood.
	parsed, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the address of the database of the bus cannot be read: write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full, with % escapes in the password")
	}
	config := parsed.ConnConfig
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "handoff"
	}
	// Statements are few and short, and a pooler need not know them.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec

	p := &postgresLink{
		relay:   newRelay("postgres", o, newReporter(o.Logger, "postgres", []string{config.Password})),
		config:  config,
		channel: "handoff_hints_" + label(o.Cluster),
		silence: silence,
	}
	conn, err := p.listen(ctx)
	if err != nil {
		p.relay.log.seldom("the bus cannot be reached; the node polls until it can", err, "server", p.server())
	}
	p.relay.mark(incoming, conn != nil)
	p.relay.start(p)
	p.listening.Go(func() { p.listenLoop(conn) })
	return p.relay, nil
}

// postgresLink is the way to a database.
type postgresLink struct {
	relay     *relay
	config    *pgx.ConnConfig
	channel   string
	silence   time.Duration
	listening sync.WaitGroup // listenLoop

	sender *pgx.Conn // of the goroutine that sends; nil when there is none
	text   []byte
}

// limit implements link.
func (p *postgresLink) limit() int { return base64.RawStdEncoding.DecodedLen(maxPayload) }

// server implements link.
func (p *postgresLink) server() string {
	servers := []string{address(p.config.Host, p.config.Port)}
	for _, f := range p.config.Fallbacks {
		if a := address(f.Host, f.Port); a != servers[len(servers)-1] {
			servers = append(servers, a)
		}
	}
	return strings.Join(servers, ",")
}

func address(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// send implements link: one statement, however many messages there are.
func (p *postgresLink) send(ctx context.Context, messages [][]byte) error {
	if p.sender == nil {
		conn, err := pgx.ConnectConfig(ctx, p.config.Copy())
		if err != nil {
			return fmt.Errorf("connect to PostgreSQL: %w", err)
		}
		p.sender = conn
	}
	if len(messages) == 0 {
		return nil
	}
	p.text = p.text[:0]
	for i, m := range messages {
		if i > 0 {
			p.text = append(p.text, ',')
		}
		p.text = base64.RawStdEncoding.AppendEncode(p.text, m)
	}
	_, err := p.sender.PgConn().ExecParams(ctx,
		"SELECT pg_notify($1, payload) FROM unnest(string_to_array($2, ',')) AS payload",
		[][]byte{[]byte(p.channel), p.text}, []uint32{textOID, textOID}, nil, nil).Close()
	if err != nil {
		hangUp(p.sender)
		p.sender = nil
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

const textOID = 25

// hangUp ends a connection without waiting for long.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	conn.Close(ctx)
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// close implements link.
func (p *postgresLink) close() {
	p.listening.Wait()
	if p.sender != nil {
		hangUp(p.sender)
	}
}

// listenLoop receives until the relay is closed. It begins with a connection, or
// nil.
func (p *postgresLink) listenLoop(conn *pgx.Conn) {
	ctx := p.relay.ctx
	for {
		if conn != nil {
			err := p.hear(ctx, conn)
			hangUp(conn)
			p.relay.mark(incoming, false)
			if ctx.Err() != nil {
				return
			}
			p.relay.log.warn("the connection of the bus is lost", err, "server", p.server())
		}
		if conn = p.reconnect(ctx); conn == nil {
			return
		}
		p.relay.mark(incoming, true)
		p.relay.log.info("the bus is connected", "server", p.server())
		p.relay.back()
		p.relay.restore()
	}
}

// reconnect returns a connection that listens, or nil when the relay is closed.
func (p *postgresLink) reconnect(ctx context.Context) *pgx.Conn {
	var pause backoff
	for {
		p.relay.rest(pause.next(), nil)
		if ctx.Err() != nil {
			return nil
		}
		conn, err := p.listen(ctx)
		if err == nil {
			return conn
		}
		if ctx.Err() != nil {
			return nil
		}
		p.relay.log.seldom("the bus cannot be reached; the node polls until it can", err, "server", p.server())
	}
}

// listen connects, and makes sure that what is notified is heard.
func (p *postgresLink) listen(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, p.config.Copy())
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if err := p.subscribe(ctx, conn); err != nil {
		hangUp(conn)
		return nil, err
	}
	return conn, nil
}

// subscribe begins to listen and waits for a message of its own.
func (p *postgresLink) subscribe(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{p.channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	var e encoder
	e.header(p.relay.self, 0)
	hello := base64.RawStdEncoding.EncodeToString(e.buffer)
	if _, err := conn.Exec(ctx, "SELECT pg_notify($1, $2)", p.channel, hello); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(waiting)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return errDeaf
		}
		if err != nil {
			return fmt.Errorf("wait for the first notification: %w", err)
		}
		if n.Payload == hello {
			return nil
		}
		p.notified(n)
	}
}

// hear receives from a connection until it breaks.
func (p *postgresLink) hear(ctx context.Context, conn *pgx.Conn) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, p.silence)
		n, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			p.notified(n)
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		default:
			ping, cancel := context.WithTimeout(ctx, sendTimeout)
			err := conn.Ping(ping)
			cancel()
			if err != nil {
				return fmt.Errorf("ask a silent connection: %w", err)
			}
		}
	}
}

// notified takes a notification.
func (p *postgresLink) notified(n *pgconn.Notification) {
	if n.Channel != p.channel {
		return
	}
	payload, err := base64.RawStdEncoding.DecodeString(n.Payload)
	if err != nil {
		p.relay.refuse(errors.New("message is not in base64"))
		return
	}
	p.relay.receive(payload)
}
