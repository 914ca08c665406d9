package backend

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
)

// compileScript turns the rules of a configuration into an agent. Regular
// expressions, templates and the steps without templates are made here.
func compileScript(c *checker, path string, rules []config.Rule) *script {
	s := &script{rules: make([]rule, len(rules))}
	if len(rules) == 0 {
		c.fail(path, "has no rules")
	}
	for i := range rules {
		at := fmt.Sprintf("%s[%d]", path, i)
		s.rules[i] = compileRule(c, at, &rules[i])
		if i > 0 && rules[i-1].When == (config.When{}) {
			c.fail(at, "is never reached, since the rule before it matches every turn")
		}
	}
	return s
}

func compileRule(c *checker, path string, r *config.Rule) rule {
	when := path + ".when."
	out := rule{
		text:      compileRegexp(c, when+"text", r.When.Text),
		messageID: compileRegexp(c, when+"message_id", r.When.MessageID),
		skill:     r.When.Skill,
		turn:      r.When.Turn,
		grant:     r.When.Grant,
		outcome:   r.When.Outcome,
	}
	switch r.When.Part {
	case "":
	case "text":
		out.part = a2a.PartText
	case "raw":
		out.part = a2a.PartRaw
	case "url":
		out.part = a2a.PartURL
	case "data":
		out.part = a2a.PartData
	default:
		c.fail(when+"part", "is not one of text, raw, url and data")
	}
	if out.turn < 0 {
		c.fail(when+"turn", "is not a number from 1")
	}
	if g := out.grant; g != "" && g != agent.DecisionApprove && g != agent.DecisionDeny {
		c.fail(when+"grant", "is neither approve nor deny")
	}
	switch out.outcome {
	case "", anyOutcome, "completed", "failed", "canceled", "rejected":
	default:
		c.fail(when+"outcome", "is not one of over, completed, failed, canceled and rejected")
	}
	b := block{checker: c}
	out.do = b.compile(path+".do", r.Do)
	return out
}

func compileRegexp(c *checker, path, pattern string) *regexp.Regexp {
	if pattern == "" {
		return nil
	}
	r, err := regexp.Compile(pattern)
	c.failed(path, err)
	return r
}

// block compiles a list of steps and knows what came before.
type block struct {
	*checker
	steps  int    // that make something visible
	ender  string // the step that ended the turn
	repeat bool
}

func (b *block) compile(path string, steps []config.ScriptStep) []action {
	actions := make([]action, 0, len(steps))
	for i := range steps {
		at := fmt.Sprintf("%s[%d]", path, i)
		if b.ender != "" {
			b.fail(at, "is never reached, since %s ends the turn", b.ender)
			break
		}
		if a := b.action(at, &steps[i]); a != nil {
			actions = append(actions, a)
		}
	}
	return actions
}

// action compiles one step. It returns nil after a problem.
func (b *block) action(path string, s *config.ScriptStep) action {
	key := b.key(path, s)
	switch key {
	case "":
		return nil
	case "sleep":
		return &sleep{b.duration(path+".sleep", s.Sleep)}
	case "deaf":
		return &deaf{b.duration(path+".deaf", s.Deaf)}
	case "repeat":
		return b.repeated(path+".repeat", s.Repeat)
	}
	switch key {
	case "ask", "authorize", "delegate", "wait", "message", "complete", "fail", "reject":
		if b.repeat {
			b.fail(path+"."+key, "ends the turn, and so cannot be repeated")
		}
		b.ender = key
	}
	if key == "message" && b.steps > 0 {
		b.fail(path+".message", "has to be the first and only step")
	}
	b.steps++
	before := len(b.problems)
	t := b.template(path, key, s)
	if len(b.problems) > before {
		return nil
	}
	if !t.constant {
		return &emitTemplate{t.build}
	}
	step, err := t.build(&scope{})
	if err == nil {
		err = step.Validate()
	}
	if b.failed(path, err) {
		return nil
	}
	return &emit{step}
}

