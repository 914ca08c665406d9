package card

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Algorithms are the signature algorithms that are made and accepted (RFC 7518
// §3.1, RFC 8037 §3.1), and no others.
var Algorithms = []string{string(jose.ES256), string(jose.EdDSA), string(jose.RS256)}

// Bounds of keys.
const (
	minRSA        = 2048      // bits
	maxRSA        = 8192      // bits; larger ones cost whoever verifies
	maxKeyFile    = 256 << 10 // bytes of a file or a JWKS
	maxKeys       = 1_000     // of a trust store
	maxKeyID      = 200       // bytes
	newRSA        = 3072      // bits
	privateKeyPEM = "PRIVATE KEY"
)

// SigningKey is a private key with its id and algorithm.
type SigningKey struct {
	id      string
	alg     jose.SignatureAlgorithm
	private crypto.Signer
}

// NewSigningKey returns a signing key of an ECDSA P-256, Ed25519 or RSA key. An
// empty id is the key's thumbprint (RFC 7638); an empty algorithm is the one
// that the key is for, and any other than that is refused.
func NewSigningKey(private crypto.Signer, id, alg string) (*SigningKey, error) {
	if private == nil {
		return nil, errors.New("there is no private key")
	}
	fitting, err := algorithmOf(private.Public())
	if err != nil {
		return nil, err
	}
	if alg != "" && alg != string(fitting) {
		if !slices.Contains(Algorithms, alg) {
			return nil, fmt.Errorf("algorithm %q is not %s", shorten(alg), strings.Join(Algorithms, ", "))
		}
		return nil, fmt.Errorf("the key is for %s, not for %s", fitting, alg)
	}
	if id == "" {
		if id, err = thumbprint(private.Public()); err != nil {
			return nil, err
		}
	}
	if len(id) > maxKeyID || strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, fmt.Errorf("key id %q: it has at most %d bytes, all of them printable", shorten(id), maxKeyID)
	}
	return &SigningKey{id: id, alg: fitting, private: private}, nil
}

// LoadSigningKey reads a private key from a PEM file: PKCS #8, or the older
// forms of EC and RSA keys. See NewSigningKey for the id and the algorithm.
func LoadSigningKey(file, id, alg string) (*SigningKey, error) {
	data, err := readBounded(file)
	if err != nil {
		return nil, fmt.Errorf("read signing key: %w", err)
	}
	private, err := parsePrivate(data)
	if err != nil {
		return nil, fmt.Errorf("read signing key %s: %w", file, err)
	}
	key, err := NewSigningKey(private, id, alg)
	if err != nil {
		return nil, fmt.Errorf("signing key %s: %w", file, err)
	}
	return key, nil
}

// GenerateSigningKey makes a key for an algorithm. Its id is its thumbprint.
func GenerateSigningKey(alg string) (*SigningKey, error) {
	var private crypto.Signer
	var err error
	switch jose.SignatureAlgorithm(alg) {
	case jose.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case jose.RS256:
		private, err = rsa.GenerateKey(rand.Reader, newRSA)
	default:
		return nil, fmt.Errorf("algorithm %q is not %s", shorten(alg), strings.Join(Algorithms, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return NewSigningKey(private, "", alg)
}

// ID returns the id of the key, which is the kid of its signatures.
func (k *SigningKey) ID() string { return k.id }

// Algorithm returns the algorithm of the key's signatures.
func (k *SigningKey) Algorithm() string { return string(k.alg) }

// Public returns the public part.
func (k *SigningKey) Public() PublicKey {
	return PublicKey{ID: k.id, Algorithm: string(k.alg), key: k.private.Public()}
}

// PEM returns the private key as PKCS #8.
func (k *SigningKey) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("write private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateKeyPEM, Bytes: der}), nil
}

func algorithmOf(public crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return "", fmt.Errorf("the key is on the curve %s; ES256 needs P-256", key.Curve.Params().Name)
		}
		return jose.ES256, nil
	case ed25519.PublicKey:
		if len(key) != ed25519.PublicKeySize {
			return "", errors.New("the Ed25519 key has a wrong size")
		}
		return jose.EdDSA, nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSA || bits > maxRSA {
			return "", fmt.Errorf("the RSA key has %d bits; %d to %d are allowed", bits, minRSA, maxRSA)
		}
		return jose.RS256, nil
	default:
		return "", fmt.Errorf("a key of the kind %T signs by none of %s", public, strings.Join(Algorithms, ", "))
	}
}

func thumbprint(public crypto.PublicKey) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: public}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("make thumbprint: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}

func parsePrivate(data []byte) (crypto.Signer, error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil, errNoPrivate
		}
		var key any
		var err error
		switch block.Type {
		case privateKeyPEM:
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = parseLegacy(block, func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) })
		case "RSA PRIVATE KEY":
			key, err = parseLegacy(block, func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) })
		case "ENCRYPTED PRIVATE KEY":
			err = errEncrypted
		default:
			continue // such as EC PARAMETERS and CERTIFICATE
		}
		if err != nil {
			return nil, err
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("a key of the kind %T cannot sign", key)
		}
		return signer, nil
	}
}

