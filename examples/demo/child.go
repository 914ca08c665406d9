package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// report is what a child says on its standard output, one a line.
type report struct {
	Ready   bool   `json:"ready,omitzero"`
	Drafted bool   `json:"drafted,omitzero"` // an order is made, and nobody has heard of it
	Console string `json:"console,omitzero"` // a link that was asked for
	Error   string `json:"error,omitzero"`
}

// RunChild runs the system in a directory that Run has prepared, until its input ends:
// the demo kills this process, and starts another. Each line of the input asks for a
// link to the console. With hold, what makes the draft of
// an order says so and does not answer.
func RunChild(dir string, hold bool, version string, in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt) // the parent ends it
	tell := func(r report) {
		text, err := json.Marshal(r)
		if err == nil {
			_, _ = out.Write(append(text, '\n'))
		}
	}
	p, open, err := settle(context.Background(), dir, 0)
	if err != nil {
		tell(report{Error: err.Error()})
		return err
	}
	s := &system{place: p, version: version}
	if hold {
		s.drafted = func(next http.Handler) http.Handler { return holding(next, func() { tell(report{Drafted: true}) }) }
	}
	if err := s.start(open); err != nil {
		tell(report{Error: err.Error()})
		return err
	}
	tell(report{Ready: true})
	for lines := bufio.NewScanner(in); lines.Scan(); {
		link, err := s.console(context.Background())
		if err != nil {
			tell(report{Error: err.Error()})
			continue
		}
		tell(report{Console: link})
	}
	return s.close()
}

// holding lets a draft be made and keeps its answer back.
func holding(next http.Handler, made func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Name") != "draft_order" {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(&unheard{header: http.Header{}}, r)
		made()
		<-r.Context().Done()
	})
}

// unheard is an answer that nobody gets.
type unheard struct{ header http.Header }

func (u *unheard) Header() http.Header         { return u.header }
func (u *unheard) Write(p []byte) (int, error) { return len(p), nil }
func (u *unheard) WriteHeader(int)             {}
func (u *unheard) Flush()                      {}

// child is a process that runs the system.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	reports chan report // until the process ends
}

// startChild starts a process and returns when its system is ready.
func startChild(ctx context.Context, cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, reports: make(chan report, 8)}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	c.in = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	go func() {
		defer close(c.reports)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var r report
			if json.Unmarshal(lines.Bytes(), &r) == nil {
				c.reports <- r
			}
		}
	}()
	r, err := c.next(ctx)
	switch {
	case err == nil && r.Ready:
		return c, nil
	case err == nil:
		err = errors.New(r.Error)
	}
	_ = c.kill()
	return nil, fmt.Errorf("the system did not start: %w\n%s", err, &said)
}

// next returns what the process says next.
func (c *child) next(ctx context.Context) (report, error) {
	select {
	case <-ctx.Done():
		return report{}, ctx.Err()
	case r, ok := <-c.reports:
		if !ok {
			return r, errors.New("the process has ended")
		}
		return r, nil
	}
}

// console returns a link that signs its reader in to the company's console, once.
func (c *child) console(ctx context.Context) (string, error) {
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		return "", fmt.Errorf("ask child: %w", err)
	}
	r, err := c.next(ctx)
	if err == nil && r.Console == "" {
		err = errors.New(r.Error)
	}
	return r.Console, err
}

// kill ends the process with SIGKILL, which it cannot hear.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill child: %w", err)
	}
	_ = c.cmd.Wait() // it says that the process was killed
	return nil
}

// patience is how long a process may take to end.
const patience = 15 * time.Second

// close ends the process in good order, and kills it when it does not.
func (c *child) close() error {
	_ = c.in.Close()
	defer time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() }).Stop()
	for range c.reports { // until its output ends
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("end child: %w", err)
	}
	return nil
}
