package bus_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// after are called when all tests are over.
var after []func() error

// TestMain looks for goroutines that a bus has left.
func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range after {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
