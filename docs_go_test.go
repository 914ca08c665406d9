package handoff_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// The whole files that a document shows are one program, and it builds.
func TestDocumentedProgramsBuild(t *testing.T) {
	t.Parallel()
	programs := 0
	for name, text := range documents(t) {
		dir := t.TempDir()
		args := []string{"build", "-o", filepath.Join(dir, "program")}
		for i, block := range goBlock.FindAllStringSubmatch(text, -1) {
			file := filepath.Join(dir, "file"+strconv.Itoa(i)+".go")
			if err := os.WriteFile(file, []byte(block[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, file)
		}
		if len(args) == 3 {
			continue
		}
		programs++
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, strings.ReplaceAll(string(out), dir, ""))
		}
	}
	if programs == 0 {
		t.Error("no document shows a program")
	}
}
