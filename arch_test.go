package handoff_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// floors are the storeys of the house: a package stands above all that it
// imports. docs/architecture.md draws them.
var floors = map[string]int{
	"cmd/handoff":               8,
	"docs/site":                 1,
	"":                          7,
	"internal/console":          6,
	"internal/chat":             6,
	"internal/browsertest":      1,
	"internal/api":              5,
	"internal/backend":          5,
	"internal/backend/llm":      6,
	"internal/ledger":           5,
	"internal/wire":             4,
	"internal/conformance":      4,
	"client":                    3,
	"a2ago":                     3,
	"internal/audit":            3,
	"internal/auth":             3,
	"internal/changes":          3,
	"internal/engine":           3,
	"internal/job":              3,
	"internal/push":             3,
	"internal/peer":             4,
	"internal/inbox":            4,
	"internal/form":             1,
	"internal/mask":             1,
	"internal/store/record":     3,
	"internal/store/sqlite":     4,
	"internal/store/postgres":   4,
	"config":                    2,
	"config/internal/reference": 3,
	"internal/card":             3,
	"agent":                     2,
	"internal/store":            2,
	"internal/bus":              2,
	"internal/bus/bustest":      3,
	"a2a":                       1,
	"a2a/v03":                   2,
	"internal/protobuf":         2,
	"internal/netguard":         1,
	"internal/sse":              1,
	"internal/http1":            1,
	"internal/process":          1,
	"internal/oauth":            2,
	"internal/span":             1,
	"internal/telemetry":        1,
	"internal/mcp":              1,
	"internal/mcp/client":       2,
	"internal/mcp/stdio":        2,
	"internal/upstream":         4,
	"internal/mcpgw/policy":     4,
	"internal/mcpgw":            5,
	"internal/bridge":           5,
	"internal/store/storetest":  4,
	"internal/store/transfer":   5,
	"internal/content":          2,
	"internal/console/timeline": 1,
	"internal/console/graph":    1,

	"internal/store/postgres/postgrestest": 1,
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) (module string, list []goPackage) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m").Output()
	if err != nil {
		t.Fatal(err)
	}
	module = strings.TrimSpace(string(out))
	out, err = exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	d := jsontext.NewDecoder(strings.NewReader(string(out)))
	for d.PeekKind() == '{' {
		var p goPackage
		if err := json.UnmarshalDecode(d, &p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return module, list
}

func TestAPackageStandsAboveWhatItImports(t *testing.T) {
	t.Parallel()
	module, list := packages(t)
	if len(list) < len(floors) {
		t.Errorf("%d packages, but %d floors", len(list), len(floors))
	}
	for _, p := range list {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if strings.HasPrefix(name, "examples/") || name == "examples" || strings.HasPrefix(name, "config/schemagen") || strings.HasPrefix(name, "chaos") {
			continue // they stand outside of the house and may import what they like
		}
		floor, ok := floors[name]
		if !ok {
			t.Errorf("package %q has no floor", name)
		}
		for _, i := range p.Imports {
			if !strings.HasPrefix(i, module) {
				continue
			}
			below := strings.TrimPrefix(strings.TrimPrefix(i, module), "/")
			if floors[below] >= floor {
				t.Errorf("%q (floor %d) imports %q (floor %d)", name, floor, below, floors[below])
			}
		}
	}
}

// A caller's scope of the store is made in package auth and nowhere else. The
// engine has its own, for tasks that a caller was already found to own.
func TestOnlyAuthMakesScopes(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "grep", "-nE", `store\.For(Owner|Tenant|All)\(`, "--", "*.go", ":!*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(out)) {
		switch file, _, _ := strings.Cut(line, ":"); {
		case strings.HasPrefix(file, "internal/auth/"):
			found++
		case strings.HasPrefix(file, "internal/store/storetest/"), file == "internal/engine/read.go":
		case file == "internal/engine/cancel.go": // Retry, for the owner that the row names
		default:
			t.Errorf("a scope is made in %s", line)
		}
	}
	if found == 0 {
		t.Error("package auth makes none")
	}
}

// What must not be imported, beside the floors.
func TestBoundaries(t *testing.T) {
	t.Parallel()
	module, list := packages(t)
	for _, p := range list {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, i := range p.Imports {
			switch {
			case name == "internal/wire" && strings.HasPrefix(i, module+"/internal/store"):
				t.Errorf("wire imports %s: it reaches the store through the engine", i)
			case strings.HasPrefix(name, "internal/store") && i == "net/http":
				t.Errorf("%s imports net/http: a store knows nothing of HTTP", name)
			case (name == "a2a" || name == "internal/netguard" || name == "internal/telemetry") && strings.HasPrefix(i, module):
				t.Errorf("%s imports %s: it stands on the ground", name, i)
			}
		}
	}
}
