package demo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/examples/procurement/erp"
	"handoff.example/handoff/examples/procurement/toolclient"
)

// story is the purchase as it is told.
type story struct {
	o       *Options
	screen  *screen
	place   *place
	record  *record
	machine machine         // what runs the system
	people  *people         // who watches
	acted   map[string]bool // items that were told, or done, already
	began   time.Time
}

// machine runs the system: this process, or another.
type machine interface {
	console(ctx context.Context) (link string, err error)
	close() error
}

// Orders are numbered from here. Each run gives two.
const (
	firstNumber = 184
	oneOrder    = "Order 400 units of BRG-0042 for SBY, "
	nextOrder   = "Order 150 units of BRG-0042 for SRG, "
)

const (
	longest = time.Minute           // from one step to the next, where nobody has to answer
	tick    = 25 * time.Millisecond // between looks at the record
)

func (s *story) play(ctx context.Context) error {
	s.began = time.Now()
	s.people, s.acted = newPeople(s.o.In), map[string]bool{}
	s.introduce()
	o, err := s.give(ctx, oneOrder)
	if err != nil {
		return err
	}
	if err := s.follow(ctx, o); err != nil {
		return err
	}
	err = s.check(ctx, o)
	switch {
	case err != nil && (s.o.Interactive || s.place.Model != nil): // it is what somebody wanted, or how a model is
		s.screen.section("The purchase came to nothing", err.Error())
	case err != nil:
		return err
	default:
		if err := s.posting(ctx, o); err != nil {
			return err
		}
	}
	s.waits(o)
	next, err := s.give(ctx, nextOrder)
	if err != nil {
		return err
	}
	if err := s.untilAsked(ctx, next); err != nil {
		return err
	}
	return s.handOver(ctx, o, next)
}

// untilAsked waits until an order asks its question. It tells nothing: all goes as with
// the first. A model may come to its end without a question.
func (s *story) untilAsked(ctx context.Context, o *order) error {
	for deadline := time.Now().Add(longest); len(o.open) == 0 || len(o.waiting) > 0; {
		over := o.state.Terminal() && len(o.waiting) == 0
		switch {
		case s.place.Model != nil && over:
			return nil
		case s.place.Model == nil && (over || time.Now().After(deadline)):
			return fmt.Errorf("%s has asked nothing: it is %s", o.number, ending(o.state))
		}
		if err := sleep(ctx, tick); err != nil {
			return err
		}
		if _, err := o.look(ctx, s.record); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) introduce() {
	s.screen.title("400 units for Surabaya: a purchase by three agents, and the people between them")
	s.screen.print("\n")
	s.screen.pair("the company", "its agent procurement, a gateway for tools, a console")
	if m := s.place.Model; m != nil {
		s.screen.pair("  its agent", "is the model %s at %s", m.Name, m.URL)
	}
	s.screen.pair("  behind the gateway", "erp-read and erp-draft, two MCP servers of the ERP system")
	s.screen.pair("  not behind it", "erp-post, which is for people: no agent can reach it")
	s.screen.pair("the supplier", "another company; its agent quotes")
	s.screen.pair("finance", "another team; its agent grants credit")
	if c, ok := s.machine.(*child); ok {
		s.screen.pair("all of them", "is process %d, which will be killed twice", c.cmd.Process.Pid)
	}
}

// give sends an order to the agent of the company, as Rina, and does not wait for what
// comes of it.
func (s *story) give(ctx context.Context, text string) (*order, error) {
	o := &order{
		number: fmt.Sprintf("PO-2026-%04d", firstNumber+s.place.Orders), by: rina,
		settled: map[string]bool{}, calls: map[string]toolCall{}, parts: map[part]bool{},
	}
	o.text, o.given = text+o.number, time.Now()
	s.place.Orders++
	if err := s.place.keep(); err != nil {
		return nil, err
	}
	_, logged, err := s.record.toolCalls(ctx, 0)
	if err != nil {
		return nil, err
	}
	o.logged = logged
	c, err := client.Dial(ctx, s.place.url(company)+"/agents/"+agent+"/", client.Options{Credentials: client.Bearer(s.place.Key[rina]), HTTPClient: s.record.http})
	if err != nil {
		return nil, fmt.Errorf("find the agent: %w", err)
	}
	answer, err := c.SendMessage(ctx, &a2a.SendMessageRequest{
		Message: client.NewMessage(a2a.Text(o.text)), Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true},
	})
	if err != nil {
		return nil, fmt.Errorf("give the order: %w", err)
	}
	if answer.Task == nil {
		return nil, errors.New("the agent has made no task of the order")
	}
	o.task = answer.Task.ID
	return o, nil
}

