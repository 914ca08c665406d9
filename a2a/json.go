package a2a

import "github.com/go-json-experiment/json/jsontext"

// MarshalJSON returns the canonical JSON of AppendJSON.
func (t Task) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (t Task) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(t.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (t *Task) UnmarshalJSON(data []byte) error { return Unmarshal(data, t) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (t *Task) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, t) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (s TaskStatus) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (s TaskStatus) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(s.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (s *TaskStatus) UnmarshalJSON(data []byte) error { return Unmarshal(data, s) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (s *TaskStatus) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, s) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (v Message) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (v Message) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(v.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (v *Message) UnmarshalJSON(data []byte) error { return Unmarshal(data, v) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (v *Message) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, v) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (p Part) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (p Part) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(p.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (p *Part) UnmarshalJSON(data []byte) error { return Unmarshal(data, p) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (p *Part) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, p) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (a Artifact) MarshalJSON() ([]byte, error) { return a.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (a Artifact) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(a.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (a *Artifact) UnmarshalJSON(data []byte) error { return Unmarshal(data, a) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (a *Artifact) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, a) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (u TaskStatusUpdateEvent) MarshalJSON() ([]byte, error) { return u.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (u TaskStatusUpdateEvent) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(u.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (u *TaskStatusUpdateEvent) UnmarshalJSON(data []byte) error { return Unmarshal(data, u) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (u *TaskStatusUpdateEvent) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, u)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (u TaskArtifactUpdateEvent) MarshalJSON() ([]byte, error) { return u.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (u TaskArtifactUpdateEvent) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(u.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (u *TaskArtifactUpdateEvent) UnmarshalJSON(data []byte) error { return Unmarshal(data, u) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (u *TaskArtifactUpdateEvent) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, u)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r StreamResponse) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r StreamResponse) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *StreamResponse) UnmarshalJSON(data []byte) error { return Unmarshal(data, r) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *StreamResponse) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, r) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r SendMessageResponse) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r SendMessageResponse) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *SendMessageResponse) UnmarshalJSON(data []byte) error { return Unmarshal(data, r) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *SendMessageResponse) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r SendMessageRequest) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r SendMessageRequest) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *SendMessageRequest) UnmarshalJSON(data []byte) error { return Unmarshal(data, r) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *SendMessageRequest) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (c SendMessageConfiguration) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (c SendMessageConfiguration) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(c.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (c *SendMessageConfiguration) UnmarshalJSON(data []byte) error { return Unmarshal(data, c) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (c *SendMessageConfiguration) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, c)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r GetTaskRequest) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r GetTaskRequest) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *GetTaskRequest) UnmarshalJSON(data []byte) error { return Unmarshal(data, r) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *GetTaskRequest) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return unmarshalFrom(dec, r) }

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r ListTasksRequest) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r ListTasksRequest) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *ListTasksRequest) UnmarshalJSON(data []byte) error { return Unmarshal(data, r) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *ListTasksRequest) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r ListTasksResponse) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r ListTasksResponse) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *ListTasksResponse) UnmarshalJSON(data []byte) error { return Unmarshal(data, r) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *ListTasksResponse) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r CancelTaskRequest) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r CancelTaskRequest) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *CancelTaskRequest) UnmarshalJSON(data []byte) error { return Unmarshal(data, r) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *CancelTaskRequest) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r SubscribeToTaskRequest) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r SubscribeToTaskRequest) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *SubscribeToTaskRequest) UnmarshalJSON(data []byte) error { return Unmarshal(data, r) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *SubscribeToTaskRequest) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (c TaskPushNotificationConfig) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (c TaskPushNotificationConfig) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(c.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (c *TaskPushNotificationConfig) UnmarshalJSON(data []byte) error { return Unmarshal(data, c) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (c *TaskPushNotificationConfig) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, c)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (a AuthenticationInfo) MarshalJSON() ([]byte, error) { return a.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (a AuthenticationInfo) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(a.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (a *AuthenticationInfo) UnmarshalJSON(data []byte) error { return Unmarshal(data, a) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (a *AuthenticationInfo) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, a)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r GetTaskPushNotificationConfigRequest) MarshalJSON() ([]byte, error) {
	return r.AppendJSON(nil), nil
}

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r GetTaskPushNotificationConfigRequest) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *GetTaskPushNotificationConfigRequest) UnmarshalJSON(data []byte) error {
	return Unmarshal(data, r)
}

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *GetTaskPushNotificationConfigRequest) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r DeleteTaskPushNotificationConfigRequest) MarshalJSON() ([]byte, error) {
	return r.AppendJSON(nil), nil
}

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r DeleteTaskPushNotificationConfigRequest) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *DeleteTaskPushNotificationConfigRequest) UnmarshalJSON(data []byte) error {
	return Unmarshal(data, r)
}

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *DeleteTaskPushNotificationConfigRequest) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r ListTaskPushNotificationConfigsRequest) MarshalJSON() ([]byte, error) {
	return r.AppendJSON(nil), nil
}

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r ListTaskPushNotificationConfigsRequest) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *ListTaskPushNotificationConfigsRequest) UnmarshalJSON(data []byte) error {
	return Unmarshal(data, r)
}

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *ListTaskPushNotificationConfigsRequest) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r ListTaskPushNotificationConfigsResponse) MarshalJSON() ([]byte, error) {
	return r.AppendJSON(nil), nil
}

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r ListTaskPushNotificationConfigsResponse) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *ListTaskPushNotificationConfigsResponse) UnmarshalJSON(data []byte) error {
	return Unmarshal(data, r)
}

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *ListTaskPushNotificationConfigsResponse) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}

// MarshalJSON returns the canonical JSON of AppendJSON.
func (r GetExtendedAgentCardRequest) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// MarshalJSONTo writes the canonical JSON of AppendJSON.
func (r GetExtendedAgentCardRequest) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(r.AppendJSON(enc.AvailableBuffer()))
}

// UnmarshalJSON is Unmarshal.
func (r *GetExtendedAgentCardRequest) UnmarshalJSON(data []byte) error { return Unmarshal(data, r) }

// UnmarshalJSONFrom reads the next value of dec as Unmarshal does.
func (r *GetExtendedAgentCardRequest) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return unmarshalFrom(dec, r)
}
