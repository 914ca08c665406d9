package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"handoff.example/handoff/internal/card"
)

// Codes of failures of keys and signatures.
const (
	codeKey       = "HANDOFF_ERR_KEY"       // a key that cannot be used
	codeSignature = "HANDOFF_ERR_SIGNATURE" // a card that cannot be signed
)

// signing is what a card is signed with.
type signing struct {
	keys []string // files
	ids  []string
	jku  string
	add  bool
	out  string
}

func newCardSignCommand(a *app) *cobra.Command {
	var flags clientFlags
	var s signing
	cmd := &cobra.Command{
		Use: "sign [FILE|URL|AGENT] --key FILE", Short: "Sign an agent card",
		Long: `Sign an agent card (A2A §8.4) of a file, of an address, or of an agent of
./handoff.yaml as it would be served, and write it with its signatures. Those that
it had are left out, unless --add is given. While one key replaces another, sign
with both: --key is repeatable. A card that lacks a required value is refused.`,
		Example: `  handoff card key new card.pem
  handoff card sign agent-card.json --key card.pem --out signed.json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirstAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			named := flags.agentCard
			if len(args) == 1 {
				named = args[0]
			}
			signer, err := s.signer()
			if err != nil {
				return err
			}
			data, where, err := a.cardToSign(cmd.Context(), &flags, named)
			if err != nil {
				return a.tellProblems(err)
			}
			return a.signCard(signer, s, data, where)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&s.keys, "key", nil, "file of a private key in PEM form; repeatable, at most two")
	fs.StringArrayVar(&s.ids, "kid", nil, "id of a key (default: its thumbprint); repeatable, in the order of the keys")
	fs.StringVar(&s.jku, "jku", "", "URL of the JWKS with the public keys, for the header of the signatures")
	fs.BoolVar(&s.add, "add", false, "keep the signatures of others that the card has")
	fs.StringVar(&s.out, "out", "", "write the card to this file (default: standard output)")
	flags.register(a, cmd)
	return cmd
}

// signer loads the keys.
func (s *signing) signer() (*card.Signer, error) {
	if len(s.keys) == 0 {
		return nil, usagef("--key is missing").hint("Make a key with: handoff card key new card.pem")
	}
	if len(s.ids) > len(s.keys) {
		return nil, usagef("there are more --kid than --key")
	}
	var keys []*card.SigningKey
	for i, file := range s.keys {
		id := ""
		if i < len(s.ids) {
			id = s.ids[i]
		}
		key, err := card.LoadSigningKey(file, id, "")
		if err != nil {
			return nil, keyFailure(err)
		}
		keys = append(keys, key)
	}
	signer, err := card.NewSigner(keys, s.jku)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return signer, nil
}

// cardToSign returns the JSON of the card that is meant, and where it is.
func (a *app) cardToSign(ctx context.Context, f *clientFlags, named string) (data []byte, where string, err error) {
	if f.node == "" && (named == "" || agentID.MatchString(named)) {
		c, err := loadLocal()
		if err != nil {
			return nil, "", configFailure(err)
		}
		switch cards := builtCards(c, named); {
		case len(cards) > 1:
			return nil, "", usagef("./%s has several agents", configFile).hint("Name one of them")
		case len(cards) == 1:
			return cards[0].card.AppendJSON(nil), cards[0].Card, nil
		}
	}
	data, where, _, err = a.rawCard(ctx, f, named)
	return data, where, err
}

func (a *app) signCard(signer *card.Signer, s signing, data []byte, where string) error {
	sign := signer.Sign
	if s.add {
		sign = signer.AddTo
	}
	out, err := sign(data)
	if err != nil {
		return failf(codeSignature, "sign %s: %w", where, err).hint("See what else is wrong with: handoff card lint")
	}
	if s.out == "" {
		return a.writeDocument(a.documentFormat(), out, false)
	}
	f, err := os.Create(s.out)
	if err != nil {
		return fmt.Errorf("write card: %w", err)
	}
	to := *a
	to.stdout, to.isTerminal = f, false
	return errors.Join(to.writeDocument(a.documentFormat(), out, false), f.Close())
}
