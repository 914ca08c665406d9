package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	pb03 "github.com/a2aproject/a2a-go/a2apb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
	"handoff.example/handoff/internal/protobuf"
)

// gRPC of version 0.3. Messages go through their ProtoJSON, which is nearly what
// HTTP+JSON has in 0.3: what 1.0 says otherwise is translated in package v03. Its requests name no tenant: it is for the default agent.

// addOldOperations adds the methods of 0.3 (A2A 0.3 §3.5.6).
func addOldOperations(s *grpcServer, options connect.HandlerOption) {
	name := func(method string) string { return serviceOld + "/" + method }
	event := oldEncoding(func() proto.Message { return &pb03.StreamResponse{} })
	task := oldEncoding(func() proto.Message { return &pb03.Task{} })
	config := oldEncoding(func() proto.Message { return &pb03.TaskPushNotificationConfig{} })
	unaryAt[pb03.SendMessageRequest](s, name("SendMessage"), opSendMessage,
		oldEncoding(func() proto.Message { return &pb03.SendMessageResponse{} }), options)
	streamingAt[pb03.SendMessageRequest](s, name("SendStreamingMessage"), opSendStreamingMessage, event, options)
	unaryAt[pb03.GetTaskRequest](s, name("GetTask"), opGetTask, task, options)
	unaryAt[pb03.ListTasksRequest](s, name("ListTasks"), opListTasks,
		oldEncoding(func() proto.Message { return &pb03.ListTasksResponse{} }), options)
	unaryAt[pb03.CancelTaskRequest](s, name("CancelTask"), opCancelTask, task, options)
	streamingAt[pb03.TaskSubscriptionRequest](s, name("TaskSubscription"), opSubscribeToTask, event, options)
	unaryAt[pb03.CreateTaskPushNotificationConfigRequest](s, name("CreateTaskPushNotificationConfig"), opCreatePushConfig, config, options)
	unaryAt[pb03.GetTaskPushNotificationConfigRequest](s, name("GetTaskPushNotificationConfig"), opGetPushConfig, config, options)
	unaryAt[pb03.ListTaskPushNotificationConfigRequest](s, name("ListTaskPushNotificationConfig"), opListPushConfigs,
		oldEncoding(func() proto.Message { return &pb03.ListTaskPushNotificationConfigResponse{} }), options)
	unaryAt[pb03.DeleteTaskPushNotificationConfigRequest](s, name("DeleteTaskPushNotificationConfig"), opDeletePushConfig,
		oldEncoding(func() proto.Message { return &emptypb.Empty{} }), options)
	unaryAt[pb03.GetAgentCardRequest](s, name("GetAgentCard"), opGetExtendedCard,
		oldEncoding(func() proto.Message { return &pb03.AgentCard{} }), options)
}

// callOldGRPC carries out a call of 0.3 whose agent is known.
func (x *exchange) callOldGRPC(message proto.Message, depth int) {
	x.old, x.version = true, cmp.Or(x.version, a2a.Version03.String())
	if !x.agent.speaksOld(x.version) {
		err := x.agent.speaks(x.version)
		if !slices.Contains(x.agent.Versions, a2a.Version03) {
			err = x.agent.speaks(a2a.Version03.String())
		}
		if err == nil {
			err = a2a.Errorf(a2a.CodeVersionNotSupported, "%s is the service of version 0.3; that of 1.0 is %s", serviceOld, serviceA2A)
		}
		x.refuse(err)
		return
	}
	x.run(x.traced("A2A "+x.op.String()), &oldProtoParameters{message: message, depth: depth})
}

// oldProtoParameters are the parameters of a call of 0.3 over gRPC.
type oldProtoParameters struct {
	message proto.Message
	depth   int // of free JSON
}

func (p *oldProtoParameters) read(v a2a.Decodable) error {
	switch v := v.(type) {
	case *sendRequest:
		return p.bridge(v)
	case *webhookConfig:
		if err := p.bridge(v); err != nil {
			return err
		}
		nameConfig(v, v.TaskID)
		return nil
	case *cardRequest:
		*v = cardRequest{}
		return nil
	case *listRequest:
		return p.list(v)
	case *listWebhooksRequest:
		m, ok := p.message.(*pb03.ListTaskPushNotificationConfigRequest)
		if !ok {
			return protobuf.ErrOtherMessage
		}
		*v = listWebhooksRequest{TaskID: taskOfName(m.GetParent()), PageSize: int(m.GetPageSize()), PageToken: m.GetPageToken()}
		return nil
	}
	named, ok := p.message.(interface{ GetName() string })
	if !ok {
		return protobuf.ErrOtherMessage
	}
	name := named.GetName()
	switch v := v.(type) {
	case *getRequest:
		*v = getRequest{ID: taskOfName(name)}
		if m, ok := p.message.(*pb03.GetTaskRequest); ok && m.GetHistoryLength() != 0 { // 0 is what is not there
			v.HistoryLength = new(int(m.GetHistoryLength()))
		}
	case *cancelRequest:
		*v = cancelRequest{ID: taskOfName(name)}
	case *subscribeRequest:
		*v = subscribeRequest{ID: taskOfName(name)}
	case *getWebhookRequest:
		v.TaskID, v.ID = configOfName(name)
	case *deleteWebhookRequest:
		v.TaskID, v.ID = configOfName(name)
	default:
		return protobuf.ErrOtherMessage
	}
	return nil
}

