package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const connections = 32

var ids atomic.Int64

// body is a JSON-RPC call of a send.
func body(method, text, more string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"message":{"messageId":"m-` +
		strconv.FormatInt(ids.Add(1), 10) + `","role":"ROLE_USER","parts":[{"text":"` + text + `"}]}` + more + `}}`
}

func newClient(n int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n, MaxConnsPerHost: n, DisableCompression: true}}
}

func post(ctx context.Context, client *http.Client, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2A-Version", "1.0")
	return client.Do(req)
}

// call sends a request and returns its answer, which has to contain want.
func call(ctx context.Context, client *http.Client, url, body, want string) ([]byte, error) {
	res, err := post(ctx, client, url, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(answer, []byte(want)) {
		return nil, fmt.Errorf("answered %.300s", answer)
	}
	return answer, nil
}

// rate sends n messages over the connections and returns how many a second were
// answered. It speaks HTTP/1.1 by hand, so that the load costs little beside
// the server that is measured: requests are made beforehand, and of an answer
// only the length and the wanted text are looked at.
func rate(ctx context.Context, url, text, want string, n int) (float64, error) {
	return rateAt(ctx, []string{url}, connections, text, want, n)
}

// rateAt is rate with so many connections, which go to several servers by turns.
func rateAt(ctx context.Context, urls []string, connections int, text, want string, n int) (float64, error) {
	var left atomic.Int64
	left.Store(int64(n))
	began := time.Now()
	err := sendOver(ctx, connections, urls, text, want, func() bool { return left.Add(-1) >= 0 })
	return float64(n) / time.Since(began).Seconds(), err
}

// pace sends messages at a rate until the context ends, if the servers can keep
// up with it, and returns how many were answered.
func pace(ctx context.Context, urls []string, text, want string, perSecond float64) (int64, error) {
	tokens := make(chan struct{}, connections)
	var sent atomic.Int64
	var ticking sync.WaitGroup
	ticking.Go(func() {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		began, given := time.Now(), 0.0
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			for due := time.Since(began).Seconds() * perSecond; given < due; given++ {
				select {
				case tokens <- struct{}{}:
				default: // they cannot keep up
				}
			}
		}
	})
	// A request under way is answered before its connection ends.
	err := sendOver(context.WithoutCancel(ctx), connections, urls, text, want, func() bool {
		select {
		case <-ctx.Done():
			return false
		case <-tokens:
			sent.Add(1)
			return true
		}
	})
	ticking.Wait()
	return sent.Load(), err
}

// sendOver sends messages over n connections, for as long as next says so.
func sendOver(ctx context.Context, n int, urls []string, text, want string, next func() bool) error {
	errs := make(chan error, n)
	var group sync.WaitGroup
	for i := range n {
		host, path, _ := strings.Cut(strings.TrimPrefix(urls[i%len(urls)], "http://"), "/")
		group.Go(func() {
			if err := sendAll(ctx, host, "/"+path, text, want, next); err != nil {
				errs <- err
			}
		})
	}
	group.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// sendAll sends messages over one connection, for as long as next says so.
func sendAll(ctx context.Context, host, path, text, want string, next func() bool) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 16<<10)
	const number = "0000000000"
	b := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"` + number + `","role":"ROLE_USER","parts":[{"text":"` + text + `"}]}}}`
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\nContent-Length: %d\r\n\r\n%s", path, host, len(b), b)
	id := bytes.Index(request, []byte(number))
	var answer []byte
	for next() {
		for i, n := len(number)-1, ids.Add(1); i >= 0; i, n = i-1, n/10 {
			request[id+i] = byte('0' + n%10)
		}
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if answer, err = readAnswer(r, answer[:0]); err != nil {
			return err
		}
		if !bytes.Contains(answer, []byte(want)) {
			return fmt.Errorf("answered %.300s", answer)
		}
	}
	return nil
}

// readAnswer reads an answer that says how long it is, or comes in chunks.
func readAnswer(r *bufio.Reader, dst []byte) ([]byte, error) {
	length, chunked := 0, false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if len(line) <= 2 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return nil, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		}
	}
	if !chunked {
		return readN(r, dst, length)
	}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return nil, err
		}
		if dst, err = readN(r, dst, int(size)); err != nil {
			return nil, err
		}
		if _, err := r.Discard(2); err != nil {
			return nil, err
		}
		if size == 0 {
			return dst, nil
		}
	}
}

func readN(r *bufio.Reader, dst []byte, n int) ([]byte, error) {
	from := len(dst)
	dst = slices.Grow(dst, n)[:from+n]
	_, err := io.ReadFull(r, dst[from:])
	return dst, err
}

// events reads the frames of a stream until it ends and returns how many there
// were. Each frame is handed to see.
func events(r io.Reader, see func(id, data string) error) (int, error) {
	n, id := 0, ""
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 0, 4096), 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		if rest, ok := strings.CutPrefix(line, "id: "); ok {
			id = rest
		}
		if rest, ok := strings.CutPrefix(line, "id:"); ok {
			id = strings.TrimSpace(rest)
		}
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			n++
			if see != nil {
				if err := see(id, data); err != nil {
					return n, err
				}
			}
		}
	}
	return n, scanner.Err()
}

var errStream = errors.New("not a stream")

func open(ctx context.Context, client *http.Client, url, body string) (io.ReadCloser, error) {
	res, err := post(ctx, client, url, body)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		res.Body.Close()
		return nil, fmt.Errorf("%w: %s", errStream, text)
	}
	return res.Body, nil
}
