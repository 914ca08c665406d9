package client

import (
	"errors"
	"fmt"

	pb03 "github.com/a2aproject/a2a-go/a2apb"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
	"handoff.example/handoff/internal/protobuf"
)

// Version 0.3 over gRPC (A2A 0.3 §3.5.6). Free JSON goes through the ProtoJSON of
// the messages, which package v03 reads and writes.

const serviceOldGRPC = "/a2a.v1.A2AService/"

// oldMessage returns the method of a request in 0.3 and its message.
func oldMessage(r *request) (method string, m proto.Message, err error) {
	method = serviceOldGRPC + r.op
	switch q := r.params.(type) {
	case *a2a.SendMessageRequest:
		m, err = oldSend(q)
	case *a2a.GetTaskRequest:
		get := &pb03.GetTaskRequest{Name: oldName(q.ID)}
		if q.HistoryLength != nil {
			get.HistoryLength = int32(*q.HistoryLength)
		}
		m = get
	case *a2a.ListTasksRequest:
		m = oldList(q)
	case *a2a.CancelTaskRequest:
		m = &pb03.CancelTaskRequest{Name: oldName(q.ID)}
	case *a2a.SubscribeToTaskRequest:
		method = serviceOldGRPC + "TaskSubscription"
		m = &pb03.TaskSubscriptionRequest{Name: oldName(q.ID)}
	case *a2a.TaskPushNotificationConfig:
		m, err = oldCreatePush(q)
	case *a2a.GetTaskPushNotificationConfigRequest:
		m = &pb03.GetTaskPushNotificationConfigRequest{Name: oldPushName(q.TaskID, q.ID)}
	case *a2a.ListTaskPushNotificationConfigsRequest:
		method = serviceOldGRPC + "ListTaskPushNotificationConfig"
		m = &pb03.ListTaskPushNotificationConfigRequest{Parent: oldName(q.TaskID), PageSize: int32(q.PageSize), PageToken: q.PageToken}
	case *a2a.DeleteTaskPushNotificationConfigRequest:
		m = &pb03.DeleteTaskPushNotificationConfigRequest{Name: oldPushName(q.TaskID, q.ID)}
	case *a2a.GetExtendedAgentCardRequest:
		method = serviceOldGRPC + "GetAgentCard"
		m = &pb03.GetAgentCardRequest{}
	default:
		err = notInOld(r.op)
	}
	return method, m, err
}

func oldName(task string) string { return "tasks/" + task }

func oldPushName(task, id string) string { return oldName(task) + "/pushNotificationConfigs/" + id }

func oldSend(q *a2a.SendMessageRequest) (proto.Message, error) {
	body, ok := v03.GRPC.Append(nil, q)
	if !ok {
		return nil, notInOld(opSendMessage)
	}
	m := &pb03.SendMessageRequest{}
	return m, protobuf.FromJSON(body, m)
}

func oldList(q *a2a.ListTasksRequest) proto.Message {
	m := &pb03.ListTasksRequest{
		ContextId: q.ContextID, Status: pb03.TaskState(q.Status), PageToken: q.PageToken, IncludeArtifacts: q.IncludeArtifacts,
	}
	if q.PageSize != nil {
		m.PageSize = int32(*q.PageSize)
	}
	if q.HistoryLength != nil {
		m.HistoryLength = int32(*q.HistoryLength)
	}
	if !q.StatusTimestampAfter.IsZero() {
		m.LastUpdatedTime = timestamppb.New(q.StatusTimestampAfter)
	}
	return m
}

func oldCreatePush(q *a2a.TaskPushNotificationConfig) (proto.Message, error) {
	body, _ := v03.GRPC.Append(nil, q)
	config := &pb03.TaskPushNotificationConfig{}
	if err := protobuf.FromJSON(body, config); err != nil {
		return nil, err
	}
	return &pb03.CreateTaskPushNotificationConfigRequest{Parent: oldName(q.TaskID), ConfigId: q.ID, Config: config}, nil
}

