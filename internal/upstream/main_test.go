package upstream_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// playEnv has the test binary play a server over standard input and output.
const playEnv = "TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	if part := os.Getenv(playEnv); part != "" {
		os.Exit(play(part))
	}
	goleak.VerifyTestMain(m)
}
