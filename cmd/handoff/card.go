package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/card"
)

func newCardCommand(a *app) *cobra.Command {
	cmd := newGroup("card", "Get, check and make agent cards")
	cmd.AddCommand(newCardGetCommand(a))
	cmd.AddCommand(newCardNewCommand(a), newCardLintCommand(a))
	cmd.AddCommand(newCardSignCommand(a), newCardVerifyCommand(a), newCardKeyCommand(a))
	return cmd
}

func newCardGetCommand(a *app) *cobra.Command {
	var flags clientFlags
	var v verification
	var validate, extended, stream bool
	cmd := &cobra.Command{
		Use:   "get [AGENT]",
		Short: "Show the card of an agent",
		Long: `Show the card of an agent. Its signatures are verified with the keys of --jwks and
--trust, and with those that a signature names by its jku where --allow-jku has the
origin of it. A card with a wrong signature by one of these keys is refused; with
--policy require so is one without a good signature.`,
		Example: `  handoff card get https://agents.example.com/agents/quote/ --validate
  handoff card get https://agents.example.com/agents/quote/ --extended --jwks partner.json --policy require`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirstAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			named := ""
			if len(args) == 1 {
				named = args[0]
				if byFlag(cmd.Flags().Lookup("agent-card")) {
					return usagef("the agent is named twice, as %q and by -a", named)
				}
			}
			s, end, err := a.prepareSession(cmd.Context(), &flags, named)
			if err != nil {
				return err
			}
			defer end()
			verified, err := v.watch(s)
			if err != nil {
				return err
			}
			if err := s.findCard(extended); err != nil {
				return err
			}
			if validate {
				if err := s.validate(); err != nil {
					return err
				}
			}
			if s.output != formatText {
				return s.writeObject(s.card, stream)
			}
			view := s.newView()
			view.card(s.card, s.flags.transports)
			view.field("Signature", verified.signature())
			return view.err
		},
	}
	flags.register(a, cmd)
	cmd.Flags().BoolVar(&validate, "validate", false, "check the card against the specification; exit with 1 when it breaks it")
	cmd.Flags().BoolVar(&extended, "extended", false, "get the card that the agent shows to authenticated clients")
	v.register(cmd, card.PolicyPrefer)
	addStreamFlag(cmd, &stream)
	return cmd
}

// findCard gets the card. Only an extended one needs an interface that is
// spoken here.
func (s *session) findCard(extended bool) error {
	var err error
	if !extended && s.target.card != nil {
		if s.card, err = s.ownCard(); err != nil {
			return s.discoveryFailure(err)
		}
		return nil
	}
	if !extended {
		if s.card, err = client.Discover(s.ctx, s.target.ref, s.opts); err != nil {
			return s.discoveryFailure(err)
		}
		return nil
	}
	if err = s.connect(); err != nil {
		return err
	}
	extendedCard, err := s.client.GetExtendedAgentCard(s.ctx)
	if err != nil {
		return s.failure(err) // the public card says what the agent accepts
	}
	s.card = extendedCard
	return nil
}

// ownCard reads and verifies the card of a peer that is in a file or written out.
func (s *session) ownCard() (*a2a.AgentCard, error) {
	data := s.target.card
	if s.opts.VerifyCard != nil {
		var err error
		if data, err = s.opts.VerifyCard(s.ctx, data); err != nil {
			return nil, &client.CardError{Ref: s.target.ref, Err: err}
		}
	}
	return client.ParseCard(data, s.target.ref)
}

// validate tells what is wrong with the card, and fails when it breaks the
// specification.
func (s *session) validate() error {
	broken := 0
	for _, finding := range card.Lint(s.card) {
		s.note("%s", finding)
		if finding.Level == card.LevelError {
			broken++
		}
	}
	if broken > 0 {
		return failf(codeCardInvalid, "the card breaks the specification (errors: %d)", broken).
			hint("Each is named on standard error, with its paragraph")
	}
	return nil
}

// card writes a card.
func (v *view) card(c *a2a.AgentCard, preferred []string) {
	v.field("Name", c.Name)
	v.field("Description", c.Description)
	v.field("Version", c.Version)
	if c.Provider != nil {
		v.field("Provider", strings.TrimSpace(c.Provider.Organization+" "+c.Provider.URL))
	}
	if c.DocumentationURL != nil {
		v.field("Documentation", *c.DocumentationURL)
	}
	v.field("Streaming", yesNo(c.Capabilities.Streaming))
	v.field("Push Notifications", yesNo(c.Capabilities.PushNotifications))
	v.field("Extended Card", yesNo(c.Capabilities.ExtendedAgentCard))
	for _, e := range c.Capabilities.Extensions {
		v.field("Extension", e.URI+requiredText(e.Required))
	}
	for _, i := range c.SupportedInterfaces {
		text := i.ProtocolBinding + " " + i.ProtocolVersion + " " + i.URL
		if i.Tenant != "" {
			text += " tenant " + i.Tenant
		}
		v.field("Interface", text)
	}
	v.field("Selected Interface", selected(c, preferred))
	v.security(c)
	v.field("Input Modes", strings.Join(c.DefaultInputModes, ", "))
	v.field("Output Modes", strings.Join(c.DefaultOutputModes, ", "))
	for i := range c.Skills {
		v.skill(&c.Skills[i])
	}
}

func (v *view) security(c *a2a.AgentCard) {
	for _, name := range slices.Sorted(maps.Keys(c.SecuritySchemes)) {
		v.field("Security Scheme", name+": "+schemeText(c.SecuritySchemes[name]))
	}
	for _, r := range c.SecurityRequirements {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(r.Schemes)) {
			text := name
			if scopes := r.Schemes[name]; len(scopes) > 0 {
				text += " (" + strings.Join(scopes, " ") + ")"
			}
			all = append(all, text)
		}
		v.field("Security Requirement", cmp.Or(strings.Join(all, " and "), "none"))
	}
}

func (v *view) skill(s *a2a.AgentSkill) {
	v.field("Skill ID", s.ID)
	v.field("Skill Name", s.Name)
	v.field("Skill Description", s.Description)
	v.field("Skill Tags", strings.Join(s.Tags, ", "))
	v.field("Skill Input Modes", strings.Join(s.InputModes, ", "))
	v.field("Skill Output Modes", strings.Join(s.OutputModes, ", "))
	for _, example := range s.Examples {
		v.field("Skill Example", example)
	}
}

// selected returns the interface that other commands would use.
func selected(c *a2a.AgentCard, preferred []string) string {
	opts := client.Options{}
	for _, name := range preferred {
		if binding, err := bindingOf(name); err == nil {
			opts.Transports = append(opts.Transports, binding)
		}
	}
	one, err := client.New(c, opts)
	if err != nil {
		return "none that is spoken here"
	}
	i := one.Interface()
	return i.ProtocolBinding + " " + i.ProtocolVersion + " " + i.URL
}

func yesNo(b *bool) string {
	if b != nil && *b {
		return "yes"
	}
	return "no"
}

func requiredText(required bool) string {
	if required {
		return " (required)"
	}
	return ""
}
