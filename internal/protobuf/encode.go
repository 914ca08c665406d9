package protobuf

import (
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"handoff.example/handoff/a2a"
)

// Encode returns what an operation takes or returns as a message of protobuf.
// The objects are those of package a2a; free JSON in them is valid.
func Encode(v any) (proto.Message, error) {
	switch v := v.(type) {
	case *a2a.Task:
		return protoOfTask(v)
	case *a2a.SendMessageResponse:
		return protoOfResponse(v)
	case *a2a.ListTasksResponse:
		return protoOfTasks(v)
	case *a2a.StreamResponse:
		return protoOfEvent(v)
	case *a2a.TaskPushNotificationConfig:
		return protoOfConfig(v), nil
	case *a2a.ListTaskPushNotificationConfigsResponse:
		m := &pb.ListTaskPushNotificationConfigsResponse{NextPageToken: v.NextPageToken}
		for i := range v.Configs {
			m.Configs = append(m.Configs, protoOfConfig(&v.Configs[i]))
		}
		return m, nil
	case *a2a.AgentCard:
		return protoOfCard(v)
	}
	return encodeRequest(v)
}

func protoOfResponse(v *a2a.SendMessageResponse) (*pb.SendMessageResponse, error) {
	if v.Message != nil {
		m, err := protoOfMessage(v.Message)
		return &pb.SendMessageResponse{Payload: &pb.SendMessageResponse_Message{Message: m}}, err
	}
	m, err := protoOfTask(v.Task)
	return &pb.SendMessageResponse{Payload: &pb.SendMessageResponse_Task{Task: m}}, err
}

func protoOfTasks(v *a2a.ListTasksResponse) (*pb.ListTasksResponse, error) {
	tasks, err := protoList(v.Tasks, protoOfTask)
	return &pb.ListTasksResponse{
		Tasks: tasks, NextPageToken: v.NextPageToken, PageSize: int32(v.PageSize), TotalSize: int32(min(v.TotalSize, 1<<31-1)),
	}, err
}

func protoOfEvent(v *a2a.StreamResponse) (*pb.StreamResponse, error) {
	switch {
	case v.Task != nil:
		m, err := protoOfTask(v.Task)
		return &pb.StreamResponse{Payload: &pb.StreamResponse_Task{Task: m}}, err
	case v.Message != nil:
		m, err := protoOfMessage(v.Message)
		return &pb.StreamResponse{Payload: &pb.StreamResponse_Message{Message: m}}, err
	case v.StatusUpdate != nil:
		m, err := protoOfStatusUpdate(v.StatusUpdate)
		return &pb.StreamResponse{Payload: &pb.StreamResponse_StatusUpdate{StatusUpdate: m}}, err
	case v.ArtifactUpdate != nil:
		m, err := protoOfArtifactUpdate(v.ArtifactUpdate)
		return &pb.StreamResponse{Payload: &pb.StreamResponse_ArtifactUpdate{ArtifactUpdate: m}}, err
	}
	return &pb.StreamResponse{}, nil
}

// protoList encodes the elements of a list.
func protoList[T, M any](list []T, encode func(*T) (*M, error)) ([]*M, error) {
	if len(list) == 0 {
		return nil, nil
	}
	encoded := make([]*M, len(list))
	for i := range list {
		var err error
		if encoded[i], err = encode(&list[i]); err != nil {
			return nil, err
		}
	}
	return encoded, nil
}

func protoOfTask(v *a2a.Task) (*pb.Task, error) {
	m := &pb.Task{Id: v.ID, ContextId: v.ContextID}
	var err error
	if m.Status, err = protoOfStatus(&v.Status); err != nil {
		return nil, err
	}
	if m.Artifacts, err = protoList(v.Artifacts, protoOfArtifact); err != nil {
		return nil, err
	}
	if m.History, err = protoList(v.History, protoOfMessage); err != nil {
		return nil, err
	}
	m.Metadata, err = structOfJSON(v.Metadata)
	return m, err
}

func protoOfStatus(v *a2a.TaskStatus) (*pb.TaskStatus, error) {
	m := &pb.TaskStatus{State: pb.TaskState(v.State), Timestamp: protoOfTime(v.Timestamp)}
	var err error
	if v.Message != nil {
		m.Message, err = protoOfMessage(v.Message)
	}
	return m, err
}

// protoOfTime returns a time to the millisecond, as it is in JSON (A2A §5.6.1).
func protoOfTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t.Truncate(time.Millisecond))
}

func protoOfMessage(v *a2a.Message) (*pb.Message, error) {
	m := &pb.Message{
		MessageId: v.MessageID, ContextId: v.ContextID, TaskId: v.TaskID, Role: pb.Role(v.Role),
		Extensions: v.Extensions, ReferenceTaskIds: v.ReferenceTaskIDs,
	}
	var err error
	if m.Parts, err = protoList(v.Parts, protoOfPart); err != nil {
		return nil, err
	}
	m.Metadata, err = structOfJSON(v.Metadata)
	return m, err
}

func protoOfPart(v *a2a.Part) (*pb.Part, error) {
	m := &pb.Part{MediaType: v.MediaType, Filename: v.Filename}
	switch v.Kind {
	case a2a.PartText:
		m.Content = &pb.Part_Text{Text: v.Text}
	case a2a.PartRaw:
		m.Content = &pb.Part_Raw{Raw: v.Raw}
	case a2a.PartURL:
		m.Content = &pb.Part_Url{Url: v.URL}
	case a2a.PartData:
		data, err := valueOfJSON(v.Data)
		if err != nil {
			return nil, err
		}
		m.Content = &pb.Part_Data{Data: data}
	}
	var err error
	m.Metadata, err = structOfJSON(v.Metadata)
	return m, err
}

func protoOfArtifact(v *a2a.Artifact) (*pb.Artifact, error) {
	m := &pb.Artifact{ArtifactId: v.ArtifactID, Name: v.Name, Description: v.Description, Extensions: v.Extensions}
	var err error
	if m.Parts, err = protoList(v.Parts, protoOfPart); err != nil {
		return nil, err
	}
	m.Metadata, err = structOfJSON(v.Metadata)
	return m, err
}

func protoOfStatusUpdate(v *a2a.TaskStatusUpdateEvent) (*pb.TaskStatusUpdateEvent, error) {
	m := &pb.TaskStatusUpdateEvent{TaskId: v.TaskID, ContextId: v.ContextID}
	var err error
	if m.Status, err = protoOfStatus(&v.Status); err != nil {
		return nil, err
	}
	m.Metadata, err = structOfJSON(v.Metadata)
	return m, err
}

func protoOfArtifactUpdate(v *a2a.TaskArtifactUpdateEvent) (*pb.TaskArtifactUpdateEvent, error) {
	m := &pb.TaskArtifactUpdateEvent{TaskId: v.TaskID, ContextId: v.ContextID, Append: v.Append, LastChunk: v.LastChunk}
	var err error
	if m.Artifact, err = protoOfArtifact(&v.Artifact); err != nil {
		return nil, err
	}
	m.Metadata, err = structOfJSON(v.Metadata)
	return m, err
}

func protoOfConfig(v *a2a.TaskPushNotificationConfig) *pb.TaskPushNotificationConfig {
	m := &pb.TaskPushNotificationConfig{Tenant: v.Tenant, Id: v.ID, TaskId: v.TaskID, Url: v.URL, Token: v.Token}
	if a := v.Authentication; a != nil {
		m.Authentication = &pb.AuthenticationInfo{Scheme: a.Scheme, Credentials: a.Credentials}
	}
	return m
}