// key returns the one key that says what a step does.
func (b *block) key(path string, s *config.ScriptStep) string {
	var found []string
	for _, k := range []struct {
		name string
		is   bool
	}{
		{"working", s.Working != nil},
		{"artifact", s.Artifact != nil},
		{"ask", s.Ask != nil},
		{"authorize", s.Authorize != nil},
		{"delegate", s.Delegate != nil},
		{"wait", s.Wait != nil},
		{"state", s.State != nil},
		{"message", s.Message != nil},
		{"complete", s.Complete != nil},
		{"fail", s.Fail != nil},
		{"reject", s.Reject != nil},
		{"sleep", s.Sleep != ""},
		{"repeat", s.Repeat != nil},
		{"deaf", s.Deaf != ""},
	} {
		if k.is {
			found = append(found, k.name)
		}
	}
	switch len(found) {
	case 0:
		b.fail(path, "does nothing; a step without a message is written with {}, such as complete: {}")
		return ""
	case 1:
	default:
		b.fail(path, "does several things, %s; write a step for each", strings.Join(found, " and "))
		return ""
	}
	key := found[0]
	for _, sibling := range []struct {
		name, of string
		is       bool
	}{
		{"schema", "ask", s.Schema != nil},
		{"operation", "authorize", s.Operation != ""},
		{"url", "authorize", s.URL != ""},
		{"expires", "authorize", s.Expires != ""},
	} {
		if sibling.is && key != sibling.of {
			b.fail(path+"."+sibling.name, "belongs to %s, not to %s", sibling.of, key)
		}
	}
	return key
}

func (b *block) repeated(path string, r *config.ScriptRepeat) action {
	out := &repeat{times: b.scalar(path+".times", r.Times)}
	if out.times.isConstant() {
		_, err := parseTimes(r.Times)
		b.failed(path+".times", err)
	}
	if r.Every == "" {
		out.every = scalar{constant: "0s"}
	} else {
		out.every = b.duration(path+".every", r.Every)
	}
	if len(r.Do) == 0 {
		b.fail(path+".do", "has no steps")
	}
	inner := block{checker: b.checker, steps: b.steps, repeat: true}
	out.do = inner.compile(path+".do", r.Do)
	b.steps = inner.steps
	return out
}

func (b *block) scalar(path, text string) scalar {
	s, err := compileScalar(text)
	b.failed(path, err)
	return s
}

func (b *block) value(path string, free a2a.JSON) value {
	v, err := compileValue(free)
	b.failed(path, err)
	return v
}

func (b *block) duration(path, text string) scalar {
	s := b.scalar(path, text)
	if s.isConstant() {
		_, err := parseDuration(s.constant)
		b.failed(path, err)
	}
	return s
}

// parseDuration reads a duration of a script, as the configuration writes them.
func parseDuration(text string) (time.Duration, error) {
	var d config.Duration
	if err := d.UnmarshalText([]byte(strings.TrimSpace(text))); err != nil {
		return 0, agent.Errorf("%q %w", shorten(text, 40), err)
	}
	if std := d.Std(); std >= 0 && std <= agent.MaxWait {
		return std, nil
	}
	return 0, agent.Errorf("%q is not between 0 and %s", shorten(text, 40), agent.MaxWait)
}

// stepTemplate makes a step for a turn. A constant one is the same for all.
type stepTemplate struct {
	constant bool
	build    func(*scope) (agent.Step, error)
}

