package netguard

import (
	"fmt"
	"io"
)

// TooLargeError says that a body has more bytes than are taken.
type TooLargeError struct {
	Limit int64 // in bytes
}

// Error names the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the body has more than %d bytes", e.Limit)
}

// MaxBytes returns a body that fails with a *TooLargeError once more than limit
// bytes have been read from it. It counts what comes out of a decompressor, so
// that a small body cannot become a large one.
func MaxBytes(body io.ReadCloser, limit int64) io.ReadCloser {
	return &bounded{body: body, left: limit, limit: limit}
}

type bounded struct {
	body        io.ReadCloser
	left, limit int64
}

// Read reads up to the limit, and one byte beyond to know whether there is one.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &TooLargeError{Limit: b.limit}
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.body.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, &TooLargeError{Limit: b.limit}
	}
	return n, err
}

// Close closes the body.
func (b *bounded) Close() error { return b.body.Close() }

// ReadAll reads a body of up to limit bytes.
func ReadAll(body io.ReadCloser, limit int64) ([]byte, error) {
	content, err := io.ReadAll(MaxBytes(body, limit))
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return content, nil
}
