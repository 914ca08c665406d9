package client

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"handoff.example/handoff/a2a"
)

// FuzzGRPCReader reads any bytes as an answer over gRPC. It ends, within bounds,
// and however the bytes are cut.
func FuzzGRPCReader(f *testing.F) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte("\x0a\x05\x0a\x03t-1"))
	_ = z.Close()
	f.Add([]byte("\x00\x00\x00\x00\x07\x0a\x05\x0a\x03t-1"), "0")
	f.Add(append([]byte{1, 0, 0, 0, byte(zipped.Len())}, zipped.Bytes()...), "5")
	f.Add([]byte("\x00\xFF\xFF\xFF\xFF"), "")
	f.Fuzz(func(t *testing.T, data []byte, status string) {
		const limit = 1 << 10
		resp := &http.Response{Header: http.Header{"Grpc-Encoding": {"gzip"}}, Trailer: http.Header{"Grpc-Status": {status}, "Grpc-Message": {status}, "Grpc-Status-Details-Bin": {status}}}
		var ends []string
		for _, r := range []*grpcReader{newGRPCReader(bytes.NewReader(data), resp, limit), newGRPCReader(iotest.OneByteReader(bytes.NewReader(data)), resp, limit)} {
			var read strings.Builder
			for range len(data) + 1 {
				frame, err := r.Next()
				if err != nil {
					if s, ok := err.(*grpcStatus); ok { //nolint:errorlint // it is not wrapped
						_ = s.protocolError(opGetTask, false)
					}
					read.WriteString(err.Error())
					break
				}
				if len(frame.Data) > limit {
					t.Fatalf("a message of %d bytes", len(frame.Data))
				}
				read.Write(frame.Data)
				_ = new(grpcBinding).decode(frame.Data, &request{}, new(a2a.StreamResponse))
				_ = decodeOldMessage(frame.Data, &request{}, new(a2a.StreamResponse))
			}
			ends = append(ends, read.String())
		}
		if ends[0] != ends[1] {
			t.Errorf("%q, and byte by byte %q", ends[0], ends[1])
		}
	})
}
