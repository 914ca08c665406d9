package console

import "handoff.example/handoff/internal/auth"

var settingsPages = []page{{path: "/settings", nav: "settings", title: "Settings", role: auth.RoleViewer, get: showSettings}}

func showSettings(v *view) error { return v.render("settings", nil) }
