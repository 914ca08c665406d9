package a2a

import (
	"net/url"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Bounds of what a request may hold.
const (
	// MaxIDLength is the length of a messageId, contextId, taskId,
	// configuration id or tenant, in bytes.
	MaxIDLength = 256
	// MaxReferenceTaskIDs is how many tasks a message may refer to.
	MaxReferenceTaskIDs = 100
	// MaxPageSize is the largest page of a list (A2A §3.1.4).
	MaxPageSize = 100
	// MaxURLLength is the length of the URL of a webhook, in bytes.
	MaxURLLength = 4096
	// MaxTokenLength is the length of a page token, and of the token or the
	// credentials of a webhook, in bytes.
	MaxTokenLength = 8192
)

// checker collects what is wrong with a value.
type checker struct {
	violations []Violation
	prefix     string // of the paths of fields
}

// err returns one error that names every field that is wrong, or nil.
func (c *checker) err() error {
	if len(c.violations) == 0 {
		return nil
	}
	return InvalidFields(c.violations)
}

// maxViolations bounds how many bad fields one error names.
const maxViolations = 50

func (c *checker) add(field, description string) {
	if len(c.violations) == maxViolations {
		return
	}
	c.violations = append(c.violations, Violation{Field: c.prefix + field, Description: description})
}

const missing = "is required"

// required checks that a text is there.
func (c *checker) required(field, text string) {
	if text == "" {
		c.add(field, missing)
	}
}

// atLeastOne checks that a list is not empty.
func (c *checker) atLeastOne(field string, length int) {
	if length == 0 {
		c.add(field, "needs at least one element")
	}
}

// line checks that a text is short and has no control characters, so that it can
// stand in a header or a log.
func (c *checker) line(field, text string, limit int) {
	if len(text) > limit {
		c.add(field, "is longer than "+strconv.Itoa(limit)+" bytes")
		return
	}
	if !utf8.ValidString(text) {
		c.add(field, "is not UTF-8")
		return
	}
	for _, r := range text {
		if unicode.IsControl(r) {
			c.add(field, "has control characters")
			return
		}
	}
}

func (c *checker) id(field, id string) { c.line(field, id, MaxIDLength) }

func (c *checker) requiredID(field, id string) {
	c.required(field, id)
	c.id(field, id)
}

// object checks that free JSON, if any, is an object.
func (c *checker) object(field string, value JSON) {
	if len(value) > 0 && value.Kind() != '{' {
		c.add(field, "must be an object")
	}
}

func (c *checker) notNegative(field string, n *int) {
	if n != nil && *n < 0 {
		c.add(field, "must not be negative")
	}
}

// Validate checks the request (A2A §3.1.1) and names every field that is wrong
// in one CodeInvalidParams error.
func (r *SendMessageRequest) Validate() error {
	var c checker
	c.id("tenant", r.Tenant)
	if r.Message == nil {
		c.add("message", missing)
	} else {
		r.Message.check(&c, "message.")
		if r.Message.Role == RoleAgent {
			c.add("message.role", "must be ROLE_USER in a message to an agent")
		}
	}
	if f := r.Configuration; f != nil {
		c.notNegative("configuration.historyLength", f.HistoryLength)
		if f.TaskPushNotificationConfig != nil {
			f.TaskPushNotificationConfig.check(&c, "configuration.taskPushNotificationConfig.")
		}
	}
	c.object("metadata", r.Metadata)
	return c.err()
}

// Validate checks a message of either side and names every field that is wrong
// in one CodeInvalidParams error.
func (v *Message) Validate() error {
	var c checker
	v.check(&c, "")
	return c.err()
}

// check checks the message whose fields have paths with that prefix.
func (v *Message) check(c *checker, prefix string) {
	outer := c.prefix
	c.prefix += prefix
	defer func() { c.prefix = outer }()
	c.requiredID("messageId", v.MessageID)
	c.id("contextId", v.ContextID)
	c.id("taskId", v.TaskID)
	if v.Role != RoleUser && v.Role != RoleAgent {
		c.add("role", missing)
	}
	checkParts(c, "parts", v.Parts)
	c.object("metadata", v.Metadata)
	if len(v.ReferenceTaskIDs) > MaxReferenceTaskIDs {
		c.add("referenceTaskIds", "has more than "+strconv.Itoa(MaxReferenceTaskIDs)+" elements")
		return
	}
	for i, id := range v.ReferenceTaskIDs {
		c.requiredID(element("referenceTaskIds", i), id)
	}
}

func checkParts(c *checker, path string, parts []Part) {
	c.atLeastOne(path, len(parts))
	for i := range parts {
		p := &parts[i]
		switch {
		case p.Kind == PartNone || p.Kind > PartData:
			c.add(element(path, i), "needs one of text, raw, url and data")
		case p.Kind == PartURL && p.URL == "":
			c.add(element(path, i)+".url", "must not be empty")
		case len(p.Metadata) > 0 && p.Metadata.Kind() != '{':
			c.add(element(path, i)+".metadata", "must be an object")
		}
	}
}

// element returns the path of an element of a list.
func element(path string, index int) string {
	return path + "[" + strconv.Itoa(index) + "]"
}

// Validate checks the request (A2A §3.1.3) and names every field that is wrong
// in one CodeInvalidParams error.
func (r *GetTaskRequest) Validate() error {
	var c checker
	c.id("tenant", r.Tenant)
	c.requiredID("id", r.ID)
	c.notNegative("historyLength", r.HistoryLength)
	return c.err()
}

// Validate checks the request (A2A §3.1.4) and names every field that is wrong
// in one CodeInvalidParams error.
func (r *ListTasksRequest) Validate() error {
	var c checker
	c.id("tenant", r.Tenant)
	c.id("contextId", r.ContextID)
	if r.Status < StateUnspecified || r.Status > StateAuthRequired {
		c.add("status", "is not a task state")
	}
	if r.PageSize != nil && (*r.PageSize < 1 || *r.PageSize > MaxPageSize) {
		c.add("pageSize", "must be from 1 to "+strconv.Itoa(MaxPageSize))
	}
	c.line("pageToken", r.PageToken, MaxTokenLength)
	c.notNegative("historyLength", r.HistoryLength)
	return c.err()
}

// Validate checks the request (A2A §3.1.5) and names every field that is wrong
// in one CodeInvalidParams error.
func (r *CancelTaskRequest) Validate() error {
	var c checker
	c.id("tenant", r.Tenant)
	c.requiredID("id", r.ID)
	c.object("metadata", r.Metadata)
	return c.err()
}

// Validate checks the request (A2A §3.1.6) and names every field that is wrong
// in one CodeInvalidParams error.
func (r *SubscribeToTaskRequest) Validate() error {
	var c checker
	c.id("tenant", r.Tenant)
	c.requiredID("id", r.ID)
	return c.err()
}

// Validate checks the input of CreateTaskPushNotificationConfig (A2A §3.1.7) and
// names every field that is wrong in one CodeInvalidParams error. Whether the
// webhook may be called is for others to say.
func (f *TaskPushNotificationConfig) Validate() error {
	var c checker
	c.required("taskId", f.TaskID)
	f.check(&c, "")
	return c.err()
}

// check checks the configuration whose fields have that prefix. It may lack its
// task, which is not known yet when it comes with a message.
func (f *TaskPushNotificationConfig) check(c *checker, prefix string) {
	c.id(prefix+"tenant", f.Tenant)
	c.id(prefix+"id", f.ID)
	c.id(prefix+"taskId", f.TaskID)
	c.line(prefix+"token", f.Token, MaxTokenLength)
	c.line(prefix+"url", f.URL, MaxURLLength)
	if f.URL == "" {
		c.add(prefix+"url", missing)
	} else if u, err := url.Parse(f.URL); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		c.add(prefix+"url", "must be an absolute URL of http or https")
	}
	if a := f.Authentication; a != nil {
		c.required(prefix+"authentication.scheme", a.Scheme)
		c.line(prefix+"authentication.scheme", a.Scheme, MaxIDLength)
		c.line(prefix+"authentication.credentials", a.Credentials, MaxTokenLength)
	}
}

