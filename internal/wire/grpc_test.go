package wire_test

import (
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/wire"
)

// nobody knows no callers.
type nobody struct{}

func (nobody) Authenticate(*http.Request) (auth.Principal, error) {
	return auth.Principal{}, a2a.Errorf(a2a.CodeUnauthenticated, "Who are you?")
}

// h2c returns an HTTP client that speaks HTTP/2 without TLS.
func h2c(t *testing.T) *http.Client {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// framed returns a request for SendMessage with those bytes as its message.
func (n *node) framed(body []byte) *http.Request {
	n.t.Helper()
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.base+pb.A2AService_SendMessage_FullMethodName, bytes.NewReader(frame))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	r.Header.Set("A2A-Version", "1.0")
	return r
}

// trailers sends a request of gRPC and returns its status.
func (n *node) trailers(r *http.Request) (codes.Code, string) {
	n.t.Helper()
	response, err := h2c(n.t.(*testing.T)).Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		n.t.Fatal(err)
	}
	code, err := strconv.Atoi(response.Trailer.Get("Grpc-Status"))
	if err != nil {
		n.t.Fatalf("no status in %v, %v", response.Header, response.Trailer)
	}
	return codes.Code(code), response.Trailer.Get("Grpc-Message")
}

func TestGRPC_BytesThatAreNoMessage(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	for _, body := range []string{"\xff", "\x12\x05\x01", "\x0a\x02\xff\xfe", "\x12\x03\x0a\x01\xff", strings.Repeat("\x0b", 50_000)} {
		if code, text := n.trailers(n.framed([]byte(body))); code != codes.InvalidArgument || !strings.Contains(text, "Invalid protobuf payload") {
			t.Errorf("%.20q: %v %s", body, code, text)
		}
	}
}

func TestGRPC_OtherRequests(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	get := func(r *http.Request) *http.Response {
		response, err := h2c(t).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	text := n.framed(nil)
	text.Header.Set("Content-Type", "text/plain")
	if r := get(text); r.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("text: %d", r.StatusCode)
	}
	read := n.framed(nil)
	read.Method, read.Body, read.ContentLength = http.MethodGet, nil, 0
	if r := get(read); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "POST, OPTIONS" {
		t.Errorf("GET: %d %v", r.StatusCode, r.Header)
	}
	for _, path := range []string{"Nope", "SendMessage/", "SendMessage/x", "", " ", "x "} {
		unknown := n.framed(nil)
		unknown.URL.Path = "/lf.a2a.v1.A2AService/" + path
		if code, message := n.trailers(unknown); code != codes.Unimplemented || message == "" || message != strings.TrimSpace(message) {
			t.Errorf("%q: %v %s", path, code, message)
		}
	}
	none := newNode(t, setting{agent: func(a *wire.Agent) { a.GRPC = false }})
	if r := get(none.framed(nil)); r.StatusCode != http.StatusNotFound {
		t.Errorf("without gRPC: %d", r.StatusCode)
	}
}

func TestGRPC_Reflection(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{options: func(o *wire.Options) { o.Auth = nobody{} }})
	client := grpcreflect.NewClient(h2c(t), n.base, connect.WithGRPC())
	stream := client.NewStream(t.Context())
	defer stream.Close() //nolint:errcheck // nothing depends on it
	names, err := stream.ListServices()
	if err != nil || !slices.Contains(names, "lf.a2a.v1.A2AService") || !slices.Contains(names, "grpc.health.v1.Health") {
		t.Fatalf("services %v, %v", names, err)
	}
	files, err := stream.FileContainingSymbol("lf.a2a.v1.A2AService")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
}

func TestGRPC_Health(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	client := healthpb.NewHealthClient(n.grpcConn())
	check := func(service string) (healthpb.HealthCheckResponse_ServingStatus, error) {
		r, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		return r.GetStatus(), err
	}
	for _, service := range []string{"", "lf.a2a.v1.A2AService"} {
		if got, err := check(service); err != nil || got != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", service, got, err)
		}
	}
	if _, err := check("nope"); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: %v", err)
	}
	n.engine.Drain(t.Context())
	if got, err := check(""); err != nil || got != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("while it stops: %v, %v", got, err)
	}
}

