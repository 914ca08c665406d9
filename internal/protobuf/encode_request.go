package protobuf

import (
	"fmt"
	"math"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"handoff.example/handoff/a2a"
)

// encodeRequest returns what an operation takes as a message.
func encodeRequest(v any) (proto.Message, error) {
	switch v := v.(type) {
	case *a2a.SendMessageRequest:
		return protoOfSend(v)
	case *a2a.GetTaskRequest:
		return &pb.GetTaskRequest{Tenant: v.Tenant, Id: v.ID, HistoryLength: protoOfInt(v.HistoryLength)}, nil
	case *a2a.ListTasksRequest:
		return &pb.ListTasksRequest{
			Tenant: v.Tenant, ContextId: v.ContextID, Status: pb.TaskState(v.Status),
			PageSize: protoOfInt(v.PageSize), PageToken: v.PageToken, HistoryLength: protoOfInt(v.HistoryLength),
			StatusTimestampAfter: protoOfTime(v.StatusTimestampAfter), IncludeArtifacts: protoOfFlag(v.IncludeArtifacts),
		}, nil
	case *a2a.CancelTaskRequest:
		metadata, err := structOfJSON(v.Metadata)
		return &pb.CancelTaskRequest{Tenant: v.Tenant, Id: v.ID, Metadata: metadata}, err
	case *a2a.SubscribeToTaskRequest:
		return &pb.SubscribeToTaskRequest{Tenant: v.Tenant, Id: v.ID}, nil
	case *a2a.GetTaskPushNotificationConfigRequest:
		return &pb.GetTaskPushNotificationConfigRequest{Tenant: v.Tenant, TaskId: v.TaskID, Id: v.ID}, nil
	case *a2a.ListTaskPushNotificationConfigsRequest:
		return &pb.ListTaskPushNotificationConfigsRequest{
			Tenant: v.Tenant, TaskId: v.TaskID, PageSize: int32OfInt(v.PageSize), PageToken: v.PageToken,
		}, nil
	case *a2a.DeleteTaskPushNotificationConfigRequest:
		return &pb.DeleteTaskPushNotificationConfigRequest{Tenant: v.Tenant, TaskId: v.TaskID, Id: v.ID}, nil
	case *a2a.GetExtendedAgentCardRequest:
		return &pb.GetExtendedAgentCardRequest{Tenant: v.Tenant}, nil
	}
	return nil, fmt.Errorf("encode message: unknown type %T", v)
}

func protoOfSend(v *a2a.SendMessageRequest) (*pb.SendMessageRequest, error) {
	m := &pb.SendMessageRequest{Tenant: v.Tenant}
	if c := v.Configuration; c != nil {
		m.Configuration = &pb.SendMessageConfiguration{
			AcceptedOutputModes: c.AcceptedOutputModes, HistoryLength: protoOfInt(c.HistoryLength), ReturnImmediately: c.ReturnImmediately,
		}
		if c.TaskPushNotificationConfig != nil {
			m.Configuration.TaskPushNotificationConfig = protoOfConfig(c.TaskPushNotificationConfig)
		}
	}
	var err error
	if v.Message != nil {
		if m.Message, err = protoOfMessage(v.Message); err != nil {
			return nil, err
		}
	}
	m.Metadata, err = structOfJSON(v.Metadata)
	return m, err
}

func protoOfInt(n *int) *int32 {
	if n == nil {
		return nil
	}
	return new(int32OfInt(*n))
}

// int32OfInt returns the nearest number of 32 bits.
func int32OfInt(n int) int32 { return int32(max(math.MinInt32, min(n, math.MaxInt32))) }

func protoOfFlag(flag bool) *bool {
	if !flag {
		return nil
	}
	return &flag
}
