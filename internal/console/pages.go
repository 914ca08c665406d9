package console

import "slices"

// pages returns all pages. Each file page_….go has its own.
func pages() []page {
	return slices.Concat(
		nowPages,

		inboxPages,

		tasksPages, taskPages,

		delegationsPages,

		agentsPages,
		peersPages,

		toolsPages,

		webhooksPages,

		auditPages,

		settingsPages,
	)
}
