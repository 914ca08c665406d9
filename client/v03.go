package client

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// To an agent whose card has interfaces of version 0.3 only, the client speaks
// that version over JSON-RPC: the same operations, with other names and another
// JSON.

// oldMethods are 0.3's methods of the operations. It has none for ListTasks.
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

// isOld reports whether an interface speaks 0.3 in a way that the client does.
func isOld(f a2a.AgentInterface) bool {
	v, err := a2a.ParseVersion(f.ProtocolVersion)
	return err == nil && f.ProtocolVersion != "" && v == a2a.Version03 && strings.EqualFold(f.ProtocolBinding, a2a.BindingJSONRPC)
}

// chooseOld returns the interface of 0.3 to use, or false when there is none.
func chooseOld(card *a2a.AgentCard) (a2a.AgentInterface, bool) {
	i := slices.IndexFunc(card.SupportedInterfaces, isOld)
	if i < 0 {
		return a2a.AgentInterface{}, false
	}
	return card.SupportedInterfaces[i], true
}

// oldCall returns the method and the parameters of a request in 0.3, and the
// headers that it needs.
func oldCall(r *request, opts *Options) (method string, params []byte, header http.Header, err error) {
	method, ok := oldMethods[r.op]
	if ok {
		params, ok = v03.RPC.Append(nil, r.params)
	}
	if !ok {
		return "", nil, nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The agent speaks version 0.3, which has no %s", r.op)
	}
	header = r.header
	if len(opts.Extensions) > 0 {
		if header = header.Clone(); header == nil {
			header = http.Header{}
		}
		header[keyOldExtensions] = []string{a2a.FormatExtensions(opts.Extensions)}
	}
	return method, params, header, nil
}

// decodeOld reads a result of 0.3. Its errors are never an *a2a.Error, because
// those are what a peer says.
func decodeOld(data []byte, out a2a.Decodable) error {
	var err error
	switch out := out.(type) {
	case *a2a.AgentCard: // it is read from its JSON, as every card is
	case *a2a.ListTaskPushNotificationConfigsResponse:
		var list []jsontext.Value
		if err = json.Unmarshal(data, &list); err == nil {
			out.Configs = make([]a2a.TaskPushNotificationConfig, len(list))
		}
		for i := range out.Configs {
			if err == nil {
				err = v03.RPC.Unmarshal(list[i], &out.Configs[i])
			}
		}
	default:
		err = v03.RPC.Unmarshal(data, out)
	}
	if err != nil {
		return errors.New(err.Error())
	}
	return nil
}
