package a2a

import "time"

// SendMessageRequest is the input of SendMessage and SendStreamingMessage
// (A2A §3.2.1).
type SendMessageRequest struct {
	Tenant        string
	Message       *Message
	Configuration *SendMessageConfiguration
	Metadata      JSON // an object, or nil
}

// SendMessageConfiguration says how a send is to be answered (A2A §3.2.2).
type SendMessageConfiguration struct {
	AcceptedOutputModes        []string // media types
	TaskPushNotificationConfig *TaskPushNotificationConfig
	HistoryLength              *int // nil: the server's default; 0: none
	ReturnImmediately          bool
}

// SendMessageResponse is the answer to SendMessage: a task or a message.
type SendMessageResponse struct {
	Task    *Task
	Message *Message
}

// StreamResponse is one event of a stream or a push (A2A §3.2.3). Exactly one
// field is set.
type StreamResponse struct {
	Task           *Task
	Message        *Message
	StatusUpdate   *TaskStatusUpdateEvent
	ArtifactUpdate *TaskArtifactUpdateEvent
}

// GetTaskRequest is the input of GetTask (A2A §3.1.3).
type GetTaskRequest struct {
	Tenant        string
	ID            string
	HistoryLength *int // nil: the server's default; 0: none
}

// ListTasksRequest is the input of ListTasks (A2A §3.1.4).
type ListTasksRequest struct {
	Tenant               string
	ContextID            string
	Status               TaskState // StateUnspecified: any
	PageSize             *int      // 1 to 100; nil: 50
	PageToken            string
	HistoryLength        *int      // nil: the server's default; 0: none
	StatusTimestampAfter time.Time // inclusive; zero: any
	IncludeArtifacts     bool
}

// ListTasksResponse is the answer to ListTasks, newest status first.
type ListTasksResponse struct {
	Tasks         []Task
	NextPageToken string // "" on the last page
	PageSize      int
	TotalSize     int // of all pages
}

// CancelTaskRequest is the input of CancelTask (A2A §3.1.5).
type CancelTaskRequest struct {
	Tenant   string
	ID       string
	Metadata JSON // an object, or nil
}

// SubscribeToTaskRequest is the input of SubscribeToTask (A2A §3.1.6).
type SubscribeToTaskRequest struct {
	Tenant string
	ID     string
}

// TaskPushNotificationConfig is a webhook of a task (A2A §4.3.1), and the input
// and output of CreateTaskPushNotificationConfig (A2A §3.1.7).
type TaskPushNotificationConfig struct {
	Tenant         string
	ID             string
	TaskID         string
	URL            string
	Token          string
	Authentication *AuthenticationInfo
}

// AuthenticationInfo says how a push authenticates itself (A2A §4.3.2).
type AuthenticationInfo struct {
	Scheme      string // such as Bearer
	Credentials string
}

// GetTaskPushNotificationConfigRequest is the input of
// GetTaskPushNotificationConfig (A2A §3.1.8).
type GetTaskPushNotificationConfigRequest struct {
	Tenant string
	TaskID string
	ID     string
}

// ListTaskPushNotificationConfigsRequest is the input of
// ListTaskPushNotificationConfigs (A2A §3.1.9).
type ListTaskPushNotificationConfigsRequest struct {
	Tenant    string
	TaskID    string
	PageSize  int // 0: the server's default
	PageToken string
}

// ListTaskPushNotificationConfigsResponse is the answer to
// ListTaskPushNotificationConfigs.
type ListTaskPushNotificationConfigsResponse struct {
	Configs       []TaskPushNotificationConfig
	NextPageToken string // "" on the last page
}

// DeleteTaskPushNotificationConfigRequest is the input of
// DeleteTaskPushNotificationConfig (A2A §3.1.10).
type DeleteTaskPushNotificationConfigRequest struct {
	Tenant string
	TaskID string
	ID     string
}

// GetExtendedAgentCardRequest is the input of GetExtendedAgentCard
// (A2A §3.1.11).
type GetExtendedAgentCardRequest struct {
	Tenant string
}