var errNoPrivate = errors.New("there is no private key in PEM form")

var errEncrypted = errors.New("the private key is encrypted; store it in clear with mode 0600, for instance with: openssl pkey")

func parseLegacy(block *pem.Block, parse func([]byte) (any, error)) (any, error) {
	if block.Headers["DEK-Info"] != "" {
		return nil, errEncrypted
	}
	return parse(block.Bytes)
}

// LoadPublicKey reads the key of a PEM file that has one: public, a certificate
// that is valid at that time, or private, of which the public part is returned.
// An empty id is the key's thumbprint.
func LoadPublicKey(file, id string, now time.Time) (PublicKey, error) {
	data, err := readBounded(file)
	if err != nil {
		return PublicKey{}, fmt.Errorf("read key: %w", err)
	}
	var public crypto.PublicKey
	private, err := parsePrivate(data)
	switch {
	case err == nil:
		public = private.Public()
	case errors.Is(err, errNoPrivate):
		var keys []PublicKey
		if keys, err = ParsePublicPEM(data, now); err == nil && len(keys) > 1 {
			err = fmt.Errorf("it has %d keys", len(keys))
		}
		if err == nil {
			public = keys[0].key
		}
	}
	var key PublicKey
	if err == nil {
		key, err = newPublicKey(public, id)
	}
	if err != nil {
		return PublicKey{}, fmt.Errorf("read key %s: %w", file, err)
	}
	return key, nil
}

// PublicKey is a key that signatures are verified with.
type PublicKey struct {
	ID        string
	Algorithm string // the only one that it is used with
	key       crypto.PublicKey
}

// JWKS returns the JSON Web Key Set of keys (RFC 7517 §5), public parts only.
func JWKS(keys ...PublicKey) ([]byte, error) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.key, KeyID: k.ID, Algorithm: k.Algorithm, Use: "sig"})
	}
	data, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("write JWKS: %w", err)
	}
	return data, nil
}

// JWKSHandler serves a JSON Web Key Set with an entity tag, to everybody.
func JWKSHandler(jwks []byte, maxAge time.Duration) http.Handler {
	etag := `"` + digest(jwks) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "the keys are read with GET or HEAD", http.StatusMethodNotAllowed)
			return
		}
		header.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(max(0, maxAge)/time.Second)))
		header.Set("ETag", etag)
		header.Set("Access-Control-Allow-Origin", "*") // public keys; browsers verify too
		if matches(r.Header.Values("If-None-Match"), etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		header.Set("Content-Type", "application/json") // clients expect it rather than application/jwk-set+json
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Length", strconv.Itoa(len(jwks)))
		if r.Method == http.MethodGet {
			w.Write(jwks)
		}
	})
}

// ParseJWKS returns the keys of a JSON Web Key Set that signatures are verified
// with. Keys of other kinds, algorithms and uses are left out. Symmetric and
// private keys are refused: whoever publishes one has lost it. A key without an
// id has its thumbprint as id.
func ParseJWKS(data []byte) ([]PublicKey, error) {
	if len(data) > maxKeyFile {
		return nil, fmt.Errorf("the JWKS has more than %d bytes", maxKeyFile)
	}
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("read JWKS: %w", err)
	}
	if set.Keys == nil {
		return nil, errors.New("read JWKS: it has no keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the JWKS has more than %d keys", maxKeys)
	}
	var keys []PublicKey
	for i, raw := range set.Keys {
		key, ok, err := parseJWK(raw)
		if err != nil {
			return nil, fmt.Errorf("read JWKS: key %d: %w", i, err)
		}
		if ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func parseJWK(raw jsontext.Value) (PublicKey, bool, error) {
	var secret struct {
		Kty string         `json:"kty"`
		D   jsontext.Value `json:"d"`
		K   jsontext.Value `json:"k"`
	}
	if err := json.Unmarshal(raw, &secret); err != nil {
		return PublicKey{}, false, err
	}
	if secret.Kty == "oct" || secret.K != nil {
		return PublicKey{}, false, errors.New("it is symmetric, and verifies nothing in public")
	}
	if secret.D != nil {
		return PublicKey{}, false, errors.New("it is private; a trust store needs its public part only")
	}
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(raw); err != nil || !jwk.Valid() {
		return PublicKey{}, false, nil // of a kind that is not used here
	}
	alg, err := algorithmOf(jwk.Key)
	if err != nil || jwk.Use != "" && jwk.Use != "sig" || jwk.Algorithm != "" && jwk.Algorithm != string(alg) {
		return PublicKey{}, false, nil
	}
	key, err := newPublicKey(jwk.Key, jwk.KeyID)
	return key, err == nil, err
}

func newPublicKey(public crypto.PublicKey, id string) (PublicKey, error) {
	alg, err := algorithmOf(public)
	if err != nil {
		return PublicKey{}, err
	}
	if id == "" {
		if id, err = thumbprint(public); err != nil {
			return PublicKey{}, err
		}
	}
	return PublicKey{ID: id, Algorithm: string(alg), key: public}, nil
}

// ParsePublicPEM returns the public keys of PEM data: public keys, and
// certificates that are valid at that time. Their ids are their thumbprints. A
// private key is refused.
func ParsePublicPEM(data []byte, now time.Time) ([]PublicKey, error) {
	var keys []PublicKey
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		public, err := parsePublicBlock(block, now)
		if err != nil {
			return nil, err
		}
		if public == nil {
			continue
		}
		key, err := newPublicKey(public, "")
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no public key in PEM form")
	}
	return keys, nil
}

