package main

import (
	"net"
	"strconv"
	"strings"
	"testing"
)

// A port that is taken is named, with what to do.
func TestDemoOnAPortThatIsTaken(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	a, stdout, stderr := newTestApp(nil)
	code := a.run(t.Context(), []string{"demo", "--port", strconv.Itoa(port), "--keep", t.TempDir()})
	for _, want := range []string{listener.Addr().String() + " cannot be used: ", "handoff demo --port " + strconv.Itoa(port+1), "--port 0"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("nothing says %q: %s", want, stderr)
		}
	}
	if code != exitFailure || stdout.Len() > 0 {
		t.Errorf("exit code %d, with %q", code, stdout)
	}
}

// The model of the demo is the one that the environment names.
func TestDemoModel(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env       map[string]string
		url, name string
	}{
		{nil, "", ""},
		{map[string]string{"HANDOFF_LLM_MODEL": "m"}, "", ""},
		{map[string]string{"HANDOFF_LLM_URL": "http://127.0.0.1:1/v1"}, "http://127.0.0.1:1/v1", "default"},
		{map[string]string{"HANDOFF_LLM_URL": "http://127.0.0.1:1/v1", "HANDOFF_LLM_MODEL": "m"}, "http://127.0.0.1:1/v1", "m"},
	} {
		a, _, _ := newTestApp(test.env)
		m := a.demoModel()
		if (m == nil) != (test.url == "") || m != nil && (m.URL != test.url || m.Name != test.name) {
			t.Errorf("%v: %+v", test.env, m)
		}
	}
}
