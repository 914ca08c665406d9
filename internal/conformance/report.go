package conformance

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Severity says how much the specification wants something.
type Severity string

// Severities, in the words of RFC 2119.
const (
	Must   Severity = "MUST"
	Should Severity = "SHOULD"
	May    Severity = "MAY" // it is only told what the agent does
)

// Outcome is what came of a check.
type Outcome string

// Outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail" // the agent breaks a MUST
	Warn Outcome = "warn" // the agent leaves out a SHOULD
	Skip Outcome = "skip" // it could not be seen; Seen says why
)

// Report is what came of a run.
type Report struct {
	Agent      string      `json:"agent"` // as it was named
	Name       string      `json:"name,omitempty"`
	Card       string      `json:"card,omitempty"` // where the card is
	Sends      bool        `json:"sends"`          // messages were sent
	OK         bool        `json:"ok"`             // no MUST is broken
	Complete   bool        `json:"complete"`       // false: the time was over before the checks were
	Refused    bool        `json:"refused"`        // the agent refused the caller, so that something could not be seen
	Busy       bool        `json:"busy"`           // the agent had no time, so that something could not be seen
	Passed     int         `json:"passed"`
	Failed     int         `json:"failed"`
	Warned     int         `json:"warned"`
	Skipped    int         `json:"skipped"`
	Interfaces []Interface `json:"interfaces"`
	Results    []Result    `json:"results"`
}

// Interface is an interface of the card.
type Interface struct {
	Binding   string `json:"binding"`
	Version   string `json:"version"`
	URL       string `json:"url"`
	Tenant    string `json:"tenant,omitempty"`
	Exercised bool   `json:"exercised"`
	Reason    string `json:"reason,omitempty"` // why it was not
}

// Result is a check of the card, or of one interface.
type Result struct {
	ID        string   `json:"id"`
	Group     string   `json:"group"`
	Interface string   `json:"interface,omitempty"` // the binding, and its URL where there are several
	Title     string   `json:"title"`
	Paragraph string   `json:"paragraph"`
	Severity  Severity `json:"severity"`
	Outcome   Outcome  `json:"outcome"`
	Sent      string   `json:"sent,omitempty"`
	Seen      string   `json:"seen,omitempty"`
}

func (r *Report) count() {
	for _, result := range r.Results {
		switch result.Outcome {
		case Pass:
			r.Passed++
		case Fail:
			r.Failed++
		case Warn:
			r.Warned++
		case Skip:
			r.Skipped++
		}
	}
	r.OK = r.Failed == 0
}

// finding is a result that a check is writing. What it says first about the
// agent stands.
type finding struct {
	Result
	hide func(string) string
}

// exchange quotes a request and its answer.
func (f *finding) exchange(a *answer) {
	f.Sent, f.Seen = a.sent, a.describe()
	if a.failed() {
		f.Seen = "" // it is what broken tells
	}
}

// pass says that all is well. With a text it is told instead of the answer.
func (f *finding) pass(texts ...string) {
	f.settle(Pass, strings.Join(texts, " "))
}

// broken says what is wrong: a failure of a MUST, a warning of a SHOULD.
func (f *finding) broken(format string, args ...any) {
	outcome := Warn
	switch f.Severity {
	case Must:
		outcome = Fail
	case May:
		outcome = Pass
	}
	text := fmt.Sprintf(format, args...)
	if f.Seen != "" {
		text += "; the answer: " + f.Seen
	}
	f.settle(outcome, text)
}

// skip says why nothing is known.
func (f *finding) skip(format string, args ...any) {
	f.settle(Skip, fmt.Sprintf(format, args...))
}

func (f *finding) settle(outcome Outcome, text string) {
	if f.Outcome != "" {
		return
	}
	f.Outcome = outcome
	if text != "" {
		f.Seen = text
	}
}

// result returns the result, with its quotes short and without secrets.
func (f *finding) result() Result {
	f.settle(Pass, "")
	r := f.Result
	r.Sent, r.Seen = f.quote(r.Sent), f.quote(r.Seen)
	return r
}

func (f *finding) quote(text string) string {
	return shorten(f.hide(strings.ToValidUTF8(text, "\uFFFD")), 2*maxQuote)
}

// shorten cuts a text to that many characters.
func shorten(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}