// The other two protocols that the same endpoints speak, on HTTP/1 and HTTP/2.
func TestGRPC_WebAndConnect(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	for name, options := range map[string][]connect.ClientOption{
		"gRPC-Web": {connect.WithGRPCWeb()}, "Connect": nil, "Connect with JSON": {connect.WithProtoJSON()},
	} {
		for version, client := range map[string]*http.Client{"1": n.client, "2": h2c(t)} {
			t.Run(name+" on "+version, func(t *testing.T) {
				sends := connect.NewClient[pb.SendMessageRequest, pb.SendMessageResponse](client, n.base+pb.A2AService_SendMessage_FullMethodName, options...)
				q := connect.NewRequest(dataMessage(nested(3)))
				q.Header().Set("A2A-Version", "1.0")
				reply, err := sends.CallUnary(t.Context(), q)
				if err != nil || reply.Msg.GetTask().GetStatus().GetState() != pb.TaskState_TASK_STATE_COMPLETED {
					t.Fatalf("%v, %v", reply, err)
				}
				gets := connect.NewClient[pb.GetTaskRequest, pb.Task](client, n.base+pb.A2AService_GetTask_FullMethodName, options...)
				get := connect.NewRequest(&pb.GetTaskRequest{Id: "nope"})
				get.Header().Set("A2A-Version", "1.0")
				if _, err := gets.CallUnary(t.Context(), get); connect.CodeOf(err) != connect.CodeNotFound {
					t.Errorf("unknown task: %v", err)
				}
				streams := connect.NewClient[pb.SendMessageRequest, pb.StreamResponse](client, n.base+pb.A2AService_SendStreamingMessage_FullMethodName, options...)
				again := connect.NewRequest(dataMessage(nested(3)))
				again.Header().Set("A2A-Version", "1.0")
				stream, err := streams.CallServerStream(t.Context(), again)
				if err != nil {
					t.Fatal(err)
				}
				events := 0
				for stream.Receive() {
					events++
				}
				if stream.Err() != nil || events != 4 {
					t.Errorf("%d events, %v", events, stream.Err())
				}
			})
		}
	}
	deep := strings.NewReader(`{"metadata":{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`)
	r, err := n.client.Post(n.base+pb.A2AService_SendMessage_FullMethodName, "application/json", deep)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text := body(t, r); r.StatusCode != http.StatusBadRequest || !strings.Contains(text, "levels of nesting") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
}

// A reader that does not read stops neither the task nor the others, and still
// gets everything in the end.
func TestGRPC_SlowReader(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 64<<10)
	const count = 100
	emitted := make(chan struct{})
	n := newNode(t, setting{
		options: func(o *wire.Options) { o.WriteTimeout = time.Minute },
		spec: runs(func(turn *agent.Turn) error {
			defer close(emitted)
			for range count {
				if err := turn.Artifact(a2a.Text(big)); err != nil {
					return err
				}
			}
			return turn.Flush()
		}),
	})
	slow := n.stream(overGRPC, "SendStreamingMessage", send("x"))
	slow.must()
	<-emitted
	n.ok(overGRPC, "ListTasks", object{})
	artifacts := 0
	for _, e := range slow.rest() {
		if e.Error != nil {
			t.Fatal(e.Error)
		}
		if e.ArtifactUpdate != nil {
			artifacts++
		}
	}
	if artifacts != count {
		t.Errorf("%d artifacts", artifacts)
	}
}

// A client that reads nothing for too long is given up.
func TestGRPC_DeadReader(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{
		options: func(o *wire.Options) { o.WriteTimeout = 100 * time.Millisecond },
		spec: runs(func(turn *agent.Turn) error {
			for range 20 {
				if err := turn.Artifact(a2a.Text(strings.Repeat("x", 256<<10))); err != nil {
					return err
				}
			}
			return turn.Complete()
		}),
	})
	dead := n.stream(overGRPC, "SendStreamingMessage", send("x"))
	dead.must()
	eventually(t, "nobody watches", func() bool { return n.fixture.watchers.Load() == 0 })
}

// Pings on a stream that waits are answered, however many they are.
func TestGRPC_Pings(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	task := n.sent(rpc, send("ask"))
	conn := n.dial()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":authority", strings.TrimPrefix(n.base, "http://")},
		{":path", pb.A2AService_SubscribeToTask_FullMethodName},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
		{"a2a-version", "1.0"},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into memory
	}
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true})
	message := append([]byte{0x12, byte(len(task.ID))}, task.ID...)
	_ = framer.WriteData(1, true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
	acks, data := 0, 0
	read := func(until func() bool) {
		for !until() {
			f, err := framer.ReadFrame()
			if err != nil {
				t.Fatalf("%v after %d acks and %d pieces", err, acks, data)
			}
			switch f := f.(type) {
			case *http2.PingFrame:
				acks++
			case *http2.DataFrame:
				data++
			case *http2.SettingsFrame:
				if !f.IsAck() {
					_ = framer.WriteSettingsAck()
				}
			case *http2.GoAwayFrame, *http2.RSTStreamFrame:
				t.Fatalf("the stream ended: %v", f)
			}
		}
	}
	read(func() bool { return data == 1 })
	for i := range 300 {
		if err := framer.WritePing(false, [8]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		read(func() bool { return acks == i+1 })
	}
	n.sent(rpc, send("go", object{"taskId": task.ID}))
	read(func() bool { return data > 1 })
}

// With TLS the client asks for HTTP/2 by ALPN, on the same port.
func TestGRPC_OverTLS(t *testing.T) {
	t.Parallel()
	n := newNode(t, setting{})
	server := httptest.NewUnstartedServer(nil)
	server.Config = wire.NewServer(n.handler, wire.ServerOptions{})
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	conn, err := grpc.NewClient("passthrough:///"+server.Listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing depends on it
	reply, err := pb.NewA2AServiceClient(conn).SendMessage(outgoing(t, "a2a-version", "1.0"), dataMessage(nested(1)))
	if err != nil || reply.GetTask().GetStatus().GetState() != pb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("%v, %v", reply, err)
	}
}
