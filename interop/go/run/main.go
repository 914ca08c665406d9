// Command run starts a server for each configuration of the fixture, lets the
// suites of the official clients talk to them, and says what came of it:
//
//	go run ./run -server ../../bin/handoff -fixture ../../examples/fixture -js ../js
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	program := flag.String("server", "../../bin/handoff", "the `program` that serves")
	fixture := flag.String("fixture", "../../examples/fixture", "the `directory` of the fixture's configurations")
	js := flag.String("js", "../js", "the `directory` of the JavaScript suite")
	filter := flag.String("run", "", "of the Go suite, run the tests that match this `expression` only, and not the JavaScript suite")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *program, *fixture, *js, *filter); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// configurations are the files of the fixture and the variables in which the
// suites look for the address of each.
var configurations = []struct{ file, variable string }{
	{"handoff.yaml", "FIXTURE_URL"},
	{"no-streaming.yaml", "FIXTURE_NO_STREAMING_URL"},
	{"required-extension.yaml", "FIXTURE_REQUIRED_EXTENSION_URL"},
}

func run(ctx context.Context, program, fixture, js, filter string) (err error) {
	for _, path := range []*string{&program, &fixture, &js} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "handoff-interop-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env := os.Environ()
	for i, c := range configurations {
		s, err := serve(ctx, program, filepath.Join(fixture, c.file), filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		defer s.stop()
		env = append(env, c.variable+"=http://"+s.address+"/agents/fixture/")
	}
	suites := []suite{goSuite(ctx, env, filter)}
	if filter == "" {
		suites = append(suites, jsSuite(ctx, env, js))
	}
	failed := false
	for _, s := range suites {
		verdict := "pass"
		if s.err != nil || s.failed > 0 || s.passed == 0 {
			verdict, failed = "FAIL", true
			fmt.Println(strings.TrimRight(s.details, "\n"))
		}
		fmt.Printf("%s  %-28s %3d passed, %d failed, %s\n", verdict, s.name, s.passed, s.failed, s.took.Round(100*time.Millisecond))
		if s.err != nil && s.failed == 0 {
			fmt.Printf("      %v\n", s.err)
		}
	}
	if failed {
		return errors.New("a client does not get along with the server")
	}
	return nil
}

// server is one that was started for the suites.
type server struct {
	cmd     *exec.Cmd
	address string
	log     *bytes.Buffer
}

var ready = regexp.MustCompile(`The node is ready.*?\baddress"?[=:]"?([0-9a-f.:\[\]]+:\d+)`)

// serve starts a server on a free port with a store of its own, and waits until
// it says that it is ready.
func serve(ctx context.Context, program, file, dir string) (*server, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "serve", "-c", file, "--listen", "127.0.0.1:0", "--store", "sqlite:"+filepath.Join(dir, "store.db"))
	cmd.Dir = dir
	output, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server (make build makes it): %w", err)
	}
	s := &server{cmd: cmd, log: &bytes.Buffer{}}
	address := make(chan string, 1)
	go func() {
		defer close(address)
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if s.address != "" {
				continue // the pipe has to be emptied still
			}
			if m := ready.FindStringSubmatch(lines.Text()); m != nil {
				s.address = m[1]
				address <- m[1]
				continue
			}
			s.log.WriteString(lines.Text() + "\n")
		}
	}()
	select {
	case _, ok := <-address:
		if ok {
			return s, nil
		}
		return nil, fmt.Errorf("the server did not start with %s: %w\n%s", file, cmd.Wait(), s.log)
	case <-time.After(20 * time.Second):
		s.stop()
		return nil, fmt.Errorf("the server is not ready after 20 s with %s", file)
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(30*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	_ = s.cmd.Wait()
}

// suite is what came of one.
type suite struct {
	name           string
	passed, failed int
	took           time.Duration
	details        string // of what failed
	err            error
}

// goSuite runs the tests beside this program.
func goSuite(ctx context.Context, env []string, filter string) suite {
	s := suite{name: "a2a-go v2.4.0"}
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=5m", "-json", "-run="+filter, ".")
	var problems bytes.Buffer
	cmd.Env, cmd.Stderr = env, &problems
	out, err := cmd.Output()
	s.err, s.took = err, time.Since(began)
	type event struct{ Action, Test, Output string }
	output, outer := map[string]string{}, map[string]bool{}
	results := map[string]string{}
	lines := json.NewDecoder(bytes.NewReader(out))
	for {
		var e event
		if err := lines.Decode(&e); err != nil {
			if err != io.EOF {
				s.err = errors.Join(s.err, err)
			}
			break
		}
		switch e.Action {
		case "output", "build-output":
			output[e.Test] += e.Output
		case "pass", "fail":
			results[e.Test] = e.Action
			for name := e.Test; strings.Contains(name, "/"); {
				name = name[:strings.LastIndex(name, "/")]
				outer[name] = true
			}
		}
	}
	s.details = problems.String()
	for name, result := range results {
		switch {
		case name == "" || outer[name]:
		case result == "pass":
			s.passed++
		default:
			s.failed++
			s.details += output[name]
		}
	}
	if s.failed == 0 {
		s.details += output[""]
	}
	return s
}

// jsSuite installs what the suite needs, as its lock file has it, and runs it.
func jsSuite(ctx context.Context, env []string, dir string) suite {
	s := suite{name: "@a2a-js/sdk 1.3.0"}
	install := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		s.details, s.err = string(out), fmt.Errorf("install with npm, which this suite needs: %w", err)
		return s
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=tap")
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	s.err, s.took, s.details = err, time.Since(began), string(out)
	for line := range strings.Lines(string(out)) {
		number := func(prefix string, n *int) {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				*n, _ = strconv.Atoi(strings.TrimSpace(rest))
			}
		}
		number("# pass ", &s.passed)
		number("# fail ", &s.failed)
	}
	return s
}