// Validate checks the request (A2A §3.1.8) and names every field that is wrong
// in one CodeInvalidParams error.
func (r *GetTaskPushNotificationConfigRequest) Validate() error {
	return validateConfigKey(r.Tenant, r.TaskID, r.ID)
}

// Validate checks the request (A2A §3.1.10) and names every field that is wrong
// in one CodeInvalidParams error.
func (r *DeleteTaskPushNotificationConfigRequest) Validate() error {
	return validateConfigKey(r.Tenant, r.TaskID, r.ID)
}

func validateConfigKey(tenant, taskID, id string) error {
	var c checker
	c.id("tenant", tenant)
	c.requiredID("taskId", taskID)
	c.requiredID("id", id)
	return c.err()
}

// Validate checks the request (A2A §3.1.9) and names every field that is wrong
// in one CodeInvalidParams error.
func (r *ListTaskPushNotificationConfigsRequest) Validate() error {
	var c checker
	c.id("tenant", r.Tenant)
	c.requiredID("taskId", r.TaskID)
	if r.PageSize < 0 || r.PageSize > MaxPageSize {
		c.add("pageSize", "must be from 1 to "+strconv.Itoa(MaxPageSize))
	}
	c.line("pageToken", r.PageToken, MaxTokenLength)
	return c.err()
}

// Validate checks the request (A2A §3.1.11) and names every field that is wrong
// in one CodeInvalidParams error.
func (r *GetExtendedAgentCardRequest) Validate() error {
	var c checker
	c.id("tenant", r.Tenant)
	return c.err()
}
