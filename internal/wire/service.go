package wire

import (
	"context"
	"net/http"
	"slices"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/push"
)

// operation is one of the operations of the protocol (A2A §5.3).
type operation uint8

const (
	opNone operation = iota
	opSendMessage
	opSendStreamingMessage
	opGetTask
	opListTasks
	opCancelTask
	opSubscribeToTask
	opCreatePushConfig
	opGetPushConfig
	opListPushConfigs
	opDeletePushConfig
	opGetExtendedCard
)

var operationNames = [...]string{
	opNone:                 "",
	opSendMessage:          "SendMessage",
	opSendStreamingMessage: "SendStreamingMessage",
	opGetTask:              "GetTask",
	opListTasks:            "ListTasks",
	opCancelTask:           "CancelTask",
	opSubscribeToTask:      "SubscribeToTask",
	opCreatePushConfig:     "CreateTaskPushNotificationConfig",
	opGetPushConfig:        "GetTaskPushNotificationConfig",
	opListPushConfigs:      "ListTaskPushNotificationConfigs",
	opDeletePushConfig:     "DeleteTaskPushNotificationConfig",
	opGetExtendedCard:      "GetExtendedAgentCard",
}

// String returns the name of the operation, which is its JSON-RPC method.
func (o operation) String() string { return operationNames[o] }

// operationOf returns the operation of a JSON-RPC method, opNone for others.
func operationOf(method []byte) operation {
	for o := opSendMessage; o <= opGetExtendedCard; o++ {
		if string(method) == operationNames[o] {
			return o
		}
	}
	return opNone
}

// streams reports whether the operation answers with a stream.
func (o operation) streams() bool { return o == opSendStreamingMessage || o == opSubscribeToTask }

// reads reports whether the operation changes nothing.
func (o operation) reads() bool {
	switch o {
	case opGetTask, opListTasks, opSubscribeToTask, opGetExtendedCard:
		return true
	}
	return false
}

// changes reports whether the operation changes something.
func (o operation) changes() bool {
	switch o {
	case opSendMessage, opSendStreamingMessage, opCancelTask, opCreatePushConfig, opDeletePushConfig:
		return true
	}
	return false
}

func (o operation) pushes() bool { return o >= opCreatePushConfig && o <= opDeletePushConfig }

// call is a request for an operation, of whatever binding.
type call struct {
	op          operation
	agent       *Agent
	caller      auth.Principal
	request     *http.Request
	tenant      string // that the address names
	version     string // as the client sent it
	old         bool   // in the form of version 0.3
	extensions  []string
	lastEventID string

	active  []string // extensions, known once the call is admitted
	task    string   // for the log
	context string
	content []byte // for the audit log; nil: none
}

// service carries out calls. What every binding has to check is checked here,
// once.
type service struct {
	engine     *engine.Engine
	webhooks   *push.Service   // nil: none
	challenger auth.Challenger // nil: none
	audit      *audit.Log      // nil: none
}

// admit checks what does not depend on the operation's parameters: version,
// extensions, tenant, rights and capabilities (A2A §3.3.4, §3.6).
func (s *service) admit(c *call) (err error) {
	if err := c.agent.speaks(c.version); err != nil {
		return err
	}
	if !c.old && c.agent.speaksOld(c.version) {
		return errOldTransport
	}
	if len(c.agent.Extensions) > 0 {
		if c.active, err = c.agent.activate(c.extensions); err != nil {
			return err
		}
	}
	if err := c.route(""); err != nil {
		return err
	}
	if c.caller.Role == auth.RoleNone || c.caller.Role < auth.RoleCaller && !c.op.reads() {
		return a2a.Errorf(a2a.CodePermissionDenied, "The role %s may not call %s", c.caller.Role, c.op)
	}
	if err := s.permit(c); err != nil {
		return err
	}
	switch {
	case c.op.streams() && !c.agent.Streaming:
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "This agent does not stream; use SendMessage and GetTask")
	case c.op.pushes() && !s.pushes(c):
		return errNoPush
	case c.op == opGetExtendedCard && !c.agent.ExtendedCard:
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "This agent has no extended card")
	case c.op == opGetExtendedCard && c.agent.Extended == nil:
		return errNoExtended
	case c.agent.Retired && (c.op == opSendMessage || c.op == opSendStreamingMessage):
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "This agent has been retired and takes no more messages; its tasks can be read and canceled")
	}
	return nil
}

// permit checks what the agent asks of its callers.
func (s *service) permit(c *call) error {
	needs := c.agent.Requires
	if c.op.reads() {
		needs.Role = auth.RoleNone
	}
	return needs.Check(c.request, &c.caller, "this agent", s.challenger)
}

// permitSkill checks what a skill asks of callers besides.
func (s *service) permitSkill(c *call, skill *a2a.AgentSkill) error {
	if skill == nil {
		return nil
	}
	what := "the skill " + skill.ID
	if slices.Contains(c.agent.Spec.ExtendedSkills, skill.ID) {
		if err := s.authenticated(c, what); err != nil {
			return err
		}
	}
	needs := auth.Requirement{Scopes: c.agent.Spec.SkillScopes[skill.ID]}
	return needs.Check(c.request, &c.caller, what, s.challenger)
}

