package upstream_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/internal/mcp"
)

// play is a server over standard input and output.
func play(part string) int {
	switch part {
	case "modern":
		return run(toolServer())
	case "legacy":
		return run(legacyServer(mcp.Legacy))
	}
	return playHostile(part)
}

func run(s *sdk.Server) int {
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// playHostile answers server/discover as a modern server does, and tools/call as
// the part says.
func playHostile(part string) int {
	in := bufio.NewReader(os.Stdin)
	if part == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if part == "stubborn" {
				select {}
			}
			return 0
		}
		m, err := mcp.Scan(line, mcp.Limits{})
		if err != nil {
			return 2
		}
		switch {
		case m.Method == mcp.MethodDiscover && part == "silent":
			continue
		case m.Method == mcp.MethodDiscover:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}}`+"\n", m.ID)
		case m.Method == mcp.MethodInitialize:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`+"\n", m.ID)
		case m.Method == mcp.MethodListTools:
			if _, err := os.Stat(os.Getenv("TEST_FIRST")); part == "once" && err != nil {
				os.WriteFile(os.Getenv("TEST_FIRST"), nil, 0o600) //nolint:errcheck // it is looked for
				return 3
			}
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`+"\n", m.ID)
		case m.Method == mcp.NotifyCancelled:
			fmt.Fprintln(os.Stderr, "cancelled", string(m.Param("requestId")))
		case m.Method == mcp.MethodCallTool:
			if code := hostileCall(part, m); code != 0 {
				return code
			}
		}
	}
}

func hostileCall(part string, m *mcp.Message) int {
	const ok = `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}` + "\n"
	switch part {
	case "wrong":
		fmt.Printf(ok, `"1"`)
		fmt.Printf(ok, "999")
		fmt.Printf(`{"jsonrpc":"2.0","id":77,"method":"sampling/createMessage","params":{}}` + "\n")
		fmt.Printf(ok, m.ID)
		fmt.Printf(ok, m.ID) // again
	case "noise":
		fmt.Println("Starting…")
		fmt.Println()
		fmt.Println("{")
		fmt.Printf(ok, m.ID)
	case "garbage":
		for {
			if _, err := fmt.Println("no message"); err != nil {
				return 4
			}
		}
	case "giant":
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"x":"%s`, m.ID, strings.Repeat("x", 1<<20))
		select {}
	case "die":
		fmt.Fprintln(os.Stderr, "out of", os.Getenv("SECRET"))
		return 5
	case "martian":
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"martian"}}`+"\n", m.ID)
	case "flood":
		for range 10_000 {
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`+"\n", m.ID)
		}
		fmt.Printf(ok, m.ID)
	case "logging":
		fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"said"}}`)
		fmt.Printf(ok, m.ID)
	case "mute":
	case "environment":
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`+"\n", m.ID, strings.Join(os.Environ(), " "))
	default:
		fmt.Printf(ok, m.ID)
	}
	return 0
}
