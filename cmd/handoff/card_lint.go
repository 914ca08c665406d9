package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/card"
)

func newCardLintCommand(a *app) *cobra.Command {
	var flags clientFlags
	cmd := &cobra.Command{
		Use: "lint [FILE|URL|AGENT]", Short: "Check agent cards against the specification",
		Long: `Check an agent card against the specification: a file, the card that an agent
serves, or that of an agent of ./handoff.yaml as it would be served. Without an
argument all agents of ./handoff.yaml are checked. Exits with 1 when a card
breaks the specification; warnings are about what is probably not meant.`,
		Example:           "  handoff card lint agent-card.json\n  handoff card lint https://agents.example.com/agents/quote/ -o json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirstAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			named := flags.agentCard
			if len(args) == 1 {
				named = args[0]
			}
			cards, err := a.cardsToLint(cmd.Context(), &flags, named)
			if err != nil {
				return a.tellProblems(err)
			}
			return a.lintCards(cards)
		},
	}
	flags.register(a, cmd)
	return cmd
}

// lintedCard is a card with what is wrong with it.
type lintedCard struct {
	Card     string        `json:"card"` // where it is
	Findings []cardFinding `json:"findings"`
	card     *a2a.AgentCard
}

type cardFinding struct {
	Level     card.Level `json:"level"`
	Field     string     `json:"field,omitempty"`
	Text      string     `json:"text"`
	Paragraph string     `json:"paragraph,omitempty"`
}

// cardsToLint finds the cards that are meant.
func (a *app) cardsToLint(ctx context.Context, f *clientFlags, named string) ([]*lintedCard, error) {
	if named != "" && hasCardFile(named) && !agentID.MatchString(named) {
		return readCard(named)
	}
	if f.node == "" && (named == "" || agentID.MatchString(named)) {
		c, err := loadLocal()
		if err != nil {
			return nil, configFailure(err)
		}
		if cards := builtCards(c, named); len(cards) > 0 {
			return cards, nil
		}
	}
	s, end, err := a.prepareSession(ctx, f, named)
	if err != nil {
		return nil, err
	}
	defer end()
	if s.target.card != nil {
		return parseCard(s.target.card, s.target.ref)
	}
	found, err := client.Discover(s.ctx, s.target.ref, s.opts)
	if err != nil {
		return nil, s.discoveryFailure(err)
	}
	return []*lintedCard{{Card: s.target.ref, card: found}}, nil
}

// readCard reads the card of a file.
func readCard(file string) ([]*lintedCard, error) {
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
	return parseCard(data, file)
}

// parseCard reads a card of any quality.
func parseCard(data []byte, where string) ([]*lintedCard, error) {
	var c a2a.AgentCard
	if err := a2a.Unmarshal(data, &c); err != nil {
		return nil, failf(codeCardInvalid, "%s is no agent card: %w", where, err)
	}
	return []*lintedCard{{Card: where, card: &c}}, nil
}

// builtCards returns the cards of the agents of a configuration; with a name,
// of that one alone.
func builtCards(c *config.Config, named string) []*lintedCard {
	if c == nil {
		return nil
	}
	var cards []*lintedCard
	for _, id := range c.AgentIDs() {
		if named == "" || named == id {
			cards = append(cards, &lintedCard{Card: id, card: card.For(c, id, localBase(c), "")})
		}
	}
	return cards
}

func (a *app) lintCards(cards []*lintedCard) error {
	broken := 0
	p := printer{w: a.stdout}
	for _, c := range cards {
		c.Findings = []cardFinding{}
		errorsOf, warningsOf := 0, 0
		for _, f := range card.Lint(c.card) {
			c.Findings = append(c.Findings, cardFinding(f))
			if f.Level == card.LevelError {
				errorsOf++
			} else {
				warningsOf++
			}
			if a.output == formatText {
				p.write(oneLine(c.Card+": "+f.String()) + "\n")
			}
		}
		broken += errorsOf
		if a.output == formatText {
			verdict := "ok"
			if errorsOf > 0 {
				verdict = plural(errorsOf, "error")
			}
			if warningsOf > 0 {
				verdict += ", " + plural(warningsOf, "warning")
			}
			p.write(oneLine(c.Card+": "+verdict) + "\n")
		}
	}
	if a.output != formatText {
		p.err = a.writeValue(struct {
			OK    bool          `json:"ok"`
			Cards []*lintedCard `json:"cards"`
		}{broken == 0, cards})
	}
	if broken > 0 {
		return errors.Join(p.err, exitStatus(exitFailure))
	}
	return p.err
}
