package a2a

func (r *SendMessageRequest) decode(d *decoder) {
	*r = SendMessageRequest{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "tenant":
			m.field(d, 0, "tenant")
			r.Tenant = d.text()
		case "message":
			m.field(d, 1, "message")
			r.Message = decodePointer[Message](d)
		case "configuration":
			m.field(d, 2, "configuration")
			r.Configuration = decodePointer[SendMessageConfiguration](d)
		case "metadata":
			m.field(d, 3, "metadata")
			r.Metadata = d.rawObject()
		default:
			d.skip()
		}
	}
}

func (c *SendMessageConfiguration) decode(d *decoder) {
	*c = SendMessageConfiguration{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "acceptedOutputModes", "accepted_output_modes":
			m.field(d, 0, "acceptedOutputModes")
			c.AcceptedOutputModes = d.texts()
		case "taskPushNotificationConfig", "task_push_notification_config":
			m.field(d, 1, "taskPushNotificationConfig")
			c.TaskPushNotificationConfig = decodePointer[TaskPushNotificationConfig](d)
		case "historyLength", "history_length":
			m.field(d, 2, "historyLength")
			c.HistoryLength = d.integerPointer()
		case "returnImmediately", "return_immediately":
			m.field(d, 3, "returnImmediately")
			c.ReturnImmediately = d.boolean()
		default:
			d.skip()
		}
	}
}

func (r *GetTaskRequest) decode(d *decoder) {
	*r = GetTaskRequest{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "tenant":
			m.field(d, 0, "tenant")
			r.Tenant = d.text()
		case "id":
			m.field(d, 1, "id")
			r.ID = d.text()
		case "historyLength", "history_length":
			m.field(d, 2, "historyLength")
			r.HistoryLength = d.integerPointer()
		default:
			d.skip()
		}
	}
}

func (r *ListTasksRequest) decode(d *decoder) {
	*r = ListTasksRequest{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "tenant":
			m.field(d, 0, "tenant")
			r.Tenant = d.text()
		case "contextId", "context_id":
			m.field(d, 1, "contextId")
			r.ContextID = d.text()
		case "status":
			m.field(d, 2, "status")
			r.Status = enum(d, StateAuthRequired)
		case "pageSize", "page_size":
			m.field(d, 3, "pageSize")
			r.PageSize = d.integerPointer()
		case "pageToken", "page_token":
			m.field(d, 4, "pageToken")
			r.PageToken = d.text()
		case "historyLength", "history_length":
			m.field(d, 5, "historyLength")
			r.HistoryLength = d.integerPointer()
		case "statusTimestampAfter", "status_timestamp_after":
			m.field(d, 6, "statusTimestampAfter")
			r.StatusTimestampAfter = d.timestamp()
		case "includeArtifacts", "include_artifacts":
			m.field(d, 7, "includeArtifacts")
			r.IncludeArtifacts = d.boolean()
		default:
			d.skip()
		}
	}
}

func (r *ListTasksResponse) decode(d *decoder) {
	*r = ListTasksResponse{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "tasks":
			m.field(d, 0, "tasks")
			r.Tasks = decodeList[Task](d)
		case "nextPageToken", "next_page_token":
			m.field(d, 1, "nextPageToken")
			r.NextPageToken = d.text()
		case "pageSize", "page_size":
			m.field(d, 2, "pageSize")
			r.PageSize = d.integer()
		case "totalSize", "total_size":
			m.field(d, 3, "totalSize")
			r.TotalSize = d.integer()
		default:
			d.skip()
		}
	}
}

func (r *CancelTaskRequest) decode(d *decoder) {
	*r = CancelTaskRequest{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "tenant":
			m.field(d, 0, "tenant")
			r.Tenant = d.text()
		case "id":
			m.field(d, 1, "id")
			r.ID = d.text()
		case "metadata":
			m.field(d, 2, "metadata")
			r.Metadata = d.rawObject()
		default:
			d.skip()
		}
	}
}

func (r *SubscribeToTaskRequest) decode(d *decoder) {
	*r = SubscribeToTaskRequest{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "tenant":
			m.field(d, 0, "tenant")
			r.Tenant = d.text()
		case "id":
			m.field(d, 1, "id")
			r.ID = d.text()
		default:
			d.skip()
		}
	}
}

func (c *TaskPushNotificationConfig) decode(d *decoder) {
	*c = TaskPushNotificationConfig{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "tenant":
			m.field(d, 0, "tenant")
			c.Tenant = d.text()
		case "id":
			m.field(d, 1, "id")
			c.ID = d.text()
		case "taskId", "task_id":
			m.field(d, 2, "taskId")
			c.TaskID = d.text()
		case "url":
			m.field(d, 3, "url")
			c.URL = d.text()
		case "token":
			m.field(d, 4, "token")
			c.Token = d.text()
		case "authentication":
			m.field(d, 5, "authentication")
			c.Authentication = decodePointer[AuthenticationInfo](d)
		default:
			d.skip()
		}
	}
}

func (a *AuthenticationInfo) decode(d *decoder) {
	*a = AuthenticationInfo{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "scheme":
			m.field(d, 0, "scheme")
			a.Scheme = d.text()
		case "credentials":
			m.field(d, 1, "credentials")
			a.Credentials = d.text()
		default:
			d.skip()
		}
	}
}

func (r *GetTaskPushNotificationConfigRequest) decode(d *decoder) {
	*r = GetTaskPushNotificationConfigRequest{}
	r.Tenant, r.TaskID, r.ID = d.configKey()
}

func (r *DeleteTaskPushNotificationConfigRequest) decode(d *decoder) {
	*r = DeleteTaskPushNotificationConfigRequest{}
	r.Tenant, r.TaskID, r.ID = d.configKey()
}

// configKey reads the three fields that name a push notification configuration.
func (d *decoder) configKey() (tenant, taskID, id string) {
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "tenant":
			m.field(d, 0, "tenant")
			tenant = d.text()
		case "taskId", "task_id":
			m.field(d, 1, "taskId")
			taskID = d.text()
		case "id":
			m.field(d, 2, "id")
			id = d.text()
		default:
			d.skip()
		}
	}
	return tenant, taskID, id
}

func (r *ListTaskPushNotificationConfigsRequest) decode(d *decoder) {
	*r = ListTaskPushNotificationConfigsRequest{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "taskId", "task_id":
			m.field(d, 0, "taskId")
			r.TaskID = d.text()
		case "pageSize", "page_size":
			m.field(d, 1, "pageSize")
			r.PageSize = d.integer()
		case "pageToken", "page_token":
			m.field(d, 2, "pageToken")
			r.PageToken = d.text()
		case "tenant":
			m.field(d, 3, "tenant")
			r.Tenant = d.text()
		default:
			d.skip()
		}
	}
}

func (r *ListTaskPushNotificationConfigsResponse) decode(d *decoder) {
	*r = ListTaskPushNotificationConfigsResponse{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "configs":
			m.field(d, 0, "configs")
			r.Configs = decodeList[TaskPushNotificationConfig](d)
		case "nextPageToken", "next_page_token":
			m.field(d, 1, "nextPageToken")
			r.NextPageToken = d.text()
		default:
			d.skip()
		}
	}
}

func (r *GetExtendedAgentCardRequest) decode(d *decoder) {
	*r = GetExtendedAgentCardRequest{}
	for m := d.object(); m.next(d); {
		switch string(d.key) {
		case "tenant":
			m.field(d, 0, "tenant")
			r.Tenant = d.text()
		default:
			d.skip()
		}
	}
}
