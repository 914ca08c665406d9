package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mcp"
)

// Outcome is what comes of the arguments of a call that is let through.
type Outcome struct {
	Key     string // the idempotency key that counts; "": none
	Approve string // why a person has to approve the call; "": nobody has to
	// Amount is what the call takes of the sum of the budget, in sumUnits of one.
	Amount int64
}

// InputError says that arguments do not fit the schema of the tool. It is told as
// the result of the call, so that a model mends them (TOL-03).
type InputError struct{ Reason string }

// Error returns the reason.
func (e *InputError) Error() string { return "The arguments do not fit: " + e.Reason }

// maxKey is how long an idempotency key may be, in bytes.
const maxKey = 255

// sumUnits are the parts of one in which sums are counted.
const sumUnits = 10_000

// Arguments looks at the arguments of a call (nil: none) and its idempotency key.
// Input is the schema of the tool; nil is that there is none to hold them against.
// It refuses with an *mcp.Error or an *InputError.
func (d *Decision) Arguments(arguments jsontext.Value, key string, input *Schema) (*Outcome, error) {
	o := &Outcome{}
	if err := d.key(o, key); err != nil {
		return nil, err
	}
	if d.approve.On() {
		o.Approve = cmp.Or(d.approve.Text(), "Each call has to be approved")
	}
	if !d.looks() && input != nil && input.flat != nil && input.flat.fits(arguments) {
		return o, nil
	}
	value, err := decode(arguments)
	if err != nil {
		return nil, &InputError{err.Error()}
	}
	members, ok := value.(map[string]any)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "The arguments are not an object")
	}
	if input != nil {
		if err := input.checkInput(members); err != nil {
			return nil, &InputError{err.Error()}
		}
	}
	for i := range d.require {
		if err := d.require[i].schema.check(value); err != nil {
			return nil, mcp.Errorf(mcp.CodeDenied, "Policy does not allow these arguments: %s", err.Error())
		}
	}
	for i := range d.approveIf {
		switch err := d.approveIf[i].schema.check(value); {
		case errors.Is(err, errTooMuch):
			return nil, mcp.Errorf(mcp.CodeDenied, "Policy does not allow these arguments: %s", err.Error())
		case err == nil && o.Approve == "":
			o.Approve = "Calls with such arguments have to be approved"
		}
	}
	if d.Budget != nil && d.Budget.Sum != nil {
		if o.Amount, err = amountOf(value, d.Budget.Sum); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// looks reports whether the decision looks at the arguments.
func (d *Decision) looks() bool {
	return len(d.require) > 0 || len(d.approveIf) > 0 || d.Budget != nil && d.Budget.Sum != nil
}

// key decides on an idempotency key.
func (d *Decision) key(o *Outcome, key string) error {
	switch {
	case d.On.Kind != Tools:
		return nil
	case key != "" && d.Idempotency == config.MCPIdempotencyOff, d.Idempotency == "" && key == "":
		return nil // it means nothing here
	case key == "" && d.Idempotency == config.MCPIdempotencyRequired:
		return mcp.Errorf(mcp.CodeKeyRequired, "The tool needs an idempotency key: send the header Idempotency-Key, or %s in _meta", mcp.MetaKey)
	case len(key) > maxKey || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return mcp.Errorf(mcp.CodeInvalidParams, "The idempotency key is longer than %d bytes, or has control characters", maxKey)
	}
	o.Key = key
	return nil
}

// amountOf returns what arguments add to a sum. It has to be there, and not below
// zero, which would give back.
func amountOf(value any, sum *config.MCPSum) (int64, error) {
	at := value
	for part := range strings.SplitSeq(strings.TrimPrefix(sum.Argument, "/"), "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		var ok bool
		switch v := at.(type) {
		case map[string]any:
			at, ok = v[part]
		case []any:
			at, ok = item(v, part)
		}
		if !ok {
			return 0, mcp.Errorf(mcp.CodeDenied, "Policy counts the argument %s, which is missing", sum.Argument)
		}
	}
	n, ok := at.(float64)
	if !ok || n < 0 || math.IsNaN(n) || n > sum.Max {
		if ok && n > sum.Max {
			return 0, mcp.Errorf(mcp.CodeBudget, "The argument %s alone is more than may be spent on a day", sum.Argument)
		}
		return 0, mcp.Errorf(mcp.CodeDenied, "Policy counts the argument %s, which is no number from 0", sum.Argument)
	}
	return units(n)
}

// units returns a number in sumUnits of one, rounded up: what is spent is never
// counted as less.
func units(n float64) (int64, error) {
	exact, accuracy := new(big.Float).Mul(big.NewFloat(n), big.NewFloat(sumUnits)).Int64()
	if exact == math.MaxInt64 {
		return 0, mcp.Errorf(mcp.CodeDenied, "The number %v is too large to be counted", n)
	}
	if accuracy == big.Below {
		exact++
	}
	return exact, nil
}

// String returns what a decision comes to, in a word.
func (d *Decision) String() string {
	switch {
	case d.Hidden:
		return "hidden"
	case d.Denied:
		return "denied"
	case d.approve.On():
		return "approve"
	case len(d.approveIf) > 0:
		return "approve if"
	}
	return "allowed"
}

// Reject returns the error of a call that is denied.
func (d *Decision) Reject() *mcp.Error {
	text := "Policy does not allow this call"
	if d.Reason != "" {
		text = fmt.Sprintf("%s: %s", text, d.Reason)
	}
	return mcp.Errorf(mcp.CodeDenied, "%s", text)
}
