package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// exposure is the most that systemd-analyze security may count against the unit,
// of 100. What remains is mostly the network and what programs of agents need;
// versions of systemd count differently.
const exposure = "20"

// unit returns the last value of every key of handoff.service.
func unit(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for line := range strings.Lines(string(read(t, "handoff.service"))) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(key, "#") {
			values[key] = value
		}
	}
	return values
}

// installed writes the unit with the program that was built, since systemd looks
// whether it is there.
func installed(t *testing.T) string {
	t.Helper()
	text := string(read(t, "handoff.service"))
	const binary = "/usr/local/bin/handoff"
	if strings.Count(text, "="+binary+" ") != 2 {
		t.Fatalf("the unit does not run %s", binary)
	}
	file := filepath.Join(t.TempDir(), "handoff.service")
	text = strings.ReplaceAll(text, binary, theImage(t).binary())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestUnitIsCorrect(t *testing.T) {
	t.Parallel()
	analyze := tool(t, "systemd-analyze", "systemd")
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", installed(t)).CombinedOutput()
	// What is only a warning ends with 0.
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func TestUnitIsHardened(t *testing.T) {
	t.Parallel()
	analyze := tool(t, "systemd-analyze", "systemd")
	out, err := exec.CommandContext(t.Context(), analyze, "security", "--no-pager", "--offline=true", "--threshold="+exposure, installed(t)).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

func TestUserOfTheUnitIsMade(t *testing.T) {
	t.Parallel()
	sysusers := tool(t, "systemd-sysusers", "systemd")
	root := t.TempDir()
	file := filepath.Join(root, "handoff.conf")
	if err := os.WriteFile(file, read(t, "handoff.sysusers"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), sysusers, "--root="+root, file).CombinedOutput(); err != nil {
		t.Fatalf("systemd-sysusers: %v: %s", err, out)
	}
	users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil || !strings.Contains("\n"+string(users), "\n"+unit(t)["User"]+":") {
		t.Errorf("there is no user %s: %s (%v)", unit(t)["User"], users, err)
	}
}

func TestUnitFitsTheConfiguration(t *testing.T) {
	t.Parallel()
	var c settings
	if err := yaml.Unmarshal(read(t, "handoff.yaml"), &c); err != nil {
		t.Fatal(err)
	}
	u := unit(t)
	grace, err := time.ParseDuration(c.ShutdownGrace)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := time.ParseDuration(u["TimeoutStopSec"])
	if err != nil || stop < grace+5*time.Second {
		t.Errorf("TimeoutStopSec=%s does not leave shutdown_grace of %s and 5 s (%v)", u["TimeoutStopSec"], grace, err)
	}
	if state := "/var/lib/" + u["StateDirectory"] + "/"; !strings.HasPrefix(c.Store, "sqlite:"+state) {
		t.Errorf("the store %s is not in %s", c.Store, state)
	}
	id, _, _ := strings.Cut(u["LoadCredential"], ":")
	if at := "/run/credentials/handoff.service/" + id; !strings.Contains(c.SecretKey, at) {
		t.Errorf("secret_key is %s, and the unit has it at %s", c.SecretKey, at)
	}
}

// The programs of agents can run, are not stopped with the node, and have no
// more rights than they need.
func TestUnitBoundsAgents(t *testing.T) {
	t.Parallel()
	u := unit(t)
	for key, want := range map[string]string{
		"Type":        "exec",
		"Restart":     "on-failure",
		"KillMode":    "mixed",    // a stop signals the node, not the programs
		"OOMPolicy":   "continue", // a program may die without the node
		"UMask":       "0077",
		"ProtectHome": "yes",
		// Programs that compile as they run need what this forbids.
		"MemoryDenyWriteExecute": "",
		"NoExecPaths":            "",
		"SystemCallFilter":       "@system-service",
		"ProtectSystem":          "strict",
		"NoNewPrivileges":        "yes",
		"CapabilityBoundingSet":  "",
	} {
		if got := u[key]; got != want {
			t.Errorf("%s=%s, want %q", key, got, want)
		}
	}
}
