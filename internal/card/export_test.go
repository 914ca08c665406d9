package card

// Len returns the number of documents that are kept.
func (p *Publisher) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.documents)
}
