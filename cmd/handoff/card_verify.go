package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/card"
)

// verification is how a card is verified.
type verification struct {
	jwks    []string // files
	trust   []string // files and folders
	origins []string
	policy  string
	partial bool
}

func newCardVerifyCommand(a *app) *cobra.Command {
	var flags clientFlags
	var v verification
	cmd := &cobra.Command{
		Use: "verify [FILE|URL|AGENT]", Short: "Verify the signatures of an agent card",
		Long: `Verify the signatures of an agent card (A2A §8.4.3), over the bytes of the file or
of what the agent serves. The keys are those of --jwks and --trust, and those that
a signature names by its jku where --allow-jku has the origin of it; without any of
them, for a peer of ./handoff.yaml those of its signatures. One good signature by
such a key suffices. Exits with 1 when the policy refuses the card:
require (the default) wants a good signature, prefer refuses wrong ones only.`,
		Example: `  handoff card verify https://agents.example.com/agents/quote/ --jwks partner.json
  handoff card verify signed.json --trust keys/ -o json
  handoff card verify https://agents.example.com/agents/quote/ --allow-jku https://agents.example.com`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirstAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			named := flags.agentCard
			if len(args) == 1 {
				named = args[0]
			}
			if err := v.ofPeer(named); err != nil {
				return err
			}
			verifier, err := v.verifier(a)
			if err != nil {
				return err
			}
			data, where, fetcher, err := a.rawCard(cmd.Context(), &flags, named)
			if err != nil {
				return err
			}
			verifier.HTTPClient = fetcher
			result, err := verifier.Verify(cmd.Context(), data)
			reason := ""
			if e, ok := errors.AsType[*card.SignatureError](err); ok {
				result, reason = e.Verification, e.Reason
			} else if err != nil {
				return err
			}
			return a.tellVerification(where, result, reason)
		},
	}
	v.register(cmd, card.PolicyRequire)
	flags.register(a, cmd)
	return cmd
}

// register adds the flags of verification.
func (v *verification) register(cmd *cobra.Command, policy card.Policy) {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&v.jwks, "jwks", nil, "file with trusted keys, a JSON Web Key Set; repeatable")
	fs.StringArrayVar(&v.trust, "trust", nil, "folder with trusted keys: .json (JWKS), .pem and .crt; repeatable")
	fs.StringArrayVar(&v.origins, "allow-jku", nil, "origin, such as https://keys.example.com, whose keys are trusted; repeatable")
	fs.StringVar(&v.policy, "policy", string(policy), "what passes: require, prefer or ignore")
	fs.BoolVar(&v.partial, "partial", false, "accept a signature over what the official SDKs sign: fields of A2A 1.0 that are not empty")
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions([]string{"require", "prefer", "ignore"}, cobra.ShellCompDirectiveNoFileComp))
}

// ofPeer takes the keys of a peer of ./handoff.yaml where none are named.
func (v *verification) ofPeer(named string) error {
	if len(v.jwks)+len(v.trust)+len(v.origins) > 0 || !agentID.MatchString(named) {
		return nil
	}
	local, err := loadLocal()
	switch {
	case err != nil:
		return configFailure(err)
	case local == nil || local.Peers[named] == nil:
		return nil
	}
	signatures := &local.Peers[named].Signatures
	for _, path := range signatures.Trust {
		v.trust = append(v.trust, local.Path(path))
	}
	v.origins = signatures.JKU
	return nil
}

// verifier loads the keys.
func (v *verification) verifier(a *app) (*card.Verifier, error) {
	policy, err := card.ParsePolicy(v.policy)
	if err != nil {
		return nil, usagef("%v", err)
	}
	result := &card.Verifier{Policy: policy, Trusted: &card.TrustStore{}, Partial: v.partial}
	for _, path := range append(v.jwks, v.trust...) {
		if err := result.Trusted.Load(path, a.now()); err != nil {
			return nil, keyFailure(err)
		}
	}
	for _, text := range v.origins {
		origin, err := card.ParseOrigin(text)
		if err != nil {
			return nil, usagef("--allow-jku: %v", err)
		}
		result.JKUOrigins = append(result.JKUOrigins, origin)
	}
	if policy == card.PolicyRequire && result.Trusted.Len() == 0 && len(result.JKUOrigins) == 0 {
		return nil, usagef("no key is trusted").hint("Name keys with --jwks or --trust, or allow the origin of the agent's keys with --allow-jku")
	}
	return result, nil
}