// list reads the parameters of the list of tasks, which 0.3 has over gRPC alone.
func (p *oldProtoParameters) list(v *listRequest) error {
	m, ok := p.message.(*pb03.ListTasksRequest)
	if !ok {
		return protobuf.ErrOtherMessage
	}
	*v = listRequest{ContextID: m.GetContextId(), PageToken: m.GetPageToken(), IncludeArtifacts: m.GetIncludeArtifacts()}
	v.HistoryLength = new(int(m.GetHistoryLength())) // 0 if it is not there
	if m.GetPageSize() != 0 {
		v.PageSize = new(int(m.GetPageSize()))
	}
	if n := int32(m.GetStatus()); n < 0 || n > int32(a2a.StateAuthRequired) {
		return a2a.Invalid("status", "is not a task state")
	}
	v.Status = a2a.TaskState(m.GetStatus())
	var err error
	v.StatusTimestampAfter, err = protobuf.Time("lastUpdatedTime", m.GetLastUpdatedTime())
	return err
}

// bridge reads the message as its JSON.
func (p *oldProtoParameters) bridge(v a2a.Decodable) error {
	text, err := protobuf.JSON(p.message)
	if err != nil {
		e := a2a.Invalid("", "has a number that JSON does not have, or a value of no kind")
		e.Err = err
		return e
	}
	if err := checkShape(text, p.depth, protocolLevels); err != nil {
		return err
	}
	return v03.GRPC.Unmarshal(text, v)
}

// taskOfName returns the task of tasks/{id}.
func taskOfName(name string) string { return strings.TrimPrefix(name, "tasks/") }

// configOfName returns the task and the webhook of
// tasks/{id}/pushNotificationConfigs/{id}; without the second it is the one that
// has the name of its task.
func configOfName(name string) (task, id string) {
	task, id, ok := strings.Cut(taskOfName(name), "/pushNotificationConfigs/")
	if !ok {
		id = task
	}
	return task, id
}

// oldEncoding writes answers of 0.3. It returns a message to write one into.
type oldEncoding func() proto.Message

var _ grpcEncoding = oldEncoding(nil)

func (e oldEncoding) result(v result) (proto.Message, error) {
	m := e()
	switch v := v.(type) {
	case *empty:
		return m, nil
	case *extendedCard:
		card, err := v.decoded()
		if err != nil {
			return nil, err
		}
		return m, oldProtoCard(m, card)
	case *a2a.ListTasksResponse:
		list := &pb03.ListTasksResponse{NextPageToken: v.NextPageToken, TotalSize: int32(min(v.TotalSize, 1<<31-1))}
		for i := range v.Tasks {
			body, _ := v03.GRPC.Append(nil, &v.Tasks[i])
			task := &pb03.Task{}
			if err := protobuf.FromJSON(body, task); err != nil {
				return nil, err
			}
			list.Tasks = append(list.Tasks, task)
		}
		return list, nil
	}
	body, ok := v03.GRPC.Append(nil, v)
	if !ok {
		return nil, fmt.Errorf("encode result: 0.3 has no %T", v)
	}
	return m, protobuf.FromJSON(body, m)
}

func (e oldEncoding) event(body []byte, last bool) (proto.Message, error) {
	var event a2a.StreamResponse
	if err := a2a.Unmarshal(body, &event); err != nil {
		return nil, errors.New("decode event: " + err.Error()) // it is not the client's fault
	}
	m := e()
	return m, protobuf.FromJSON(v03.GRPC.AppendEvent(nil, &event, last), m)
}

func (oldEncoding) failure(op operation, e *a2a.Error) *a2a.Error { return oldError(op, e) }

// oldProtoCard writes a card. In 0.3 security has in JSON another form than in
// a2a.proto.
func oldProtoCard(into proto.Message, card *a2a.AgentCard) error {
	m, ok := into.(*pb03.AgentCard)
	if !ok {
		return protobuf.ErrOtherMessage
	}
	if err := protobuf.FromJSON(v03.AppendCard(nil, card), m); err != nil {
		return err
	}
	m.Security = oldSecurity(card.SecurityRequirements)
	for i, skill := range m.GetSkills() {
		skill.Security = oldSecurity(card.Skills[i].SecurityRequirements)
	}
	return nil
}

func oldSecurity(list []a2a.SecurityRequirement) []*pb03.Security {
	var out []*pb03.Security
	for _, r := range list {
		m := &pb03.Security{Schemes: map[string]*pb03.StringList{}}
		for name, scopes := range r.Schemes {
			m.Schemes[name] = &pb03.StringList{List: scopes}
		}
		out = append(out, m)
	}
	return out
}
