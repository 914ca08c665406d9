package protobuf

import (
	"errors"
	"math"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"handoff.example/handoff/a2a"
)

// Decode reads a message of protobuf into what an operation takes or returns.
// Objects and arrays of free JSON may nest so deep that the whole has depth
// levels as JSON. The tenant of a request is left out: it has led to the agent. An
// *a2a.Error names the field that is wrong.
func Decode(m proto.Message, v a2a.Decodable, depth int) error {
	p := &decoder{message: m, depth: depth}
	switch v := v.(type) {
	case *a2a.SendMessageRequest:
		if m, ok := p.message.(*pb.SendMessageRequest); ok {
			return p.send(v, m).err()
		}
	case *a2a.GetTaskRequest:
		if m, ok := p.message.(*pb.GetTaskRequest); ok {
			*v = a2a.GetTaskRequest{ID: m.GetId(), HistoryLength: intOf(m.HistoryLength)}
			return nil
		}
	case *a2a.ListTasksRequest:
		if m, ok := p.message.(*pb.ListTasksRequest); ok {
			return p.list(v, m).err()
		}
	case *a2a.CancelTaskRequest:
		if m, ok := p.message.(*pb.CancelTaskRequest); ok {
			metadata, f := jsonOfStruct(m.GetMetadata(), p.depth)
			*v = a2a.CancelTaskRequest{ID: m.GetId(), Metadata: metadata}
			return f.under("metadata").err()
		}
	case *a2a.SubscribeToTaskRequest:
		if m, ok := p.message.(*pb.SubscribeToTaskRequest); ok {
			*v = a2a.SubscribeToTaskRequest{ID: m.GetId()}
			return nil
		}
	default:
		return p.other(v)
	}
	return ErrOtherMessage
}

// ErrOtherMessage says that a message is not of the type that an operation has.
var ErrOtherMessage = errors.New("decode message: it is one of another operation")

// decoder reads one message.
type decoder struct {
	message proto.Message
	depth   int // of free JSON
}

// other reads the parameters of the operations on webhooks and on the extended
// card.
func (p *decoder) other(v a2a.Decodable) error {
	switch v := v.(type) {
	case *a2a.TaskPushNotificationConfig:
		if m, ok := p.message.(*pb.TaskPushNotificationConfig); ok {
			*v = *configOfProto(m)
			return nil
		}
	case *a2a.GetTaskPushNotificationConfigRequest:
		if m, ok := p.message.(*pb.GetTaskPushNotificationConfigRequest); ok {
			*v = a2a.GetTaskPushNotificationConfigRequest{TaskID: m.GetTaskId(), ID: m.GetId()}
			return nil
		}
	case *a2a.ListTaskPushNotificationConfigsRequest:
		if m, ok := p.message.(*pb.ListTaskPushNotificationConfigsRequest); ok {
			*v = a2a.ListTaskPushNotificationConfigsRequest{TaskID: m.GetTaskId(), PageSize: int(m.GetPageSize()), PageToken: m.GetPageToken()}
			return nil
		}
	case *a2a.DeleteTaskPushNotificationConfigRequest:
		if m, ok := p.message.(*pb.DeleteTaskPushNotificationConfigRequest); ok {
			*v = a2a.DeleteTaskPushNotificationConfigRequest{TaskID: m.GetTaskId(), ID: m.GetId()}
			return nil
		}
	case *a2a.GetExtendedAgentCardRequest:
		if _, ok := p.message.(*pb.GetExtendedAgentCardRequest); ok {
			*v = a2a.GetExtendedAgentCardRequest{}
			return nil
		}
	default:
		return p.result(v)
	}
	return ErrOtherMessage
}

func (p *decoder) send(v *a2a.SendMessageRequest, m *pb.SendMessageRequest) *fault {
	*v = a2a.SendMessageRequest{}
	var f *fault
	if v.Metadata, f = jsonOfStruct(m.GetMetadata(), p.depth); f != nil {
		return f.under("metadata")
	}
	if c := m.GetConfiguration(); c != nil {
		v.Configuration = &a2a.SendMessageConfiguration{
			AcceptedOutputModes: c.GetAcceptedOutputModes(),
			HistoryLength:       intOf(c.HistoryLength),
			ReturnImmediately:   c.GetReturnImmediately(),
		}
		if push := c.GetTaskPushNotificationConfig(); push != nil {
			v.Configuration.TaskPushNotificationConfig = configOfProto(push)
		}
	}
	if m.GetMessage() != nil {
		v.Message, f = messageOfProto(m.GetMessage(), p.depth)
	}
	return f.under("message")
}

