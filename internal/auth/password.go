package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"handoff.example/handoff/config"
)

const issuerBasic = "basic"

// Bounds of passwords. The cost makes a check take a fraction of a second.
const (
	passwordCost      = 12
	minPassword       = 8
	passwordCacheTime = time.Minute
	passwordCacheSize = 10_000
	passwordChecks    = 2 // at once, since each takes a processor
)

// HashPassword returns the bcrypt hash of a password for callers.basic.
func HashPassword(password []byte) (string, error) {
	switch {
	case len(password) < minPassword:
		return "", fmt.Errorf("the password has fewer than %d bytes", minPassword)
	case len(password) > maxPassword:
		return "", fmt.Errorf("the password has more than %d bytes, and bcrypt looks at no more", maxPassword)
	}
	hash, err := bcrypt.GenerateFromPassword(password, passwordCost)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return string(hash), nil
}

// CheckPasswordHash says what is wrong with a hash of the configuration.
func CheckPasswordHash(hash string) error {
	cost, err := bcrypt.Cost([]byte(hash))
	switch {
	case err != nil || len(hash) != 60:
		return errors.New("is not a bcrypt hash; `handoff keys hash-password` makes one")
	case cost < 10:
		return errors.New("has a cost below 10, which is guessed too quickly; `handoff keys hash-password` makes one")
	case cost > 15:
		return errors.New("has a cost above 15, which takes seconds for each caller")
	}
	return nil
}

var errNoPassword = errors.New("the name or the password is wrong")

// passwords checks names and passwords. It is safe for concurrent use.
type passwords struct {
	users   map[string]*passwordUser
	unknown []byte // the hash that names nobody has are compared with
	key     [32]byte
	now     func() time.Time
	slots   chan struct{}

	mu    sync.Mutex
	known map[[sha256.Size]byte]time.Time // what was right, until when
}

type passwordUser struct {
	hash      []byte
	principal Principal
}

func newPasswords(users []config.BasicUser) (*passwords, error) {
	p := &passwords{
		users: map[string]*passwordUser{}, now: time.Now, slots: make(chan struct{}, passwordChecks),
		known: map[[sha256.Size]byte]time.Time{},
	}
	_, _ = rand.Read(p.key[:]) // never fails
	cost := 0
	for i, u := range users {
		at := fmt.Sprintf("callers.basic[%d]", i)
		if p.users[u.User] != nil {
			return nil, fmt.Errorf("%s.user: %q is there twice", at, u.User)
		}
		if err := checkPrincipal(u.User, u.Tenant, u.Scopes); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		hash := []byte(u.PasswordHash.Reveal())
		if err := CheckPasswordHash(string(hash)); err != nil {
			return nil, fmt.Errorf("%s.password_hash: %w", at, err)
		}
		c, _ := bcrypt.Cost(hash) // it was checked
		cost = max(cost, c)
		p.users[u.User] = &passwordUser{hash, Principal{
			Tenant: u.Tenant, Issuer: issuerBasic, Subject: u.User, Scopes: u.Scopes, Role: roles[u.Role],
		}}
	}
	// Who is no user takes as long to refuse as who has a wrong password. The hash
	// is one of no password that anybody knows.
	p.unknown = fmt.Appendf(nil, "$2a$%02d$%s", cost, randomText(53))
	return p, nil
}

// recall returns the principal of a name and a password that were found right a
// moment ago.
func (p *passwords) recall(user, password string) (Principal, bool) {
	digest := p.digest(user, password)
	p.mu.Lock()
	until, ok := p.known[digest]
	p.mu.Unlock()
	if u := p.users[user]; ok && u != nil && p.now().Before(until) {
		return u.principal, true
	}
	return Principal{}, false
}

// authenticate returns the principal of a name and a password, or errNoPassword.
func (p *passwords) authenticate(ctx context.Context, user, password string) (Principal, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return Principal{}, ctx.Err()
	}
	hash, u := p.unknown, p.users[user]
	if u != nil {
		hash = u.hash
	}
	if err := bcrypt.CompareHashAndPassword(hash, []byte(password)); err != nil || u == nil {
		return Principal{}, errNoPassword
	}
	digest, now := p.digest(user, password), p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= passwordCacheSize {
		maps.DeleteFunc(p.known, func(_ [sha256.Size]byte, until time.Time) bool { return !now.Before(until) })
	}
	if len(p.known) < passwordCacheSize {
		p.known[digest] = now.Add(passwordCacheTime)
	}
	return u.principal, nil
}

// digest tells pairs of name and password apart without holding them.
func (p *passwords) digest(user, password string) (digest [sha256.Size]byte) {
	mac := hmac.New(sha256.New, p.key[:])
	fmt.Fprintf(mac, "%d:%s%s", len(user), user, password)
	mac.Sum(digest[:0])
	return digest
}