func (b *block) template(path, key string, s *config.ScriptStep) stepTemplate {
	switch key {
	case "artifact":
		return b.artifact(path+".artifact", s.Artifact)
	case "ask":
		return b.ask(path, s)
	case "authorize":
		return b.authorize(path, s)
	case "delegate":
		return b.delegate(path+".delegate", s.Delegate)
	case "wait":
		return b.wait(path+".wait", s.Wait)
	case "state":
		v := b.value(path+".state", s.State)
		return stepTemplate{v.isConstant(), func(sc *scope) (step agent.Step, err error) {
			step.State, err = v.expand(sc)
			return step, err
		}}
	}
	said := map[string]*config.ScriptContent{
		"working": s.Working, "message": s.Message, "complete": s.Complete, "fail": s.Fail, "reject": s.Reject,
	}
	c := b.content(path+"."+key, said[key])
	return stepTemplate{c.isConstant(), func(sc *scope) (step agent.Step, err error) {
		content, err := c.expand(sc)
		if err != nil {
			return step, err
		}
		switch key {
		case "working":
			step.Working = content
		case "message":
			step.Message = content
		case "complete":
			step.Complete = content
		case "fail":
			step.Fail = content
		case "reject":
			step.Reject = content
		}
		return step, nil
	}}
}

// content is what a step says.
type content struct {
	text     scalar // one text part, when there are no parts
	parts    []part
	metadata value
}

func (b *block) content(path string, s *config.ScriptContent) *content {
	if s.Text != "" && s.Parts != nil {
		b.fail(path, "has both text and parts")
	}
	parts := path + ".parts"
	if s.List {
		parts = path
	}
	return &content{
		text:     b.scalar(path, s.Text),
		parts:    b.parts(parts, s.Parts),
		metadata: b.value(path+".metadata", s.Metadata),
	}
}

func (c *content) isConstant() bool {
	return c.text.isConstant() && constantParts(c.parts) && c.metadata.isConstant()
}

func (c *content) expand(sc *scope) (*agent.Content, error) {
	out := new(agent.Content)
	var err error
	if out.Metadata, err = c.metadata.expand(sc); err != nil {
		return nil, err
	}
	if len(c.parts) > 0 {
		out.Parts, err = expandParts(c.parts, sc)
		return out, err
	}
	text, err := c.text.expand(sc)
	if text != "" {
		out.Parts = []a2a.Part{a2a.Text(text)}
	}
	return out, err
}

func constantParts(parts []part) bool {
	for i := range parts {
		if !parts[i].isConstant() {
			return false
		}
	}
	return true
}

func (b *block) parts(path string, list config.ScriptParts) []part {
	parts := make([]part, len(list))
	for i := range list {
		parts[i] = b.part(fmt.Sprintf("%s[%d]", path, i), &list[i])
	}
	return parts
}

func (b *block) part(path string, p *config.ScriptPart) part {
	if p.Rest || p.Outcome {
		return part{rest: p.Rest, outcome: p.Outcome}
	}
	out := part{
		mediaType: b.scalar(path+".mediaType", p.MediaType),
		filename:  b.scalar(path+".filename", p.Filename),
		metadata:  b.value(path+".metadata", p.Metadata),
	}
	contents := 0
	for _, c := range []struct {
		kind a2a.PartKind
		text *string
	}{{a2a.PartText, p.Text}, {a2a.PartRaw, p.Raw}, {a2a.PartURL, p.URL}} {
		if c.text != nil {
			contents++
			out.kind = c.kind
			out.content = b.scalar(path+"."+c.kind.String(), *c.text)
		}
	}
	if p.Data != nil {
		contents++
		out.kind = a2a.PartData
		out.data = b.value(path+".data", p.Data)
	}
	if contents != 1 {
		b.fail(path, "needs exactly one of text, raw, url and data")
	}
	return out
}

func (b *block) artifact(path string, a *config.ScriptArtifact) stepTemplate {
	id := b.scalar(path+".id", a.ID)
	name := b.scalar(path+".name", a.Name)
	description := b.scalar(path+".description", a.Description)
	metadata := b.value(path+".metadata", a.Metadata)
	parts := b.parts(path+".parts", a.Parts)
	appends, last := a.Append, a.Last
	constant := constantParts(parts) && id.isConstant() && name.isConstant() && description.isConstant() && metadata.isConstant()
	return stepTemplate{constant, func(sc *scope) (step agent.Step, err error) {
		out := &agent.Artifact{Append: appends, Last: last}
		if out.Parts, err = expandParts(parts, sc); err != nil {
			return step, err
		}
		if len(out.Parts) == 0 && slices.ContainsFunc(parts, func(p part) bool { return p.outcome }) {
			return step, errLeftOut
		}
		if out.ID, err = id.expand(sc); err != nil {
			return step, err
		}
		if out.Name, err = name.expand(sc); err != nil {
			return step, err
		}
		if out.Description, err = description.expand(sc); err != nil {
			return step, err
		}
		out.Metadata, err = metadata.expand(sc)
		return agent.Step{Artifact: out}, err
	}}
}

