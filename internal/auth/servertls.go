package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"handoff.example/handoff/config"
)

// lookAgain is how often the files of a certificate are looked at.
const lookAgain = 5 * time.Second

// ServerTLS is TLS from files. When they change, they are loaded again for new
// connections; while they cannot be read, the old ones serve. It is safe for
// concurrent use.
type ServerTLS struct {
	config config.TLS // with paths that are not relative
	log    *slog.Logger
	now    func() time.Time

	mu     sync.Mutex
	loaded *tls.Config
	state  [3]fileState
	looked time.Time
}

// fileState tells whether a file has changed.
type fileState struct {
	modified time.Time
	size     int64
}

// NewServerTLS loads a certificate and what clients are verified with. The paths
// of c are not relative. A nil logger is slog.Default().
func NewServerTLS(c config.TLS, log *slog.Logger) (*ServerTLS, error) {
	if log == nil {
		log = slog.Default()
	}
	s := &ServerTLS{config: c, log: log, now: time.Now}
	state, err := s.look()
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	if s.loaded, err = s.load(); err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	s.state, s.looked = state, s.now()
	return s, nil
}

// Config returns what a server needs.
func (s *ServerTLS) Config() *tls.Config {
	outer := s.current().Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current(), nil }
	return outer
}

// current returns the configuration for a new connection.
func (s *ServerTLS) current() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now.Sub(s.looked) < lookAgain {
		return s.loaded
	}
	s.looked = now
	state, err := s.look()
	if err == nil && state == s.state {
		return s.loaded
	}
	if err == nil {
		var fresh *tls.Config
		if fresh, err = s.load(); err == nil {
			s.loaded, s.state = fresh, state
			s.log.Info("The certificate was loaded again", "file", s.config.Cert)
			return s.loaded
		}
	}
	s.log.Error("The certificate has changed and cannot be loaded; the one from before serves on", "error", err)
	return s.loaded
}

func (s *ServerTLS) look() (state [3]fileState, err error) {
	for i, name := range []string{s.config.Cert, s.config.Key, s.config.ClientCA} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return state, err
		}
		if info.IsDir() {
			return state, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
		}
		state[i] = fileState{info.ModTime(), info.Size()}
	}
	return state, nil
}

// load reads the files.
func (s *ServerTLS) load() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(s.config.Cert, s.config.Key)
	if err != nil {
		return nil, fmt.Errorf("load certificate: %w", err)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if s.config.MinVersion == "1.2" {
		c.MinVersion = tls.VersionTLS12
	}
	switch s.config.ClientAuth {
	case config.ClientAuthOptional:
		c.ClientAuth = tls.VerifyClientCertIfGiven
	case config.ClientAuthRequired:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	default:
		return c, nil
	}
	pem, err := os.ReadFile(s.config.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("load client_ca: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("load client_ca: %s has no certificate", s.config.ClientCA)
	}
	return c, nil
}
