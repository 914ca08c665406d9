package check

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
)

// container runs commands in the files of the image as its user, with chroot in
// the place of a container. It has no /proc and no /dev, so that whatever works
// here works in a container too.
type container struct {
	root     string
	uid, gid uint32
	env      []string
}

func newContainer(t *testing.T, c dockerspec.DockerOCIImageConfig) *container {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this check needs root, for chroot and for the user of the image")
	}
	r := &container{root: filepath.Join(t.TempDir(), "root")}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", theImage(t).root, r.root).CombinedOutput(); err != nil {
		t.Fatalf("copy the image: %v: %s", err, out)
	}
	if _, err := fmt.Sscanf(c.User, "%d:%d", &r.uid, &r.gid); err != nil {
		t.Fatal(err)
	}
	r.env = c.Env
	return r
}

// mount puts a file there that the user of the image can only read.
func (c *container) mount(t *testing.T, path string, text []byte) {
	t.Helper()
	path = filepath.Join(c.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, int(c.uid), int(c.gid)); err != nil {
		t.Fatal(err)
	}
}

func (c *container) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot:     c.root,
		Credential: &syscall.Credential{Uid: c.uid, Gid: c.gid},
	}
	return cmd
}

// run runs a command and returns what it printed.
func (c *container) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := c.command(t, args...).CombinedOutput()
	return string(out), err
}

// log keeps what a process writes.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(line + "\n")
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var ready = regexp.MustCompile(`"The node is ready"\W+address\W+([\d.]+:\d+)`)

// start starts the node as the image says, and returns where it listens.
func (c *container) start(t *testing.T, command []string) (cmd *exec.Cmd, address string) {
	t.Helper()
	cmd = c.command(t, command...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines, said := &log{}, make(chan string, 1)
	go func() {
		defer close(said)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			lines.add(s.Text())
			if m := ready.FindStringSubmatch(s.Text()); m != nil {
				said <- m[1]
			}
		}
		_, _ = io.Copy(io.Discard, stderr)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the node said:\n%s", lines)
		}
	})
	select {
	case address, ok := <-said:
		if !ok {
			t.Fatal("the node has ended before it was ready")
		}
		return cmd, address
	case <-time.After(30 * time.Second):
		t.Fatal("the node is not ready after 30 s")
	}
	return nil, ""
}

// The program runs with the files of the image alone, as its user: it serves, its
// health check tells whether it does, it reloads, and it stops as it should.
func TestImageRuns(t *testing.T) {
	t.Parallel()
	config := imageConfig(t)
	c := newContainer(t, config)
	// What docs/deploy.md has mounted and set.
	const key = "/run/secrets/handoff_key"
	c.mount(t, "/etc/handoff/handoff.yaml", read(t, "handoff.yaml"))
	c.mount(t, key, []byte(strings.Repeat("k", 64)))
	c.env = append(c.env, "HANDOFF_LISTEN=127.0.0.1:0", "HANDOFF_SECRET_KEY_FILE="+key)
	health := config.Healthcheck.Test
	if len(health) < 2 || health[0] != "CMD" {
		t.Fatalf("the health check %q needs a shell, and there is none", health)
	}
	if out, err := c.run(t, health[1:]...); err == nil {
		t.Fatalf("healthy without a node: %s", out)
	}
	if out, err := c.run(t, "/handoff", "check", "/etc/handoff/handoff.yaml"); err != nil {
		t.Errorf("handoff check: %v: %s", err, out)
	}

	node, address := c.start(t, append(append([]string{}, config.Entrypoint...), config.Cmd...))
	if out, err := c.run(t, health[1:]...); err != nil {
		t.Errorf("health check: %v: %s", err, out)
	}
	response, err := http.Get("http://" + address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("/readyz answers %s", response.Status)
	}
	if out, err := c.run(t, "/handoff", "send", "http://"+address+"/agents/echo", "a text to repeat"); err != nil || !strings.Contains(out, "a text to repeat") {
		t.Errorf("send: %v: %s", err, out)
	}
	if out, err := c.run(t, "/handoff", "reload", "-c", "/etc/handoff/handoff.yaml"); err != nil {
		t.Errorf("reload: %v: %s", err, out)
	}

	if config.StopSignal != "SIGTERM" {
		t.Fatalf("the stop signal is %s", config.StopSignal)
	}
	if err := node.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := node.Wait(); err != nil {
		t.Errorf("a stopped node ends with %v", err)
	}
	if out, err := c.run(t, health[1:]...); err == nil {
		t.Errorf("healthy after the stop: %s", out)
	}
}
