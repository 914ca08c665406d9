package console

import "slices"

// pages returns all pages. Each file page_….go has its own.
func pages() []page {
	return slices.Concat(
		nowPages,

		// inbox

		tasksPages, taskPages,

		delegationsPages,

		// agents and peers

		// tools

		// webhooks

		// audit

		settingsPages,
	)
}
