package config

// SignsPushes reports whether what is sent to the webhooks of an agent is signed.
func (c *Config) SignsPushes(agent string) bool {
	a := c.Agents[agent]
	return c.Webhooks.Sign || a != nil && a.SignPushNotifications
}

func (v *validator) webhooks() {
	const hint = "name a key in signing.keys; `handoff card key new` makes one"
	c := v.config
	if c.Webhooks.Sign && c.Signing == nil {
		v.problem("webhooks.sign", hint, "needs signing")
	}
	for _, id := range c.AgentIDs() {
		if a := c.Agents[id]; a != nil && a.SignPushNotifications && c.Signing == nil {
			v.problem(join("agents", id)+".sign_push_notifications", hint, "needs signing")
		}
	}
	if keep := c.Retention.Tasks; keep > 0 && keep < c.Webhooks.Retry && c.Webhooks.Enabled {
		v.warn("retention.tasks", "", "is shorter than webhooks.retry: events that could not be delivered by then are lost with their task")
	}
}