// sections are what the parts of the story are called, and what they are about.
var sections = map[part][2]string{
	stock:  {"1  The stock", "a tool of the ERP system, over MCP, through the gateway"},
	quote:  {"2  The quote", "another company's agent, over A2A; it asks back"},
	credit: {"3  The credit", "finance's agent, over A2A; above a limit it wants somebody's approval"},
	draft:  {"4  The draft", "a tool that writes; its key makes it one order, however often it is called"},
}

// follow tells what becomes of an order until it is over, and lets people do what they
// have to.
func (s *story) follow(ctx context.Context, o *order) error {
	deadline := time.Now().Add(longest)
	for !o.state.Terminal() || len(o.waiting) > 0 {
		if err := s.look(ctx, o, sections); err != nil {
			return err
		}
		if err := s.heard(ctx, o); err != nil {
			return err
		}
		if len(o.open) == 0 || len(o.waiting) > 0 {
			if time.Now().After(deadline) && s.place.Model == nil {
				return fmt.Errorf("nothing has happened to %s for %s: it is %s", o.number, longest, o.state)
			}
			continue
		}
		i := o.open[0]
		if !s.acted[i.ID] && i.Kind == "question" {
			if err := s.breakInTheWait(ctx, o); err != nil {
				return err
			}
		}
		if err := s.act(ctx, &i); err != nil {
			return err
		}
		deadline = time.Now().Add(longest)
	}
	return nil
}

// look waits a moment and tells what has happened meanwhile.
func (s *story) look(ctx context.Context, o *order, sections map[part][2]string) error {
	if err := sleep(ctx, tick); err != nil {
		return err
	}
	lines, err := o.look(ctx, s.record)
	if err != nil {
		return err
	}
	for i := range lines {
		l := &lines[i]
		if title, ok := sections[l.part]; ok && !o.begun(l.part) {
			if l.part != stock {
				if err := sleep(ctx, s.o.Pace/2); err != nil {
					return err
				}
			}
			s.screen.section(title[0], title[1])
		}
		s.screen.tell(s.began, l)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// act lets a person do what waits for one.
func (s *story) act(ctx context.Context, i *item) error {
	who, path, body := rina, "/answer", any(map[string]any{"data": map[string]string{"incoterm": "delivered"}})
	if i.Kind != "question" {
		who, path, body = budi, "/decision", map[string]any{"decision": "approve", "note": "within the budget"}
	}
	before := s.acted[i.ID]
	s.acted[i.ID] = true
	switch {
	case s.o.Interactive && !before:
		return s.ask(ctx, i)
	case s.o.Interactive:
		if body = s.people.said(i); body == nil {
			return nil
		}
	case before: // what was done is on its way
		return nil
	default:
		if err := sleep(ctx, s.o.Pace); err != nil {
			return err
		}
	}
	err := s.record.call(ctx, who, "POST", "/inbox/"+url.PathEscape(i.ID)+path, body, nil)
	if err != nil && s.o.Interactive {
		s.screen.refused(err)
		return nil
	}
	return err
}

// ask says what somebody can do now.
func (s *story) ask(ctx context.Context, i *item) error {
	link, err := s.machine.console(ctx)
	if err != nil {
		return fmt.Errorf("make a link to the console: %w", err)
	}
	s.screen.print("\n")
	s.screen.pair("you are asked", "%s", i.Text)
	if s.people.terminal() {
		s.screen.pair("", "Type %s; or answer in the console, in the inbox:", i.form())
	} else {
		s.screen.pair("", "Answer in the console, in the inbox:")
	}
	s.screen.link(link)
	s.screen.print("\n")
	return nil
}

// check compares the end with what it should be: one order, one task at each of the
// others.
func (s *story) check(ctx context.Context, o *order) error {
	if o.state != a2a.StateCompleted {
		return fmt.Errorf("%s is %s, and not completed", o.number, ending(o.state))
	}
	made, err := s.inERP(ctx, o.number)
	if err != nil {
		return err
	}
	if made.Status != "draft" || made.Units != 400 || made.Total != made.Units*made.UnitPrice {
		return fmt.Errorf("the ERP system has %+v", made)
	}
	if len(o.work) != 2 || slices.ContainsFunc(o.work, func(w *work) bool { return w.over.IsZero() }) {
		return fmt.Errorf("%s has %d delegations, not two that are over", o.number, len(o.work))
	}
	return nil
}

// inERP looks into the ERP system.
func (s *story) inERP(ctx context.Context, number string) (o erp.Order, err error) {
	system, err := erp.OpenToRead(ctx, s.place.file("erp.db"))
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, system.Close()) }()
	return system.Order(ctx, number)
}