// rawCard returns the bytes of a card as they came, where it is, and the client
// to fetch keys with.
func (a *app) rawCard(ctx context.Context, f *clientFlags, named string) (data []byte, where string, fetcher *http.Client, err error) {
	if named != "" && hasCardFile(named) && !agentID.MatchString(named) {
		data, err := readCardBytes(named)
		return data, named, &http.Client{}, err
	}
	s, end, err := a.prepareSession(ctx, f, named)
	if err != nil {
		return nil, "", nil, err
	}
	defer end()
	if s.target.card != nil {
		return s.target.card, s.target.ref, s.stranger, nil
	}
	s.opts.VerifyCard = func(_ context.Context, card []byte) ([]byte, error) {
		data = card
		return card, nil
	}
	if _, err := client.Discover(s.ctx, s.target.ref, s.opts); err != nil {
		return nil, "", nil, s.discoveryFailure(err)
	}
	return data, s.target.ref, s.stranger, nil
}

// watched is what became of the verification of the card that a command shows.
type watched struct{ result *card.Verification }

// watch has the cards of a session verified, as the flags say.
func (v *verification) watch(s *session) (*watched, error) {
	verifier, err := v.verifier(s.app)
	if err != nil {
		return nil, err
	}
	verifier.HTTPClient = s.stranger
	w := &watched{}
	s.opts.VerifyCard = func(ctx context.Context, data []byte) ([]byte, error) {
		var err error
		if w.result, err = verifier.Verify(ctx, data); err != nil {
			return nil, err
		}
		return w.result.Covered, nil
	}
	return w, nil
}

// signature tells it to people.
func (w *watched) signature() string {
	r := w.result
	if r == nil {
		return "not looked at" // of a card in the configuration
	}
	by := ", key " + r.KeyID + " (" + r.Algorithm + "), from " + r.Source
	switch r.Outcome {
	case card.OutcomeVerified:
		return "verified" + by
	case card.OutcomePartial:
		return "verified in part" + by + ", without " + strings.Join(r.Uncovered, ", ")
	case card.OutcomeUnsigned:
		return "absent"
	case card.OutcomeUnverified:
		return "present, not verified: " + r.Signatures[0].Reason
	default:
		return "not looked at"
	}
}

func readCardBytes(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, failf(codeCardNotFound, "read card: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, client.MaxCardSize+1))
	switch {
	case err != nil:
		return nil, failf(codeCardNotFound, "read card: %w", err)
	case len(data) > client.MaxCardSize:
		return nil, failf(codeCardInvalid, "%s has more than %d bytes", file, client.MaxCardSize)
	}
	return data, nil
}

// verifiedCard is the result as programs read it.
type verifiedCard struct {
	OK         bool                `json:"ok"`
	Card       string              `json:"card"`
	Outcome    card.Outcome        `json:"outcome"`
	Reason     string              `json:"reason,omitempty"`
	KeyID      string              `json:"kid,omitempty"`
	Algorithm  string              `json:"alg,omitempty"`
	Source     string              `json:"source,omitempty"`
	Uncovered  []string            `json:"uncovered,omitempty"`
	Signatures []verifiedSignature `json:"signatures"`
}

type verifiedSignature struct {
	Status    card.Status `json:"status"`
	KeyID     string      `json:"kid,omitempty"`
	Algorithm string      `json:"alg,omitempty"`
	Source    string      `json:"source,omitempty"`
	Reason    string      `json:"reason,omitempty"`
}

func (a *app) tellVerification(where string, v *card.Verification, reason string) error {
	result := verifiedCard{
		OK: v.Outcome != card.OutcomeRefused, Card: where, Outcome: v.Outcome, Reason: reason,
		KeyID: v.KeyID, Algorithm: v.Algorithm, Source: v.Source, Uncovered: v.Uncovered, Signatures: []verifiedSignature{},
	}
	for _, s := range v.Signatures {
		result.Signatures = append(result.Signatures, verifiedSignature(s))
	}
	var err error
	if a.output != formatText {
		err = a.writeValue(result)
	} else {
		err = result.writeText(a)
	}
	if !result.OK {
		return errors.Join(err, exitStatus(exitFailure))
	}
	return err
}

func (r *verifiedCard) writeText(a *app) error {
	p := printer{w: a.stdout}
	for _, s := range r.Signatures {
		text := string(s.Status)
		if s.KeyID != "" {
			text += ", key " + s.KeyID + " (" + s.Algorithm + ")"
		}
		if s.Source != "" {
			text += ", from " + s.Source
		}
		if s.Reason != "" {
			text += ": " + s.Reason
		}
		p.field("Signature", text)
	}
	if len(r.Uncovered) > 0 && r.Outcome == card.OutcomePartial {
		p.field("Not covered", strings.Join(r.Uncovered, ", "))
	}
	verdict := r.Card + ": " + string(r.Outcome)
	if r.Reason != "" {
		verdict += ": " + r.Reason
	}
	p.write(oneLine(verdict) + "\n")
	return p.err
}