// list reads the parameters of ListTasks. A page of no size is one of any: the
// official Go client sends it for unset.
func (p *decoder) list(v *a2a.ListTasksRequest, m *pb.ListTasksRequest) *fault {
	*v = a2a.ListTasksRequest{
		ContextID:        m.GetContextId(),
		PageToken:        m.GetPageToken(),
		HistoryLength:    intOf(m.HistoryLength),
		IncludeArtifacts: m.GetIncludeArtifacts(),
	}
	if m.GetPageSize() != 0 {
		v.PageSize = intOf(m.PageSize)
	}
	if n := int32(m.GetStatus()); n < 0 || n > int32(a2a.StateAuthRequired) {
		return &fault{"status", "is not a task state"}
	}
	v.Status = a2a.TaskState(m.GetStatus())
	var f *fault
	v.StatusTimestampAfter, f = timeOfProto(m.GetStatusTimestampAfter())
	return f.under("statusTimestampAfter")
}

func intOf(n *int32) *int {
	if n == nil {
		return nil
	}
	i := int(*n)
	return &i
}

// Time returns the time of a timestamp in the field of that name; zero for none.
func Time(field string, t *timestamppb.Timestamp) (time.Time, error) {
	v, f := timeOfProto(t)
	return v, f.under(field).err()
}

func timeOfProto(t *timestamppb.Timestamp) (time.Time, *fault) {
	if t == nil {
		return time.Time{}, nil
	}
	if t.CheckValid() != nil {
		return time.Time{}, &fault{text: "is not a time of the years 1 to 9999"}
	}
	return t.AsTime(), nil
}

func messageOfProto(m *pb.Message, depth int) (*a2a.Message, *fault) {
	v := &a2a.Message{
		MessageID:        m.GetMessageId(),
		ContextID:        m.GetContextId(),
		TaskID:           m.GetTaskId(),
		Extensions:       m.GetExtensions(),
		ReferenceTaskIDs: m.GetReferenceTaskIds(),
	}
	// Any other role is checked like one that is missing.
	if n := int32(m.GetRole()); n >= 0 && n <= math.MaxInt8 {
		v.Role = a2a.Role(n)
	}
	var f *fault
	if v.Metadata, f = jsonOfStruct(m.GetMetadata(), depth); f != nil {
		return nil, f.under("metadata")
	}
	v.Parts, f = partsOfProto(m.GetParts(), depth)
	return v, f.under("parts")
}

func partsOfProto(list []*pb.Part, depth int) ([]a2a.Part, *fault) {
	parts := make([]a2a.Part, len(list))
	for i, p := range list {
		if f := partOfProto(&parts[i], p, depth); f != nil {
			return nil, f.element(i)
		}
	}
	return parts, nil
}

func partOfProto(v *a2a.Part, p *pb.Part, depth int) (f *fault) {
	v.MediaType, v.Filename = p.GetMediaType(), p.GetFilename()
	switch content := p.GetContent().(type) {
	case *pb.Part_Text:
		v.Kind, v.Text = a2a.PartText, content.Text
	case *pb.Part_Raw:
		v.Kind, v.Raw = a2a.PartRaw, content.Raw
	case *pb.Part_Url:
		v.Kind, v.URL = a2a.PartURL, content.Url
	case *pb.Part_Data:
		v.Kind = a2a.PartData
		if v.Data, f = jsonOfValue(content.Data, depth); f != nil {
			return f.under("data")
		}
	}
	v.Metadata, f = jsonOfStruct(p.GetMetadata(), depth)
	return f.under("metadata")
}

func configOfProto(m *pb.TaskPushNotificationConfig) *a2a.TaskPushNotificationConfig {
	v := &a2a.TaskPushNotificationConfig{ID: m.GetId(), TaskID: m.GetTaskId(), URL: m.GetUrl(), Token: m.GetToken()}
	if a := m.GetAuthentication(); a != nil {
		v.Authentication = &a2a.AuthenticationInfo{Scheme: a.GetScheme(), Credentials: a.GetCredentials()}
	}
	return v
}
