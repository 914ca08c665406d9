package check

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// startPostgres starts a PostgreSQL server of the test's own and returns the URL
// of its database.
func startPostgres(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		t.Fatal("there is no PostgreSQL server; install the package postgresql")
	}
	slices.Sort(found)
	binaries := found[len(found)-1]
	// It refuses to run as root, and the name of its socket has to be short.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	owner, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatalf("this check needs root: %v", err)
	}
	as := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(binaries, name), args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		// No pipe: the server would hold it open.
		if err := cmd.Run(); err != nil {
			said, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("%s: %v\n%s", name, err, said)
		}
	}
	data := filepath.Join(dir, "data")
	as("initdb", "-D", data, "-U", "handoff", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
	port := freePort(t)
	as("pg_ctl", "start", "-w", "-D", data, "-l", filepath.Join(dir, "log"),
		"-o", fmt.Sprintf("-p %d -k %s -c listen_addresses=127.0.0.1 -c fsync=off", port, dir))
	t.Cleanup(func() { as("pg_ctl", "stop", "-m", "immediate", "-D", data) })
	return fmt.Sprintf("postgres://handoff@127.0.0.1:%d/postgres?sslmode=disable", port)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// call makes a request of the HTTP+JSON binding and returns the answer.
func call(t *testing.T, method, url, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("A2A-Version", "1.0")
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s: %s (%v)", method, url, response.Status, text, err)
	}
	return string(text)
}

var taskID = regexp.MustCompile(`"task":\{"id":"([^"]+)"`)

// Two pods, as the manifests describe them, are nodes of one store: one answers
// for the tasks of the other, also when that has stopped. Of the configuration
// only the addresses are others, and the bus is that of PostgreSQL.
func TestPodsAreNodesOfOneStore(t *testing.T) {
	t.Parallel()
	m, config := plain(t), imageConfig(t)
	dsn := startPostgres(t)
	start := func() (*exec.Cmd, string) {
		c := newContainer(t, config)
		c.mount(t, "/etc/handoff/handoff.yaml", []byte(m.config.Data["handoff.yaml"]))
		run := filepath.Join(c.root, "run/handoff")
		if err := os.MkdirAll(run, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(run, int(c.uid), int(c.gid)); err != nil {
			t.Fatal(err)
		}
		// The last value of a variable counts.
		c.env = append(append(c.env, environment(t, m)...), "HANDOFF_STORE="+dsn)
		command := slices.Concat(config.Entrypoint, m.container(t).Args, []string{
			"--listen", "127.0.0.1:0", "--telemetry-listen", "127.0.0.1:0", "--set", "bus=postgres",
		})
		node, address := c.start(t, command)
		if out, err := c.run(t, config.Healthcheck.Test[1:]...); err != nil {
			t.Errorf("handoff admin status: %v: %s", err, out)
		}
		return node, "http://" + address
	}
	first, at := start()
	_, other := start()
	for _, probe := range []string{"/healthz", "/readyz"} {
		call(t, "GET", at+probe, "")
	}
	const message = `{"message":{"messageId":"%s","role":"ROLE_USER","parts":[{"text":"a text to repeat"}]}}`
	sent := taskID.FindStringSubmatch(call(t, "POST", at+"/agents/echo/v1/message:send", fmt.Sprintf(message, "1")))
	if sent == nil {
		t.Fatal("the answer has no task")
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("a stopped node ends with %v", err)
	}
	if got := call(t, "GET", other+"/agents/echo/v1/tasks/"+sent[1], ""); !strings.Contains(got, "TASK_STATE_COMPLETED") {
		t.Errorf("the other node says of the task: %s", got)
	}
	call(t, "POST", other+"/agents/echo/v1/message:send", fmt.Sprintf(message, "2"))
}