// authenticated refuses a caller without a credential.
func (s *service) authenticated(c *call, what string) error {
	if c.caller.Named() {
		return nil
	}
	refusal := &auth.Refusal{Err: a2a.Errorf(a2a.CodeUnauthenticated, "Authentication is required for %s", what)}
	if s.challenger != nil {
		refusal.Challenges = s.challenger.Challenge(c.request)
	}
	return refusal
}

var errNoPush = a2a.Errorf(a2a.CodePushNotificationNotSupported, "This agent does not send push notifications; stream or poll instead")

// errUnknownAgent is the answer to a tenant that is not the caller's or that the
// agent does not serve. The two are one.
var errUnknownAgent = a2a.Errorf(a2a.CodeTaskNotFound, "There is no such agent")

// route checks the tenant that a request names, in its address or in its
// parameters. It leads to an agent, and never says who is asking.
func (c *call) route(named string) error {
	switch {
	case named == "":
		named = c.tenant
	case c.tenant != "" && c.tenant != named:
		return a2a.Invalid("tenant", "is not the tenant of the address")
	}
	switch {
	case named != "" && !slices.Contains(c.agent.Tenants, named):
		return errUnknownAgent
	case named != "" && !c.caller.Anonymous() && named != c.caller.Tenant:
		return errUnknownAgent
	case c.caller.Tenant != "" && len(c.agent.Tenants) > 0 && !slices.Contains(c.agent.Tenants, c.caller.Tenant):
		return errUnknownAgent
	}
	return nil
}

// accept checks a message and returns it as the engine takes it.
func (s *service) accept(c *call, q *a2a.SendMessageRequest) (*engine.Request, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := c.route(q.Tenant); err != nil {
		return nil, err
	}
	c.task, c.context = q.Message.TaskID, q.Message.ContextID
	if s.audit.Content() {
		c.content = q.Message.AppendJSON(nil)
	}
	r := &engine.Request{
		Spec:          c.agent.Spec,
		Scope:         auth.Scope(&c.caller),
		Authenticated: !c.caller.Anonymous(),
		Message:       q.Message,
		Metadata:      q.Metadata,
		Extensions:    c.active,
		Caller: agent.Caller{
			Tenant: c.caller.Tenant, Subject: c.caller.Subject, Issuer: c.caller.Issuer, Scopes: c.caller.Scopes,
		},
	}
	if q.Configuration != nil {
		r.Config = *q.Configuration
		if err := s.hang(c, r); err != nil {
			return nil, err
		}
	}
	skill, err := c.agent.checkSkill(q.Message)
	if err != nil {
		return nil, err
	}
	if err := s.permitSkill(c, skill); err != nil {
		return nil, err
	}
	return r, c.agent.checkModes(q.Message, skill)
}

func (s *service) send(ctx context.Context, c *call, q *a2a.SendMessageRequest) (*a2a.SendMessageResponse, error) {
	r, err := s.accept(c, q)
	if err != nil {
		return nil, err
	}
	response, err := s.engine.Send(ctx, r)
	if err != nil {
		return nil, err
	}
	if response.Task != nil {
		c.task, c.context = response.Task.ID, response.Task.ContextID
	} else {
		c.context = response.Message.ContextID
	}
	return response, nil
}

func (s *service) stream(ctx context.Context, c *call, q *a2a.SendMessageRequest) (*engine.Stream, error) {
	r, err := s.accept(c, q)
	if err != nil {
		return nil, err
	}
	return s.engine.Stream(ctx, r)
}

func (s *service) get(ctx context.Context, c *call, q *a2a.GetTaskRequest) (*a2a.Task, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := c.route(q.Tenant); err != nil {
		return nil, err
	}
	c.task = q.ID
	return s.engine.Get(ctx, auth.Scope(&c.caller), c.agent.Spec, q.ID, q.HistoryLength)
}

func (s *service) list(ctx context.Context, c *call, q *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := c.route(q.Tenant); err != nil {
		return nil, err
	}
	c.context = q.ContextID
	if c.caller.Anonymous() && !c.caller.Local && q.ContextID == "" {
		// All anonymous callers are one owner; a context is what they cannot guess
		// of each other.
		return nil, a2a.Invalid("contextId", "is required of callers without credentials")
	}
	return s.engine.List(ctx, auth.Scope(&c.caller), c.agent.Spec, q)
}

func (s *service) cancel(ctx context.Context, c *call, q *a2a.CancelTaskRequest) (*a2a.Task, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := c.route(q.Tenant); err != nil {
		return nil, err
	}
	c.task = q.ID
	return s.engine.Cancel(ctx, auth.Scope(&c.caller), c.agent.Spec, q.ID, engine.ByCaller)
}

func (s *service) subscribe(ctx context.Context, c *call, q *a2a.SubscribeToTaskRequest) (*engine.Stream, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := c.route(q.Tenant); err != nil {
		return nil, err
	}
	c.task = q.ID
	after := ""
	if c.agent.LastEventID {
		after = c.lastEventID
	}
	return s.engine.Subscribe(ctx, auth.Scope(&c.caller), c.agent.Spec, q.ID, after)
}
