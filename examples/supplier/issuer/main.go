// Command issuer is an authorization server (RFC 6749) for the example: it gives
// tokens to one client, erp-buyer with the secret "secret", that may ask for the
// scopes quotes and contracts. Its key is new whenever it starts. It is no model
// of one for production.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

const (
	client   = "erp-buyer"
	secret   = "secret"
	audience = "supplier"
	lifetime = 10 * time.Minute
)

var allowed = []string{"quotes", "contracts"}

func main() {
	listen := flag.String("listen", "127.0.0.1:9000", "the address, host:port")
	flag.Parse()
	if err := serve(*listen); err != nil {
		log.Fatal(err)
	}
}

func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	i, err := newIssuer("http://" + listener.Addr().String())
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /jwks", i.serveKeys)
	mux.HandleFunc("POST /token", i.serveToken)
	log.Printf("The issuer is ready at %s", i.url)
	return (&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}).Serve(listener)
}

type issuer struct {
	url    string
	key    jose.JSONWebKey
	signer jose.Signer
}

func newIssuer(url string) (*issuer, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return nil, fmt.Errorf("make signer: %w", err)
	}
	return &issuer{url: url, key: key.Public(), signer: signer}, nil
}

func (i *issuer) serveKeys(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.key}})
}

// serveToken answers the client credentials grant (RFC 6749 §4.4).
func (i *issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	id, given, _ := r.BasicAuth()
	scopes := strings.Fields(r.PostFormValue("scope"))
	switch {
	case id != client || subtle.ConstantTimeCompare([]byte(given), []byte(secret)) != 1:
		w.Header().Set("WWW-Authenticate", "Basic")
		refuse(w, http.StatusUnauthorized, "invalid_client")
	case r.PostFormValue("grant_type") != "client_credentials":
		refuse(w, http.StatusBadRequest, "unsupported_grant_type")
	case slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(allowed, s) }):
		refuse(w, http.StatusBadRequest, "invalid_scope")
	default:
		i.give(w, strings.Join(scopes, " "))
	}
}

// give answers with a token (RFC 9068).
func (i *issuer) give(w http.ResponseWriter, scope string) {
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": i.url, "aud": audience, "sub": client, "client_id": client, "scope": scope, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(lifetime).Unix(),
	})
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error")
		return
	}
	signed, err := i.signer.Sign(claims)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error")
		return
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error")
		return
	}
	answer(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": int(lifetime / time.Second), "scope": scope})
}

func refuse(w http.ResponseWriter, status int, code string) {
	answer(w, status, map[string]any{"error": code})
}

func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "the answer could not be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
