package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is the top of the repository, and deploy its deployment files.
const (
	repository = "../.."
	deploy     = ".."
)

// built is what the build stage of the Dockerfile makes. Every test uses it: the
// configurations are checked by the program that would read them.
var built struct {
	*image
	err error
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "deploy")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.image, built.err = buildImage(dir)
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// theImage returns what was built.
func theImage(t *testing.T) *image {
	t.Helper()
	if built.err != nil {
		t.Fatalf("build the image: %v", built.err)
	}
	return built.image
}

// read returns the text of a deployment file.
func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// tool returns the path of a program that a check needs. Without it the check
// has failed, since nothing was checked.
func tool(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing; install the package %s", name, pkg)
	}
	return path
}

// checkConfig has the program check a configuration with nothing but the given
// variables in its environment.
func checkConfig(t *testing.T, text string, env []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), theImage(t).binary(), "check", file)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), ": ok") {
		t.Errorf("handoff check: %v\n%s", err, out)
	}
}

// settings are the values of a configuration that have to fit what is around it.
type settings struct {
	Listen        string `json:"listen"`
	NodeURL       string `json:"node_url"`
	Store         string `json:"store"`
	Socket        string `json:"socket"`
	SecretKey     string `json:"secret_key"`
	ShutdownGrace string `json:"shutdown_grace"`
	Telemetry     struct {
		Listen string `json:"listen"`
	} `json:"telemetry"`
}
