package config

// Inbox configures what waits for a person.
type Inbox struct {
	// How long after it was asked an item is due. 0: items are due when somebody says so.
	Due Duration `yaml:"due" default:"24h" min:"0s" max:"3650d"`

	// How long before an item is due webhook is told of it: a time each, 0s for when it is due.
	Remind []Duration `yaml:"remind" default:"2h,0s"`

	// How long a signed link is good.
	LinkTTL Duration `yaml:"link_ttl" default:"72h" min:"1m" max:"90d"`

	// Where people are told of items. Without it they are not.
	Webhook *InboxWebhook `yaml:"webhook"`
}

// InboxWebhook is where people are told of what waits for them.
type InboxWebhook struct {
	// The URL.
	URL string `yaml:"url" required:"true"`

	// The value of the header Authorization, such as Bearer ${TOKEN}.
	Auth Secret `yaml:"auth"`

	// Whether new items are sent at once, and not only when they are due.
	Created bool `yaml:"created" default:"true"`

	// Whether a signed link comes with an item. Whoever reads it can answer the item. It needs secret_key.
	Links bool `yaml:"links" default:"false"`

	// How long a receiver that does not take an item is tried.
	Retry Duration `yaml:"retry" default:"24h" min:"1m" max:"30d"`
}

// maxReminders bounds how often the webhook is told of one item.
const maxReminders = 20

func (v *validator) inbox() {
	i := &v.config.Inbox
	if len(i.Remind) > maxReminders {
		v.problem("inbox.remind", "", "has more than %d times", maxReminders)
	}
	for _, before := range i.Remind {
		if before < 0 {
			v.problem("inbox.remind", "write how long before an item is due, such as 2h", "has a time after the due date")
		}
	}
	w := i.Webhook
	if w == nil {
		return
	}
	if _, message := webURL(w.URL); w.URL != "" && message != "" {
		v.problem("inbox.webhook.url", "write it like https://hooks.example.com/inbox", "%s", message)
	}
	if w.Links && v.config.SecretKey.IsZero() {
		v.problem("inbox.webhook.links", "set secret_key; `handoff init` makes one", "needs secret_key")
	}
}
