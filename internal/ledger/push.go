package ledger

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
)

// ReceiverPath begins the paths of the receiver: the id of the task and a token
// follow.
const ReceiverPath = "/delegations/"

// pushRefused is the Push of a delegation whose peer has refused to push.
const pushRefused = "!"

// secrets are what a peer has to present at the receiver.
type secrets struct {
	Path  string `json:"path"`  // last element of the URL
	Token string `json:"token"` // A2A §4.3.1
	Key   string `json:"key"`   // bearer credentials, A2A §4.3.2
}

func newSecrets() secrets {
	random := func() string {
		var b [32]byte
		_, _ = rand.Read(b[:]) // it never fails
		return base64.RawURLEncoding.EncodeToString(b[:])
	}
	return secrets{Path: random(), Token: random(), Key: random()}
}

func pathDigest(path string) []byte {
	sum := sha256.Sum256([]byte(path))
	return sum[:]
}

// canPush reports whether the peer pushes, and may.
func (w *work) canPush() bool {
	return w.link.Push && w.d.Push != pushRefused && w.l.opts.Sealer != nil && w.l.opts.BaseURL() != "" &&
		declared(w.card().Capabilities.PushNotifications)
}

// webhook returns what a peer is asked to push to, made once for a delegation.
// The row has to be saved before it is used.
func (w *work) webhook() (*a2a.TaskPushNotificationConfig, error) {
	var s secrets
	if w.d.Secret != nil {
		plain, err := w.l.opts.Sealer.Open(w.d.Secret)
		if err != nil {
			return nil, fmt.Errorf("open secret of receiver: %w", err)
		}
		if err := json.Unmarshal(plain, &s); err != nil {
			return nil, fmt.Errorf("read secret of receiver: %w", err)
		}
	} else {
		s = newSecrets()
		plain, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		if w.d.Secret, err = w.l.opts.Sealer.Seal(plain); err != nil {
			return nil, fmt.Errorf("seal secret of receiver: %w", err)
		}
		w.d.Token = pathDigest(s.Path)
	}
	return &a2a.TaskPushNotificationConfig{
		ID: derived(w.d.Task, "push", "1"), TaskID: w.d.RemoteTask,
		URL:   w.l.opts.BaseURL() + ReceiverPath + w.d.Task + "/" + s.Path,
		Token: s.Token, Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: s.Key},
	}, nil
}

// inlinePush returns the webhook that goes along with a message: that to a peer
// that does not stream.
func (w *work) inlinePush(ctx context.Context) *a2a.TaskPushNotificationConfig {
	if w.canStream() || !w.canPush() {
		return nil
	}
	hook, err := w.webhook()
	if err != nil {
		w.l.log.WarnContext(ctx, "A peer is not asked to push", "task", w.d.Task, "error", err)
		return nil
	}
	hook.TaskID = ""
	w.d.Push = hook.ID
	return hook
}

// push asks the peer to push, when it was not asked before, and reports whether
// it does.
func (w *work) push(ctx context.Context) bool {
	if !w.canPush() {
		return false
	}
	if w.d.Push != "" {
		return true
	}
	hook, err := w.webhook()
	if err == nil {
		err = w.save(ctx, nil) // the receiver has to know the token first
	}
	if err == nil {
		var made *a2a.TaskPushNotificationConfig
		if made, err = w.link.Client.CreateTaskPushNotificationConfig(ctx, hook); err == nil {
			if w.d.Push = hook.ID; made.ID != "" && len(made.ID) <= a2a.MaxIDLength {
				w.d.Push = made.ID
			}
			return true
		}
	}
	if _, ok := errors.AsType[*a2a.Error](err); ok {
		w.d.Push = pushRefused
	}
	w.l.log.InfoContext(ctx, "A peer does not push; it is polled", "task", w.d.Task, "peer", w.d.Peer, "error", err)
	return false
}
