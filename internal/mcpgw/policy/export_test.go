package policy

// Metered returns how many callers a guard counts.
func (g *Guard) Metered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.meters)
}
