package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"handoff.example/handoff/internal/card"
)

func newCardKeyCommand(a *app) *cobra.Command {
	cmd := newGroup("key", "Make the keys that agent cards are signed with, and publish them")
	cmd.AddCommand(newCardKeyNewCommand(a), newCardKeyJWKSCommand(a))
	return cmd
}

func newCardKeyNewCommand(a *app) *cobra.Command {
	var alg string
	cmd := &cobra.Command{
		Use: "new FILE", Short: "Make a private key",
		Long: `Make a private key and write it to a new file, in PEM form (PKCS #8), which only
its owner can read. The id of the key is its thumbprint (RFC 7638).`,
		Example: "  handoff card key new card-2027.pem --alg ES256",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.newKey(args[0], alg)
		},
	}
	cmd.Flags().StringVar(&alg, "alg", "ES256", "algorithm of its signatures: "+strings.Join(card.Algorithms, ", "))
	_ = cmd.RegisterFlagCompletionFunc("alg", cobra.FixedCompletions(card.Algorithms, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) newKey(file, alg string) error {
	key, err := card.GenerateSigningKey(alg)
	if err != nil {
		return usagef("%v", err)
	}
	data, err := key.PEM()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return failf(codeExists, "the file %s exists; a key goes to a new file", file)
	}
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if a.output != formatText {
		return a.writeValue(struct {
			File string `json:"file"`
			ID   string `json:"kid"`
			Alg  string `json:"alg"`
		}{file, key.ID(), alg})
	}
	p := printer{w: a.stdout}
	p.field("File", file)
	p.field("Key ID", key.ID())
	p.field("Algorithm", alg)
	return p.err
}

func newCardKeyJWKSCommand(a *app) *cobra.Command {
	var ids []string
	cmd := &cobra.Command{
		Use: "jwks FILE...", Short: "Write the public parts of keys as a JSON Web Key Set",
		Long: `Write the public parts of keys in PEM form, private or public, or of certificates
as a JSON Web Key Set (RFC 7517), for whoever verifies cards that they sign.`,
		Example: "  handoff card key jwks card-2026.pem card-2027.pem > jwks.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(ids) > len(args) {
				return usagef("there are more --kid than keys")
			}
			var keys []card.PublicKey
			for i, file := range args {
				id := ""
				if i < len(ids) {
					id = ids[i]
				}
				key, err := card.LoadPublicKey(file, id, a.now())
				if err != nil {
					return keyFailure(err)
				}
				keys = append(keys, key)
			}
			jwks, err := card.JWKS(keys...)
			if err != nil {
				return err
			}
			return a.writeDocument(a.documentFormat(), jwks, false)
		},
	}
	cmd.Flags().StringArrayVar(&ids, "kid", nil, "id of a key (default: its thumbprint); repeatable, in the order of the keys")
	return cmd
}

// documentFormat is the format of what is JSON when nobody asks for YAML.
func (a *app) documentFormat() format {
	if a.output == formatText {
		return formatJSON
	}
	return a.output
}

// keyFailure is the failure of a key that cannot be used.
func keyFailure(err error) error {
	code := codeKey
	if errors.Is(err, fs.ErrNotExist) {
		code = codeNotFound
	}
	return failf(code, "%w", err)
}