// decodeOldMessage reads an answer of 0.3. Its errors are never an *a2a.Error.
func decodeOldMessage(data []byte, r *request, out a2a.Decodable) error {
	var m proto.Message
	switch out.(type) {
	case *a2a.Task:
		m = new(pb03.Task)
	case *a2a.SendMessageResponse:
		m = new(pb03.SendMessageResponse)
	case *a2a.StreamResponse:
		m = new(pb03.StreamResponse)
	case *a2a.ListTasksResponse:
		m = new(pb03.ListTasksResponse)
	case *a2a.TaskPushNotificationConfig:
		m = new(pb03.TaskPushNotificationConfig)
	case *a2a.ListTaskPushNotificationConfigsResponse:
		m = new(pb03.ListTaskPushNotificationConfigResponse)
	case *a2a.AgentCard:
		return decodeOldCardMessage(data, r)
	default:
		return fmt.Errorf("0.3 has no message for %T", out)
	}
	if err := protobuf.Unmarshal(data, m, grpcBounds); err != nil {
		return errors.New(err.Error())
	}
	if list, ok := m.(*pb03.ListTasksResponse); ok {
		return decodeOldTasks(list, out)
	}
	text, err := protobuf.JSON(m)
	if err != nil {
		return err
	}
	if configs, ok := out.(*a2a.ListTaskPushNotificationConfigsResponse); ok {
		return decodeOldPushConfigs(v03.REST, text, configs)
	}
	return decodeOld(v03.GRPC, text, out)
}

func decodeOldTasks(m *pb03.ListTasksResponse, out a2a.Decodable) error {
	v, ok := out.(*a2a.ListTasksResponse)
	if !ok {
		return fmt.Errorf("a list of tasks is no %T", out)
	}
	*v = a2a.ListTasksResponse{
		NextPageToken: m.GetNextPageToken(), TotalSize: int(m.GetTotalSize()), Tasks: make([]a2a.Task, len(m.GetTasks())),
	}
	for i, task := range m.GetTasks() {
		text, err := protobuf.JSON(task)
		if err == nil {
			err = decodeOld(v03.GRPC, text, &v.Tasks[i])
		}
		if err != nil {
			return fmt.Errorf("tasks[%d]: %w", i, err)
		}
	}
	return nil
}

// decodeOldCardMessage reads a card as the JSON of 1.0. In the messages of 0.3
// security is what it is in 1.0, and the rest what it is in the JSON of 0.3.
func decodeOldCardMessage(data []byte, r *request) error {
	m := new(pb03.AgentCard)
	if err := protobuf.Unmarshal(data, m, grpcBounds); err != nil {
		return errors.New(err.Error())
	}
	secured := &pb03.AgentCard{SecuritySchemes: m.GetSecuritySchemes(), Security: m.GetSecurity()}
	security, err := protobuf.JSON(secured)
	if err != nil {
		return err
	}
	m.SecuritySchemes, m.Security = nil, nil
	for _, skill := range m.GetSkills() {
		skill.Security = nil
	}
	text, err := protobuf.JSON(m)
	if err != nil {
		return err
	}
	card, err := v03.ParseCard(text)
	if err != nil {
		return errors.New(err.Error())
	}
	if err := addOldSecurity(card, security); err != nil {
		return err
	}
	if r.result != nil {
		*r.result = card.AppendJSON(nil)
	}
	return nil
}

func addOldSecurity(card *a2a.AgentCard, security jsontext.Value) error {
	var members struct {
		Schemes      jsontext.Value `json:"securitySchemes,omitempty"`
		Requirements jsontext.Value `json:"security,omitempty"`
	}
	if err := json.Unmarshal(security, &members); err != nil {
		return err
	}
	renamed, err := json.Marshal(map[string]jsontext.Value{"securitySchemes": members.Schemes, "securityRequirements": members.Requirements})
	if err != nil {
		return err
	}
	var secured a2a.AgentCard
	if err := decode(renamed, &secured); err != nil {
		return err
	}
	card.SecuritySchemes, card.SecurityRequirements = secured.SecuritySchemes, secured.SecurityRequirements
	return nil
}
