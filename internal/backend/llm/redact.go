package llm

import "strings"

// redacted stands for a credential that an API has echoed.
const redacted = "***"

// leastSecret is how long a credential has to be to be looked for in answers: a
// shorter one is a word that may be meant.
const leastSecret = 8

// redactor takes the credentials of the model's API out of a text that comes in
// pieces. What may be the beginning of one is held back until it is known.
type redactor struct {
	secrets []string
	held    string
}

// add returns what may be told of a text so far.
func (r *redactor) add(piece string) string {
	text := r.whole(r.held + piece)
	keep := 0
	for _, secret := range r.secrets {
		if len(secret) < leastSecret {
			continue
		}
		for n := min(len(secret)-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				keep = n
				break
			}
		}
	}
	r.held = text[len(text)-keep:]
	return text[:len(text)-keep]
}

// rest returns what was held back, at the end of the text.
func (r *redactor) rest() string {
	text := r.held
	r.held = ""
	return text
}

// whole is add for a text that is there at once.
func (r *redactor) whole(text string) string {
	for _, secret := range r.secrets {
		if len(secret) >= leastSecret {
			text = strings.ReplaceAll(text, secret, redacted)
		}
	}
	return text
}

// redact takes credentials out of what an answer has besides its text.
func (r *redactor) redact(a *answer) {
	a.refusal = r.whole(a.refusal)
	a.finish = r.whole(a.finish)
	for i := range a.calls {
		c := &a.calls[i]
		c.ID, c.Name, c.Arguments = r.whole(c.ID), r.whole(c.Name), r.whole(c.Arguments)
	}
}
