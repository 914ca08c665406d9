package client

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// To an agent whose card has interfaces of version 0.3 only, the client speaks
// that version: the same operations, with other names and another JSON.

// oldMethods are 0.3's methods of JSON-RPC. There is none for ListTasks.
var oldMethods = map[string]string{
	opSendMessage:          v03.MethodSend,
	opSendStreamingMessage: v03.MethodStream,
	opGetTask:              v03.MethodGet,
	opCancelTask:           v03.MethodCancel,
	opSubscribeToTask:      v03.MethodResubscribe,
	opCreatePushConfig:     v03.MethodSetPushConfig,
	opGetPushConfig:        v03.MethodGetPushConfig,
	opListPushConfigs:      v03.MethodListPushConfigs,
	opDeletePushConfig:     v03.MethodDeletePushConfig,
	opGetExtendedAgentCard: v03.MethodExtendedCard,
}

// keyOldExtensions is the header that 0.3 has for extensions.
const keyOldExtensions = "X-A2a-Extensions"

// isOld reports whether an interface speaks 0.3.
func isOld(f a2a.AgentInterface) bool { return isVersion03(f.ProtocolVersion) }

func isVersion03(text string) bool {
	v, err := a2a.ParseVersion(text)
	return err == nil && text != "" && v == a2a.Version03
}

// oldCall returns the method and the parameters of a request in 0.3, and the
// headers that it needs.
func oldCall(r *request, opts *Options) (method string, params []byte, header http.Header, err error) {
	method, ok := oldMethods[r.op]
	if ok {
		params, ok = v03.RPC.Append(nil, r.params)
	}
	if !ok {
		return "", nil, nil, notInOld(r.op)
	}
	return method, params, oldHeader(r, opts), nil
}

// oldRoute returns where a request of 0.3 goes over HTTP+JSON, below the address
// of the interface, and its body, nil for none (A2A 0.3 §3.5.3).
func oldRoute(r *request) (path string, body []byte, err error) {
	switch r.op {
	case opListTasks:
		return "", nil, notInOld(r.op)
	case opGetExtendedAgentCard:
		return "/v1/card", nil, nil
	}
	if r.hasBody {
		if push, ok := r.params.(*a2a.TaskPushNotificationConfig); ok {
			body = v03.AppendCreatePushConfig(nil, push)
		} else if body, ok = v03.REST.Append(nil, r.params); !ok {
			return "", nil, notInOld(r.op)
		}
	}
	return "/v1" + r.path, body, nil
}

func notInOld(op string) error {
	return a2a.Errorf(a2a.CodeUnsupportedOperation, "The agent speaks version 0.3, which has no %s", op)
}

// oldHeader returns the headers of a request of 0.3.
func oldHeader(r *request, opts *Options) http.Header {
	header := r.header
	if len(opts.Extensions) > 0 {
		if header = header.Clone(); header == nil {
			header = http.Header{}
		}
		header[keyOldExtensions] = []string{a2a.FormatExtensions(opts.Extensions)}
	}
	return header
}

// oldStatusError gives an error its kind where the answer had none but the HTTP
// status, which is all that the official libraries of 0.3 send beside a text. What
// does not exist is then what the path names: the paths of 0.3 are fixed.
func oldStatusError(op string, status int, err error) error {
	e, ok := errors.AsType[*a2a.Error](err)
	if !ok {
		return err
	}
	switch {
	case status == http.StatusConflict && e.Code == a2a.CodeUnsupportedOperation && op == opCancelTask:
		e.Code = a2a.CodeTaskNotCancelable
	case status != http.StatusNotFound || e.Code != a2a.CodeMethodNotFound && e.Code != a2a.CodeTaskNotFound:
	case op == opGetExtendedAgentCard:
		e.Code = a2a.CodeExtendedAgentCardNotConfigured
	case op != opSendMessage:
		e.Code = a2a.CodeTaskNotFound
	}
	return err
}

// decodeOld reads a result of 0.3. Its errors are never an *a2a.Error, because
// those are what a peer says.
func decodeOld(dialect v03.Dialect, data []byte, out a2a.Decodable) error {
	var err error
	switch out := out.(type) {
	case *a2a.AgentCard: // it is read from its JSON, as every card is
	case *a2a.ListTaskPushNotificationConfigsResponse:
		err = decodeOldPushConfigs(dialect, data, out)
	default:
		err = dialect.Unmarshal(data, out)
	}
	if err != nil {
		return errors.New(err.Error())
	}
	return nil
}

// decodeOldPushConfigs reads a list of webhooks: an array over JSON-RPC, and in
// the text of 0.3 over HTTP+JSON too, whose a2a.proto has an object with pages.
func decodeOldPushConfigs(dialect v03.Dialect, data []byte, out *a2a.ListTaskPushNotificationConfigsResponse) error {
	var page struct {
		Configs       []jsontext.Value `json:"configs"`
		NextPageToken string           `json:"nextPageToken"`
	}
	var into any = &page.Configs
	if dialect == v03.REST && jsontext.Value(data).Kind() == '{' {
		into = &page
	}
	if err := json.Unmarshal(data, into); err != nil {
		return err
	}
	out.NextPageToken = page.NextPageToken
	out.Configs = make([]a2a.TaskPushNotificationConfig, len(page.Configs))
	for i := range page.Configs {
		if err := dialect.Unmarshal(page.Configs[i], &out.Configs[i]); err != nil {
			return err
		}
	}
	return nil
}
