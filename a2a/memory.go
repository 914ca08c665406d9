package a2a

// Memory makes it cheaper to decode the events of a stream, one after the other:
// the ids that they repeat share their memory. The zero value is ready to use. It
// is not for use by several goroutines.
type Memory struct {
	// Reuse writes an event over the one that is decoded into: what that points
	// to, the parts of its artifact included, is used again.
	Reuse bool

	recent texts
}

// maxRemembered bounds each text that is kept, in bytes.
const maxRemembered = 256

// Unmarshal is the function Unmarshal with this memory, or without for nil.
func (m *Memory) Unmarshal(data []byte, v Decodable) error {
	if m == nil {
		return Unmarshal(data, v)
	}
	if err := checkDepth(data); err != nil {
		return err
	}
	d := decoders.Get().(*decoder)
	defer d.release()
	d.reset(data)
	d.recent, d.reuse = m.recent, m.Reuse
	if err := d.decode(data, v); err != nil {
		return err
	}
	m.recent = d.recent
	for i, text := range m.recent {
		if len(text) > maxRemembered {
			m.recent[i] = ""
		}
	}
	return nil
}
