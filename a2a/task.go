package a2a

import "time"

// Task is the unit of work that a message starts (A2A §4.1.1).
type Task struct {
	ID        string // made by the server
	ContextID string // groups tasks and messages of one conversation
	Status    TaskStatus
	// Artifacts is nil when artifacts were not asked for and empty, but not
	// nil, when they were and there are none.
	Artifacts []Artifact
	History   []Message // oldest first
	Metadata  JSON      // an object, or nil
}

// TaskStatus is the state of a task at a moment (A2A §4.1.2).
type TaskStatus struct {
	State     TaskState
	Message   *Message  // nil when there is nothing to say
	Timestamp time.Time // zero when unknown
}

// TaskState is a stage in the life of a task (A2A §4.1.3). Its values are those
// of the protocol's enum.
type TaskState int8

// The states of a task. Completed, failed, canceled and rejected are terminal;
// input required and auth required are interrupted.
const (
	StateUnspecified   TaskState = 0
	StateSubmitted     TaskState = 1
	StateWorking       TaskState = 2
	StateCompleted     TaskState = 3
	StateFailed        TaskState = 4
	StateCanceled      TaskState = 5
	StateInputRequired TaskState = 6
	StateRejected      TaskState = 7
	StateAuthRequired  TaskState = 8
)

var stateNames = [...]string{
	StateUnspecified:   "TASK_STATE_UNSPECIFIED",
	StateSubmitted:     "TASK_STATE_SUBMITTED",
	StateWorking:       "TASK_STATE_WORKING",
	StateCompleted:     "TASK_STATE_COMPLETED",
	StateFailed:        "TASK_STATE_FAILED",
	StateCanceled:      "TASK_STATE_CANCELED",
	StateInputRequired: "TASK_STATE_INPUT_REQUIRED",
	StateRejected:      "TASK_STATE_REJECTED",
	StateAuthRequired:  "TASK_STATE_AUTH_REQUIRED",
}

// String returns the name of the state as it goes over the wire, such as
// TASK_STATE_WORKING.
func (s TaskState) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return stateNames[StateUnspecified]
	}
	return stateNames[s]
}

// ParseTaskState returns the state of that wire name, and false for a name that
// is none.
func ParseTaskState(name string) (TaskState, bool) {
	for s, n := range stateNames {
		if n == name {
			return TaskState(s), true
		}
	}
	return StateUnspecified, false
}

// Terminal reports whether a task in this state is over for good (A2A §3.1.1).
func (s TaskState) Terminal() bool {
	switch s {
	case StateCompleted, StateFailed, StateCanceled, StateRejected:
		return true
	}
	return false
}

// Interrupted reports whether a task in this state waits for its client.
func (s TaskState) Interrupted() bool {
	return s == StateInputRequired || s == StateAuthRequired
}

// Artifact is an output of a task (A2A §4.1.7).
type Artifact struct {
	ArtifactID  string // unique within its task
	Name        string
	Description string
	Parts       []Part
	Metadata    JSON // an object, or nil
	Extensions  []string
}

// TaskStatusUpdateEvent says that the status of a task changed (A2A §4.2.1).
type TaskStatusUpdateEvent struct {
	TaskID    string
	ContextID string
	Status    TaskStatus
	Metadata  JSON // an object, or nil
}

// TaskArtifactUpdateEvent carries an artifact, or a chunk of one (A2A §4.2.2).
type TaskArtifactUpdateEvent struct {
	TaskID    string
	ContextID string
	Artifact  Artifact
	Append    bool // the parts follow those already sent under this artifact id
	LastChunk bool
	Metadata  JSON // an object, or nil
}
