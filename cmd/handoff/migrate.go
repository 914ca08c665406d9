package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"handoff.example/handoff"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/store/transfer"
)

// migrateFlags are the options of migrate.
type migrateFlags struct {
	nodeFlags
	dryRun  bool
	showSQL bool
	from    string
	to      string
}

func newMigrateCommand(a *app) *cobra.Command {
	var f migrateFlags
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the tables of a store up to date, or move a store to another",
		Long: `Bring the tables of the store up to date, as the next start of a node would:
for those who want to see, or to do it, before. Tables are changed so that nodes
of the version before go on working.

With --from and --to, all that one store has is copied to another, which has to
be empty: SQLite to PostgreSQL, or back. No node may use either meanwhile. It is
done whole or not at all, and the old store stays as it is. Where only one of the
two is given, the other is the store of the configuration: so a password need not
stand on the command line.`,
		Example: `  handoff migrate --dry-run
  handoff migrate --show-sql > review.sql
  handoff migrate --from sqlite:handoff.db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.tellProblems(a.migrate(cmd.Context(), &f))
		},
	}
	f.registerFile(cmd)
	f.registerStore(cmd, "the store (default: that of the configuration)")
	flags := cmd.Flags()
	flags.BoolVar(&f.dryRun, "dry-run", false, "list the steps that the tables lack, and change nothing")
	flags.BoolVar(&f.showSQL, "show-sql", false, "print the SQL of those steps, and change nothing")
	flags.StringVar(&f.from, "from", "", "move all that this store has: sqlite: and a file, or postgres://…")
	flags.StringVar(&f.to, "to", "", "the empty store to move it to")
	for _, name := range []string{"from", "to"} {
		_ = cmd.MarkFlagFilename(name, "db")
	}
	return cmd
}

func (a *app) migrate(ctx context.Context, f *migrateFlags) error {
	if f.cmd.Flags().Changed("from") || f.cmd.Flags().Changed("to") {
		if err := f.checkMove(); err != nil {
			return err
		}
		return a.move(ctx, f)
	}
	c, err := f.givenStore()
	if c == nil && err == nil {
		c, err = f.load()
	}
	if err != nil {
		return err
	}
	t, err := tablesOf(ctx, c)
	if err != nil {
		return err
	}
	if !f.dryRun && !f.showSQL && len(t.steps) > 0 {
		if err := t.apply(ctx); err != nil {
			return err
		}
	}
	return a.tellMigrated(t, f)
}

// checkMove refuses options that do not go with moving a store.
func (f *migrateFlags) checkMove() error {
	if f.cmd.Flags().Changed("store") {
		return usagef("--store goes without --from and --to").hint("Name the old store with --from and the new one with --to")
	}
	for _, name := range []string{"dry-run", "show-sql"} {
		if f.cmd.Flags().Changed(name) {
			return usagef("--%s goes without --from and --to", name).hint("See what the tables of the new store lack with: handoff migrate --%s --store STORE", name)
		}
	}
	return nil
}

// step is a migration of either kind of store.
type step struct {
	Version int64  `json:"version"`
	File    string `json:"file"`
	SQL     string `json:"sql,omitempty"`
}

// tables are those of a store, with the steps that they lack.
type tables struct {
	store string // for people
	steps []step
	apply func(ctx context.Context) error
}

// tablesOf looks at the tables of a store.
func tablesOf(ctx context.Context, c *config.Config) (*tables, error) {
	t := &tables{store: c.StoreName()}
	if c.UsesPostgres() {
		if _, err := postgres.Examine(ctx, c.Store); err != nil {
			return nil, databaseFailure(c, err)
		}
		steps, err := postgres.Pending(ctx, c.Store)
		if err != nil {
			return nil, databaseFailure(c, err)
		}
		for _, s := range steps {
			t.steps = append(t.steps, step(s))
		}
		t.apply = func(ctx context.Context) error {
			s, err := postgres.Open(ctx, c.Store, postgres.Options{})
			if err != nil {
				return databaseFailure(c, err)
			}
			return s.Close()
		}
		return t, nil
	}
	path := c.StorePath()
	if path == ":memory:" {
		return nil, usagef("a store in memory has no tables to bring up to date")
	}
	steps, err := sqlite.Pending(ctx, path)
	if err != nil {
		return nil, failf(codeInternal, "%w", err)
	}
	for _, s := range steps {
		t.steps = append(t.steps, step(s))
	}
	t.apply = func(ctx context.Context) error {
		s, err := sqlite.Open(ctx, path, sqlite.Options{})
		if is[*sqlite.LockedError](err) {
			return failf(codeInternal, "%w", err).hint("Stop the node; its next start brings the tables up to date by itself")
		}
		if err != nil {
			return failf(codeInternal, "%w", err)
		}
		return s.Close()
	}
	return t, nil
}

// databaseFailure tells why a database cannot be used.
func databaseFailure(c *config.Config, err error) error {
	return nodeFailure(&handoff.StoreError{Store: c.StoreName(), Err: err, Advice: postgres.Advice(err)})
}

// migrated is the answer for programs.
type migrated struct {
	Store   string `json:"store"`
	Applied bool   `json:"applied"` // whether the steps were taken
	Steps   []step `json:"steps"`
}

func (a *app) tellMigrated(t *tables, f *migrateFlags) error {
	applied := !f.dryRun && !f.showSQL
	if a.output != formatText {
		answer := migrated{Store: t.store, Applied: applied && len(t.steps) > 0, Steps: []step{}}
		for _, s := range t.steps {
			if !f.showSQL {
				s.SQL = ""
			}
			answer.Steps = append(answer.Steps, s)
		}
		return a.writeValue(answer)
	}
	p := printer{w: a.stdout}
	if f.showSQL {
		for _, s := range t.steps {
			p.write("-- " + s.File + "\n" + strings.TrimRight(s.SQL, "\n") + "\n\n")
		}
		return p.err
	}
	p.field("Store", t.store)
	for _, s := range t.steps {
		if applied {
			p.field("Applied", s.File)
		} else {
			p.field("Pending", s.File)
		}
	}
	if len(t.steps) == 0 {
		p.field("Tables", "up to date")
	}
	return p.err
}

// end is a store that something is moved from or to.
type end struct {
	dsn  string // as transfer takes it
	name string // for people
}

// endOf returns the store that an option names, or else that of the
// configuration.
func (f *migrateFlags) endOf(flag, value string) (end, error) {
	var c *config.Config
	var err error
	if !f.cmd.Flags().Changed(flag) {
		if c, err = f.load(); err != nil {
			return end{}, err
		}
	} else {
		if !storeScheme.MatchString(value) {
			value = "sqlite:" + value
		}
		dir, err := os.Getwd()
		if err != nil {
			return end{}, fmt.Errorf("find working directory: %w", err)
		}
		if c, err = config.Parse(nil, dir); err != nil {
			return end{}, configFailure(err)
		}
		err = c.Set("store", value, "--"+flag)
		if wrong, ok := errors.AsType[*config.Error](err); ok && len(wrong.Problems) > 0 {
			return end{}, usagef("--%s %s", flag, wrong.Problems[0].Message).hint("%s", sentence(wrong.Problems[0].Hint))
		}
		if err != nil {
			return end{}, usagef("%w", err)
		}
	}
	e := end{dsn: c.Store, name: c.StoreName()}
	switch path := c.StorePath(); path {
	case "":
	case ":memory:":
		return e, usagef("a store in memory cannot be moved").hint("Name the other store with --%s", flag)
	default:
		if path, err = filepath.Abs(path); err != nil {
			return e, fmt.Errorf("find %s: %w", path, err)
		}
		e.dsn, e.name = "sqlite:"+path, "sqlite:"+path
	}
	return e, nil
}

// moved is the answer for programs.
type moved struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Tasks    int64  `json:"tasks"`
	Events   int64  `json:"events"`
	Claims   int64  `json:"claims"`
	Grants   int64  `json:"grants"`
	Jobs     int64  `json:"jobs"`
	Webhooks int64  `json:"webhooks"`

	Delegations int64 `json:"delegations"`
	Inbox       int64 `json:"inbox"` // items
	Peers       int64 `json:"peers"`

	Keys     int64   `json:"keys"`
	Audit    int64   `json:"audit"`
	Released int64   `json:"released"`
	Seconds  float64 `json:"seconds"`
}

// move copies a store into another.
func (a *app) move(ctx context.Context, f *migrateFlags) error {
	from, err := f.endOf("from", f.from)
	if err != nil {
		return err
	}
	to, err := f.endOf("to", f.to)
	if err != nil {
		return err
	}
	for _, e := range []end{from, to} {
		if strings.HasPrefix(e.dsn, "postgres") {
			if _, err := postgres.Examine(ctx, e.dsn); err != nil {
				return nodeFailure(&handoff.StoreError{Store: e.name, Err: err, Advice: postgres.Advice(err)})
			}
		}
	}
	bar := &progress{app: a, shown: a.watched()}
	report, err := transfer.Move(ctx, from.dsn, to.dsn, transfer.Options{Progress: bar.at})
	bar.clear()
	switch {
	case err == nil:
	case errors.Is(err, transfer.ErrInUse):
		return failf(codeRefused, "nothing was moved: %w", err).hint("Stop every node of both stores first, and start them when it is done")
	case errors.Is(err, transfer.ErrNotEmpty):
		return failf(codeExists, "nothing was moved: %w", err).hint("Name a store that has nothing: a new database, a schema of its own with search_path=, or a new file")
	case from.dsn == to.dsn:
		return usagef("--from and --to are the same store")
	case errors.Is(err, os.ErrNotExist):
		return failf(codeNotFound, "nothing was moved: %w", err)
	default:
		return failf(codeInternal, "nothing was moved: %w", err)
	}
	if a.output != formatText {
		return a.writeValue(moved{
			From: from.name, To: to.name, Tasks: report.Tasks, Events: report.Events, Claims: report.Claims,
			Grants: report.Grants, Jobs: report.Jobs,
			Delegations: report.Delegations, Inbox: report.Inbox, Peers: report.Peers,
			Webhooks: report.Webhooks, Keys: report.Keys, Audit: report.Audit, Released: report.Released, Seconds: report.Took.Seconds(),
		})
	}
	p := printer{w: a.stdout}
	p.field("From", from.name)
	p.field("To", to.name)
	p.field("Moved", strings.Join([]string{
		plural(int(report.Tasks), "task"), plural(int(report.Events), "event"), plural(int(report.Claims), "claim"),
		plural(int(report.Grants), "grant"), plural(int(report.Jobs), "job"), plural(int(report.Webhooks), "webhook"),
		plural(int(report.Delegations), "delegation"), plural(int(report.Inbox), "inbox item"), plural(int(report.Peers), "peer"),
		plural(int(report.Keys), "API key"), plural(int(report.Audit), "audit record"),
	}, ", "))
	if report.Released > 0 {
		p.field("Interrupted", plural(int(report.Released), "turn")+", which the next nodes take over")
	}
	p.field("Took", report.Took.Round(time.Millisecond).String())
	return p.err
}

// watched reports whether a person sees standard error.
func (a *app) watched() bool {
	f, ok := a.stderr.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// progress tells a person how far a move is, on a line that it writes over.
type progress struct {
	*app
	shown bool
	last  time.Time
	width int
}

// redraw is how often the line is written.
const redraw = 100 * time.Millisecond

// at tells that so many of the rows of a table are moved.
func (p *progress) at(table string, done, total int64) {
	now := time.Now()
	if !p.shown || now.Sub(p.last) < redraw {
		return
	}
	text := fmt.Sprintf("%d of %d %s", done, total, table)
	fmt.Fprintf(p.stderr, "\r%-*s", p.width, text)
	p.last, p.width = now, len(text)
}

// clear removes the line.
func (p *progress) clear() {
	if p.width > 0 {
		fmt.Fprintf(p.stderr, "\r%*s\r", p.width, "")
	}
}
