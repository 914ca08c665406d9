package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// Bounds of what the messenger sends.
const (
	maxUpdate = 64 << 10 // bytes
	maxAge    = 5 * time.Minute
	maxID     = 128
)

// update is what the messenger tells of: somebody has written something.
type update struct {
	ID           string `json:"id"` // the same each time it is told
	Conversation string `json:"conversation"`
	Text         string `json:"text"`
}

// hear takes what the messenger tells. It is answered once it is kept: until then
// the messenger tells it again.
func (f *surface) hear(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdate))
	if err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	if !f.signed(r.Header, body) {
		http.Error(w, "the signature is wrong", http.StatusUnauthorized)
		return
	}
	var u update
	if err := json.Unmarshal(body, &u); err != nil || u.ID == "" || len(u.ID) > maxID || u.Conversation == "" || len(u.Conversation) > maxID {
		http.Error(w, "not an update", http.StatusBadRequest)
		return
	}
	if u.Text == "" {
		return // a picture, say, which this surface has no use for
	}
	if err := f.store.hear(r.Context(), u.ID, u.Conversation, u.Text); err != nil {
		slog.Error("A message could not be kept", "error", err)
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	wake(f.toward)
}

// signed checks the signature of the messenger: HMAC-SHA256 of the time, a dot and
// the body. What is older than five minutes may have been overheard.
func (f *surface) signed(header http.Header, body []byte) bool {
	at := header.Get("X-Messenger-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > maxAge {
		return false
	}
	given, err := hex.DecodeString(header.Get("X-Messenger-Signature"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, f.secret)
	mac.Write([]byte(at + "."))
	mac.Write(body)
	return hmac.Equal(given, mac.Sum(nil))
}

// tellNext tells people the next thing that the agent has said.
func (f *surface) tellNext(ctx context.Context) (done bool, err error) {
	next, err := f.store.nextSaid(ctx)
	if next == nil || err != nil {
		return true, err
	}
	// The messenger takes what has the same key for one message.
	body, err := json.Marshal(map[string]string{"conversation": next.conversation, "text": next.words, "key": next.id})
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.api, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+f.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, fmt.Errorf("tell %s: %w", next.conversation, err)
	}
	defer func() { _ = answer.Body.Close() }()
	switch {
	case answer.StatusCode < 300:
	case answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusNotFound:
		slog.Warn("The conversation is gone", "conversation", next.conversation, "status", answer.StatusCode)
	default:
		return false, fmt.Errorf("tell %s: HTTP %d", next.conversation, answer.StatusCode)
	}
	return false, f.store.told(ctx, next.id)
}