func parsePublicBlock(block *pem.Block, now time.Time) (crypto.PublicKey, error) {
	switch {
	case strings.HasSuffix(block.Type, privateKeyPEM):
		return nil, errors.New("it holds a private key; a trust store needs its public part only")
	case block.Type == "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case block.Type == "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case block.Type == "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if now.Before(certificate.NotBefore) || now.After(certificate.NotAfter) {
			return nil, fmt.Errorf("the certificate is valid from %s to %s only", certificate.NotBefore.Format(time.DateOnly), certificate.NotAfter.Format(time.DateOnly))
		}
		return certificate.PublicKey, nil
	}
	return nil, nil
}

// TrustStore has the keys that are trusted, by their ids. The zero value trusts
// none. It must not be changed while it is used.
type TrustStore struct {
	keys  map[string][]PublicKey
	count int
}

// Add trusts keys.
func (s *TrustStore) Add(keys ...PublicKey) {
	if s.keys == nil {
		s.keys = map[string][]PublicKey{}
	}
	for _, k := range keys {
		s.keys[k.ID] = append(s.keys[k.ID], k)
	}
	s.count += len(keys)
}

// Len returns the number of keys.
func (s *TrustStore) Len() int { return s.count }

func (s *TrustStore) find(id string) []PublicKey {
	if s == nil {
		return nil
	}
	return s.keys[id]
}

// Load trusts the keys of a file, or of all files of a folder whose names end in
// .json, .jwks, .pem, .crt, .cer or .pub. A key in PEM form is known by its
// thumbprint and, where it is alone in its file, by the file's name without its
// ending too.
func (s *TrustStore) Load(path string, now time.Time) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("load trusted keys: %w", err)
	}
	if !info.IsDir() {
		return s.loadFile(path, now)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("load trusted keys: %w", err)
	}
	before := s.count
	for _, entry := range entries {
		switch strings.ToLower(filepath.Ext(entry.Name())) {
		case ".json", ".jwks", ".pem", ".crt", ".cer", ".pub":
			if err := s.loadFile(filepath.Join(path, entry.Name()), now); err != nil {
				return err
			}
		}
	}
	if s.count == before {
		return fmt.Errorf("load trusted keys: no file of %s holds a key", path)
	}
	return nil
}

func (s *TrustStore) loadFile(file string, now time.Time) error {
	data, err := readBounded(file)
	if err != nil {
		return fmt.Errorf("load trusted keys: %w", err)
	}
	var keys []PublicKey
	if strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
		if keys, err = ParseJWKS(data); err == nil && len(keys) == 0 {
			err = fmt.Errorf("no key is for %s", strings.Join(Algorithms, ", "))
		}
	} else if keys, err = ParsePublicPEM(data, now); len(keys) == 1 {
		named := keys[0]
		named.ID = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if named.ID != keys[0].ID {
			keys = append(keys, named)
		}
	}
	if err != nil {
		return fmt.Errorf("load trusted keys of %s: %w", file, err)
	}
	if s.count+len(keys) > maxKeys {
		return fmt.Errorf("load trusted keys: there are more than %d", maxKeys)
	}
	s.Add(keys...)
	return nil
}

func readBounded(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(data) > maxKeyFile {
		err = fmt.Errorf("%s has more than %d bytes", file, maxKeyFile)
	}
	return data, err
}