// posting shows that no agent can do what is left.
func (s *story) posting(ctx context.Context, o *order) error {
	session, err := toolclient.Server{URL: s.place.url(company) + "/mcp", Key: s.place.Key[agent]}.Connect(ctx)
	if err != nil {
		return err
	}
	list, err := session.ListTools(ctx, nil)
	if err = errors.Join(err, session.Close()); err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	var names []string
	for _, t := range list.Tools {
		if names = append(names, t.Name); strings.HasPrefix(t.Name, "post_") {
			return fmt.Errorf("the agent can call %s", t.Name)
		}
	}
	if err := sleep(ctx, s.o.Pace/2); err != nil {
		return err
	}
	s.screen.section("5  The rest is left to people", "a draft binds nobody; who posts it has looked at it")
	s.screen.pair("the ERP system", "%s is a draft", o.number)
	s.screen.pair("posted by", "a person with a key of erp-post, which no agent has")
	s.screen.pair("the agent can call", "%s", strings.Join(names, ", "))
	return nil
}

// waits tells who waited for whom.
func (s *story) waits(o *order) {
	s.screen.section("Who waited for whom", "nothing ran meanwhile: what waits is a row in a file")
	for _, w := range o.work {
		text := fmt.Sprintf("waited %7s for %-9s", span(w.over.Sub(w.asked)), w.To)
		for _, i := range w.waiting {
			text += fmt.Sprintf(" of which %7s for %s", span(i.Settled.Sub(i.Created)), i.By)
		}
		s.screen.row(agent, text)
	}
}

// handOver tells what to do next, and what comes of it, until the demo is ended.
func (s *story) handOver(ctx context.Context, o, next *order) error {
	about := "a second order asks its question, and nobody has answered yet"
	if len(next.open) == 0 {
		about = "a second order has come to its end without a question"
	}
	s.screen.section("Now you", about)
	if s.o.Exit {
		s.screen.pair("open the console", "with handoff demo --exit=false, or make demo on a terminal")
	} else if err := s.console(ctx); err != nil {
		return err
	}
	if len(next.open) > 0 {
		s.screen.pair("answer the question", "in the inbox, of %s: %s", next.number, next.open[0].Text)
	}
	s.screen.pair("find the order", "by its number: %s", o.number)
	s.screen.pair("who waited for whom", "in the delegations of its task")
	if s.o.Exit {
		return nil
	}
	if s.people.terminal() {
		s.screen.say("Enter makes another link to the console.")
	}
	s.screen.say("Ctrl-C ends the demo.")
	s.screen.print("\n")
	err := s.watch(ctx, next)
	if ctx.Err() == nil {
		return err
	}
	s.screen.print("\n")
	if s.o.Dir != "" {
		s.screen.say("The data is kept in %s. Go on with: handoff demo --keep %s", s.place.dir, s.o.Dir)
	}
	return nil
}

// console says where the console is, with a link that signs in once.
func (s *story) console(ctx context.Context) error {
	link, err := s.machine.console(ctx)
	if err != nil {
		return fmt.Errorf("make a link to the console: %w", err)
	}
	s.screen.pair("open the console", "this signs you in, once, within ten minutes:")
	s.screen.link(link)
	return nil
}

// watch tells what becomes of an order until ctx ends.
func (s *story) watch(ctx context.Context, o *order) error {
	for told := false; ; {
		if err := s.look(ctx, o, nil); err != nil {
			return err
		}
		if s.people.pressedEnter() {
			if err := s.console(ctx); err != nil {
				return err
			}
		}
		if o.state.Terminal() && len(o.waiting) == 0 && !told {
			told = true
			s.screen.say("That was all. Look around for as long as you like; Ctrl-C ends the demo.")
		}
	}
}
