package protobuf

import (
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"handoff.example/handoff/a2a"
)

// result reads what an operation returns. A state that is not known is
// unspecified, which is neither terminal nor interrupted: the peer may speak a
// later 1.x.
func (p *decoder) result(v a2a.Decodable) error {
	switch v := v.(type) {
	case *a2a.Task:
		if m, ok := p.message.(*pb.Task); ok {
			return p.task(v, m).err()
		}
	case *a2a.SendMessageResponse:
		if m, ok := p.message.(*pb.SendMessageResponse); ok {
			return p.response(v, m).err()
		}
	case *a2a.StreamResponse:
		if m, ok := p.message.(*pb.StreamResponse); ok {
			return p.event(v, m).err()
		}
	case *a2a.ListTasksResponse:
		if m, ok := p.message.(*pb.ListTasksResponse); ok {
			return p.tasks(v, m).err()
		}
	case *a2a.ListTaskPushNotificationConfigsResponse:
		if m, ok := p.message.(*pb.ListTaskPushNotificationConfigsResponse); ok {
			*v = a2a.ListTaskPushNotificationConfigsResponse{NextPageToken: m.GetNextPageToken()}
			for _, c := range m.GetConfigs() {
				v.Configs = append(v.Configs, *configOfProto(c))
			}
			return nil
		}
	}
	return ErrOtherMessage
}

func (p *decoder) response(v *a2a.SendMessageResponse, m *pb.SendMessageResponse) (f *fault) {
	*v = a2a.SendMessageResponse{}
	switch payload := m.GetPayload().(type) {
	case *pb.SendMessageResponse_Task:
		v.Task = new(a2a.Task)
		return p.task(v.Task, payload.Task).under("task")
	case *pb.SendMessageResponse_Message:
		v.Message, f = messageOfProto(payload.Message, p.depth)
		return f.under("message")
	}
	return nil
}

func (p *decoder) event(v *a2a.StreamResponse, m *pb.StreamResponse) (f *fault) {
	*v = a2a.StreamResponse{}
	switch payload := m.GetPayload().(type) {
	case *pb.StreamResponse_Task:
		v.Task = new(a2a.Task)
		return p.task(v.Task, payload.Task).under("task")
	case *pb.StreamResponse_Message:
		v.Message, f = messageOfProto(payload.Message, p.depth)
		return f.under("message")
	case *pb.StreamResponse_StatusUpdate:
		u := payload.StatusUpdate
		v.StatusUpdate = &a2a.TaskStatusUpdateEvent{TaskID: u.GetTaskId(), ContextID: u.GetContextId()}
		if f = p.status(&v.StatusUpdate.Status, u.GetStatus()); f != nil {
			return f.under("statusUpdate.status")
		}
		v.StatusUpdate.Metadata, f = jsonOfStruct(u.GetMetadata(), p.depth)
		return f.under("statusUpdate.metadata")
	case *pb.StreamResponse_ArtifactUpdate:
		u := payload.ArtifactUpdate
		v.ArtifactUpdate = &a2a.TaskArtifactUpdateEvent{
			TaskID: u.GetTaskId(), ContextID: u.GetContextId(), Append: u.GetAppend(), LastChunk: u.GetLastChunk(),
		}
		if f = p.artifact(&v.ArtifactUpdate.Artifact, u.GetArtifact()); f != nil {
			return f.under("artifactUpdate.artifact")
		}
		v.ArtifactUpdate.Metadata, f = jsonOfStruct(u.GetMetadata(), p.depth)
		return f.under("artifactUpdate.metadata")
	}
	return nil
}

func (p *decoder) tasks(v *a2a.ListTasksResponse, m *pb.ListTasksResponse) *fault {
	*v = a2a.ListTasksResponse{
		NextPageToken: m.GetNextPageToken(), PageSize: int(m.GetPageSize()), TotalSize: int(m.GetTotalSize()),
		Tasks: make([]a2a.Task, len(m.GetTasks())),
	}
	for i, t := range m.GetTasks() {
		if f := p.task(&v.Tasks[i], t); f != nil {
			return f.element(i).under("tasks")
		}
	}
	return nil
}

func (p *decoder) task(v *a2a.Task, m *pb.Task) (f *fault) {
	*v = a2a.Task{ID: m.GetId(), ContextID: m.GetContextId()}
	if f = p.status(&v.Status, m.GetStatus()); f != nil {
		return f.under("status")
	}
	if len(m.GetArtifacts()) > 0 {
		v.Artifacts = make([]a2a.Artifact, len(m.GetArtifacts()))
	}
	for i, a := range m.GetArtifacts() {
		if f = p.artifact(&v.Artifacts[i], a); f != nil {
			return f.element(i).under("artifacts")
		}
	}
	if len(m.GetHistory()) > 0 {
		v.History = make([]a2a.Message, len(m.GetHistory()))
	}
	for i, h := range m.GetHistory() {
		message, f := messageOfProto(h, p.depth)
		if f != nil {
			return f.element(i).under("history")
		}
		v.History[i] = *message
	}
	v.Metadata, f = jsonOfStruct(m.GetMetadata(), p.depth)
	return f.under("metadata")
}

func (p *decoder) status(v *a2a.TaskStatus, m *pb.TaskStatus) (f *fault) {
	if n := int32(m.GetState()); n >= 0 && n <= int32(a2a.StateAuthRequired) {
		v.State = a2a.TaskState(n)
	}
	if m.GetMessage() != nil {
		if v.Message, f = messageOfProto(m.GetMessage(), p.depth); f != nil {
			return f.under("message")
		}
	}
	v.Timestamp, f = timeOfProto(m.GetTimestamp())
	return f.under("timestamp")
}

func (p *decoder) artifact(v *a2a.Artifact, m *pb.Artifact) (f *fault) {
	*v = a2a.Artifact{
		ArtifactID: m.GetArtifactId(), Name: m.GetName(), Description: m.GetDescription(), Extensions: m.GetExtensions(),
	}
	if v.Parts, f = partsOfProto(m.GetParts(), p.depth); f != nil {
		return f.under("parts")
	}
	v.Metadata, f = jsonOfStruct(m.GetMetadata(), p.depth)
	return f.under("metadata")
}
