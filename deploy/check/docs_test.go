package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The commands with which docs/deploy.md installs a node for systemd, as they stand there, but
// in a system below a folder, which systemctl changes and does not run.
func TestInstallationOfThePage(t *testing.T) {
	t.Parallel()
	tool(t, "systemctl", "systemd")
	tool(t, "systemd-sysusers", "systemd")
	tool(t, "openssl", "openssl")
	_, after, _ := strings.Cut(string(read(t, "../docs/deploy.md")), "## systemd\n")
	_, after, _ = strings.Cut(after, "```sh\n")
	script, _, ok := strings.Cut(after, "```")
	if !ok {
		t.Fatal("the page has no commands for systemd")
	}
	root := t.TempDir()
	for _, folder := range []string{"usr/local/bin", "usr/lib/sysusers.d", "etc/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []struct{ what, by string }{
		{` (/(?:usr|etc)/)`, " " + root + "$1"},
		{`(?m)^systemd-sysusers$`, "systemd-sysusers --root=" + root},
		{`(?m)^systemctl daemon-reload$`, ""}, // nothing runs there
		{`systemctl enable --now`, "systemctl --root=" + root + " enable"},
	} {
		what := regexp.MustCompile(r.what)
		if !what.MatchString(script) {
			t.Errorf("the commands have no %s", r.what)
		}
		script = what.ReplaceAllString(script, r.by)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-exc", script)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for path, mode := range map[string]os.FileMode{
		"usr/local/bin/handoff": 0o755, "etc/handoff": 0o755 | os.ModeDir, "etc/handoff/handoff.yaml": 0o644, "etc/handoff/secret_key": 0o600,
		"etc/systemd/system/handoff.service": 0o644, "etc/systemd/system/multi-user.target.wants/handoff.service": 0o777 | os.ModeSymlink,
	} {
		info, err := os.Lstat(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
		} else if info.Mode() != mode {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
	}
	users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil || !strings.Contains("\n"+string(users), "\n"+unit(t)["User"]+":") {
		t.Errorf("there is no user %s: %s (%v)", unit(t)["User"], users, err)
	}
	key, err := os.ReadFile(filepath.Join(root, "etc/handoff/secret_key"))
	if err != nil || len(strings.TrimSpace(string(key))) != 64 {
		t.Errorf("the key has %d characters (%v)", len(key), err)
	}
}
