// Command server is an agent written with a2a-go, for clients to talk to: the
// words that it understands are those of examples/fixture.
//
//	go run ./server -port 9000 -grpc-port 9001
//
// It prints "ready" when it listens, and ends with its standard input. Its tasks
// are in memory, the only store that the SDK has.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"
)

func main() {
	port := flag.Int("port", 9000, "of JSON-RPC, HTTP+JSON and the card")
	grpcPort := flag.Int("grpc-port", 9001, "of gRPC")
	flag.Parse()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(serve(fmt.Sprintf("127.0.0.1:%d", *port), fmt.Sprintf("127.0.0.1:%d", *grpcPort)))
}

func serve(address, grpcAddress string) error {
	public := card(address, grpcAddress)
	extended := *public
	extended.Skills = append(extended.Skills, a2a.AgentSkill{
		ID: "partners", Name: "Partners", Description: "Is for callers that are known.", Tags: []string{"test"},
	})
	// Its default lists no task to a caller without a name.
	tasks := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{
		Authenticator: func(context.Context) (string, error) { return "anyone", nil },
	})
	handler := a2asrv.NewHandler(agent{},
		a2asrv.WithCapabilityChecks(&public.Capabilities),
		a2asrv.WithExtendedAgentCard(&extended),
		a2asrv.WithTaskStore(tasks),
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(&push.HTTPSenderConfig{AllowPrivateNetworks: true})),
	)
	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(public))
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
	mux.Handle("/", a2asrv.NewRESTHandler(handler))
	server := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(server)

	overHTTP, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	overGRPC, err := net.Listen("tcp", grpcAddress)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	go func() { log.Fatal(server.Serve(overGRPC)) }()
	return http.Serve(overHTTP, mux)
}

func card(address, grpcAddress string) *a2a.AgentCard {
	return &a2a.AgentCard{
		Name: "Fixture in a2a-go", Description: "Does what the first word of a message says.", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{
			a2a.NewAgentInterface("http://"+address+"/rpc", a2a.TransportProtocolJSONRPC),
			a2a.NewAgentInterface("http://"+address, a2a.TransportProtocolHTTPJSON),
			a2a.NewAgentInterface(grpcAddress, a2a.TransportProtocolGRPC),
		},
		Capabilities:       a2a.AgentCapabilities{Streaming: true, PushNotifications: true, ExtendedAgentCard: true},
		DefaultInputModes:  []string{"text/plain", "application/json"},
		DefaultOutputModes: []string{"text/plain", "application/json"},
		Skills: []a2a.AgentSkill{{
			ID: "fixture", Name: "Fixture", Description: "Echoes, asks, waits, streams and fails on request.", Tags: []string{"test"},
		}},
	}
}