func (b *block) ask(path string, s *config.ScriptStep) stepTemplate {
	said := b.content(path+".ask", s.Ask)
	schema := b.value(path+".schema", s.Schema)
	return stepTemplate{said.isConstant() && schema.isConstant(), func(sc *scope) (step agent.Step, err error) {
		c, err := said.expand(sc)
		if err != nil {
			return step, err
		}
		out := &agent.Ask{Content: *c}
		out.Schema, err = schema.expand(sc)
		return agent.Step{Ask: out}, err
	}}
}

func (b *block) authorize(path string, s *config.ScriptStep) stepTemplate {
	said := b.content(path+".authorize", s.Authorize)
	operation := b.scalar(path+".operation", s.Operation)
	url := b.scalar(path+".url", s.URL)
	expires := b.scalar(path+".expires", s.Expires)
	if s.Expires != "" && expires.isConstant() {
		_, err := agent.ParseExpires(expires.constant, time.Now())
		b.failed(path+".expires", err)
	}
	// A duration counts from the turn, so that such a step is no constant.
	constant := said.isConstant() && operation.isConstant() && url.isConstant() && s.Expires == ""
	return stepTemplate{constant, func(sc *scope) (step agent.Step, err error) {
		c, err := said.expand(sc)
		if err != nil {
			return step, err
		}
		out := &agent.Authorize{Content: *c}
		if out.Operation, err = operation.expand(sc); err != nil {
			return step, err
		}
		if out.URL, err = url.expand(sc); err != nil {
			return step, err
		}
		until, err := expires.expand(sc)
		if err != nil || until == "" {
			return agent.Step{Authorize: out}, err
		}
		out.Expires, err = agent.ParseExpires(until, time.Now())
		return agent.Step{Authorize: out}, err
	}}
}

func (b *block) delegate(path string, d *config.ScriptDelegate) stepTemplate {
	to := b.scalar(path+".to", d.To)
	if d.Message == nil {
		b.fail(path+".message", "is missing")
		d = new(*d)
		d.Message = &config.ScriptContent{}
	}
	said := b.content(path+".message", d.Message)
	ref, skill := b.scalar(path+".ref", d.Ref), b.scalar(path+".skill", d.Skill)
	within := scalar{constant: "0s"}
	if d.Deadline != "" {
		within = b.duration(path+".deadline", d.Deadline)
	}
	again := d.Again
	constant := to.isConstant() && said.isConstant() && ref.isConstant() && skill.isConstant() && within.isConstant()
	return stepTemplate{constant, func(sc *scope) (step agent.Step, err error) {
		c, err := said.expand(sc)
		if err != nil {
			return step, err
		}
		out := &agent.Delegate{Content: *c, Again: again}
		if out.To, err = to.expand(sc); err != nil {
			return step, err
		}
		if out.Ref, err = ref.expand(sc); err != nil {
			return step, err
		}
		if out.Skill, err = skill.expand(sc); err != nil {
			return step, err
		}
		out.Within, err = expandDuration(&within, sc)
		return agent.Step{Delegate: out}, err
	}}
}

func (b *block) wait(path string, w *config.ScriptWait) stepTemplate {
	d := b.duration(path+".for", w.For)
	return stepTemplate{d.isConstant(), func(sc *scope) (agent.Step, error) {
		duration, err := expandDuration(&d, sc)
		return agent.Step{Wait: &agent.Wait{For: duration}}, err
	}}
}
