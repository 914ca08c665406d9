package a2a

// AppendJSON appends the canonical JSON of the request.
func (r *SendMessageRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "tenant", r.Tenant)
	dst = optObject(dst, "message", r.Message)
	dst = optObject(dst, "configuration", r.Configuration)
	dst = optRaw(dst, "metadata", r.Metadata)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the configuration.
func (c *SendMessageConfiguration) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optTexts(dst, "acceptedOutputModes", c.AcceptedOutputModes)
	dst = optObject(dst, "taskPushNotificationConfig", c.TaskPushNotificationConfig)
	dst = optIntPointer(dst, "historyLength", c.HistoryLength)
	dst = optBool(dst, "returnImmediately", c.ReturnImmediately)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the request.
func (r *GetTaskRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "tenant", r.Tenant)
	dst = appendText(dst, "id", r.ID)
	dst = optIntPointer(dst, "historyLength", r.HistoryLength)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the request.
func (r *ListTasksRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "tenant", r.Tenant)
	dst = optText(dst, "contextId", r.ContextID)
	if r.Status != StateUnspecified {
		dst = appendName(dst, "status", r.Status.String())
	}
	dst = optIntPointer(dst, "pageSize", r.PageSize)
	dst = optText(dst, "pageToken", r.PageToken)
	dst = optIntPointer(dst, "historyLength", r.HistoryLength)
	dst = optTime(dst, "statusTimestampAfter", r.StatusTimestampAfter)
	dst = optBool(dst, "includeArtifacts", r.IncludeArtifacts)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the response, always with all four
// fields.
func (r *ListTasksResponse) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendList(dst, "tasks", r.Tasks)
	dst = appendText(dst, "nextPageToken", r.NextPageToken)
	dst = appendInt(dst, "pageSize", r.PageSize)
	dst = appendInt(dst, "totalSize", r.TotalSize)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the request.
func (r *CancelTaskRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "tenant", r.Tenant)
	dst = appendText(dst, "id", r.ID)
	dst = optRaw(dst, "metadata", r.Metadata)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the request.
func (r *SubscribeToTaskRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "tenant", r.Tenant)
	dst = appendText(dst, "id", r.ID)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the configuration.
func (c *TaskPushNotificationConfig) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "tenant", c.Tenant)
	dst = optText(dst, "id", c.ID)
	dst = optText(dst, "taskId", c.TaskID)
	dst = appendText(dst, "url", c.URL)
	dst = optText(dst, "token", c.Token)
	dst = optObject(dst, "authentication", c.Authentication)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the authentication details.
func (a *AuthenticationInfo) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "scheme", a.Scheme)
	dst = optText(dst, "credentials", a.Credentials)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the request.
func (r *GetTaskPushNotificationConfigRequest) AppendJSON(dst []byte) []byte {
	return appendConfigKey(dst, r.Tenant, r.TaskID, r.ID)
}

// AppendJSON appends the canonical JSON of the request.
func (r *DeleteTaskPushNotificationConfigRequest) AppendJSON(dst []byte) []byte {
	return appendConfigKey(dst, r.Tenant, r.TaskID, r.ID)
}

func appendConfigKey(dst []byte, tenant, taskID, id string) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "tenant", tenant)
	dst = appendText(dst, "taskId", taskID)
	dst = appendText(dst, "id", id)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the request.
func (r *ListTaskPushNotificationConfigsRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "taskId", r.TaskID)
	dst = optInt(dst, "pageSize", r.PageSize)
	dst = optText(dst, "pageToken", r.PageToken)
	dst = optText(dst, "tenant", r.Tenant)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the response. Its list is always
// there, so that an empty page is told from a missing one.
func (r *ListTaskPushNotificationConfigsResponse) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendList(dst, "configs", r.Configs)
	dst = appendText(dst, "nextPageToken", r.NextPageToken)
	return append(dst, '}')
}

// AppendJSON appends the canonical JSON of the request.
func (r *GetExtendedAgentCardRequest) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = optText(dst, "tenant", r.Tenant)
	return append(dst, '}')
}
