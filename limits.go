package handoff

import (
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
)

// requestRates are the limits of requests.
func requestRates(c *config.Limits) auth.Rates {
	rates := auth.Rates{
		All:   auth.Rate{PerSecond: float64(c.RequestsPerSecond), Burst: c.RequestBurst},
		Roles: map[auth.Role]auth.Rate{},
	}
	for name, limit := range c.Roles {
		role, _ := auth.ParseRole(name) // the configuration has checked it
		rates.Roles[role] = auth.Rate{PerSecond: float64(limit.RequestsPerSecond), Burst: limit.RequestBurst}
	}
	return rates
}

// queueShare is how many waiting turns may be of one tenant.
func queueShare(c *config.Limits) int { return max((c.Queue*c.QueueShare+99)/100, 1) }

// callerLimits are what each caller may have going on.
func (n *Node) callerLimits() engine.CallerLimits {
	c := &n.current.Load().config.Limits
	return engine.CallerLimits{Open: c.OpenTasks, Parked: c.ParkedTasks}
}

// delegationLimits bound the trees of tasks that agents make by delegating.
func (n *Node) delegationLimits() engine.DelegationLimits {
	c := &n.current.Load().config.Delegation
	return engine.DelegationLimits{Depth: c.MaxDepth, Tasks: c.MaxTasks, Time: c.MaxTime.Std()}
}

// auditSettings are what the audit log is to record.
func auditSettings(c *config.Audit) audit.Settings {
	levels := map[config.AuditLevel]audit.Level{config.AuditChanges: audit.Changes, config.AuditAll: audit.All}
	return audit.Settings{Level: levels[c.Level], Content: c.Content, Retention: c.Retention.Std()}
}
