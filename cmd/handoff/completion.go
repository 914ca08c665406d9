package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newCompletionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Write a completion script for a shell",
		Long: `Write a completion script for a shell to standard output. It completes
commands, options, task states, and the ids of the agents of ./handoff.yaml.`,
		Example: `  source <(handoff completion bash)
  handoff completion zsh > "${fpath[1]}/_handoff"
  handoff completion fish > ~/.config/fish/completions/handoff.fish
  handoff completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one shell: bash, zsh, fish or powershell")
			}
			root := cmd.Root()
			var err error
			switch args[0] {
			case "bash":
				err = root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				err = root.GenZshCompletion(a.stdout)
			case "fish":
				err = root.GenFishCompletion(a.stdout, true)
			case "powershell":
				err = root.GenPowerShellCompletionWithDesc(a.stdout)
			default:
				return usagef("there is no completion for %q", args[0]).hint("Shells are bash, zsh, fish and powershell")
			}
			if err != nil {
				return fmt.Errorf("write completion: %w", err)
			}
			return nil
		},
		Args: cobra.ArbitraryArgs,
	}
}
