package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newConfigCommand(a *app) *cobra.Command {
	cmd := newGroup("config", "Show the settings of the client")
	cmd.AddCommand(newConfigShowCommand(a))
	return cmd
}

func newConfigShowCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every setting of the client and where its value comes from",
		Long: `Show every setting of the client and where its value comes from. A flag wins
over the environment variable A2ACLI_NAME, that over the .env file in or above
the working directory (or --config), that over ~/.config/a2a-cli/.env, and that
over the default. Credentials are not shown.`,
		Args: cobra.NoArgs,
	}
	// The settings are the flags of the commands that read them.
	flags := &clientFlags{}
	flags.register(a, cmd)
	flags.registerPolling(cmd)
	for _, construct := range []func(*app) *cobra.Command{newSendCommand, newTaskGetCommand, newTaskListCommand} {
		construct(a).Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := f.Annotations[settableKey]; ok && cmd.Flags().Lookup(f.Name) == nil {
				cmd.Flags().AddFlag(f)
			}
		})
	}
	alias(cmd.Flags(), map[string]string{"return-immediately": "async", "no-wait": "async", "watch": "wait"})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := flags.check(); err != nil {
			return err
		}
		return a.showSettings(cmd.Flags())
	}
	return cmd
}

// showSettings writes the settings in the order of their names.
func (a *app) showSettings(fs *pflag.FlagSet) error {
	var list []*pflag.Flag
	fs.VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[settableKey]; ok {
			list = append(list, f)
		}
	})
	slices.SortFunc(list, func(x, y *pflag.Flag) int {
		if x.Name < y.Name {
			return -1
		}
		return 1
	})
	if a.output != formatText {
		return a.writeDocument(a.output, appendSettings(nil, list), false)
	}
	p := &printer{w: a.stdout}
	for _, f := range list {
		p.field(f.Name, orNone(settingText(f))+" ("+sourceOf(f)+")")
	}
	return p.err
}

// settingText returns the value of a setting for people.
func settingText(f *pflag.Flag) string {
	if slices.Contains(secretSettings, f.Name) {
		if f.Changed {
			return redacted
		}
		return ""
	}
	text := f.Value.String()
	if text == "[]" {
		return ""
	}
	return text
}

// appendSettings appends the JSON of the settings; docs/cli-json.md has its
// form.
func appendSettings(dst []byte, list []*pflag.Flag) []byte {
	dst = append(dst, `{"settings":[`...)
	for i, f := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, `{"name":`...), quoteJSON(f.Name)...)
		dst = append(dst, `,"value":`...)
		if text := settingText(f); text == "" {
			dst = append(dst, "null"...)
		} else {
			dst = append(dst, quoteJSON(text)...)
		}
		dst = append(append(dst, `,"source":`...), quoteJSON(sourceOf(f))...)
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}
