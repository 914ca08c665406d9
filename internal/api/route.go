package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"handoff.example/handoff/internal/auth"
)

// operation is one method of one path.
type operation struct {
	method string
	path   string // below Prefix; {id} is a parameter, and may have an action after it
	// role is what a caller has to be at least; RoleNone needs no credentials.
	role auth.Role
	// node says that the operation concerns the whole node, so that the
	// operators of a tenant may not call it.
	node bool
	do   func(c *call) (any, error)
}

// operations are all there is. Paths with an action come before those without,
// which match too.
var operations = []operation{
	{method: "GET", path: "/me", role: auth.RoleViewer, do: (*call).me},
	{method: "GET", path: "/changes", role: auth.RoleViewer, do: (*call).followChanges},
	{method: "GET", path: "/overview", role: auth.RoleViewer, do: (*call).overview},
	{method: "GET", path: "/tasks", role: auth.RoleViewer, do: (*call).listTasks},
	{method: "POST", path: "/tasks:cancel", role: auth.RoleCaller, do: (*call).cancelTasks},
	{method: "POST", path: "/tasks:retry", role: auth.RoleCaller, do: (*call).retryTasks},
	{method: "POST", path: "/tasks:delete", role: auth.RoleOperator, do: (*call).deleteTasks},
	{method: "POST", path: "/tasks/{id}:cancel", role: auth.RoleCaller, do: (*call).cancelTask},
	{method: "POST", path: "/tasks/{id}:retry", role: auth.RoleCaller, do: (*call).retryTask},
	{method: "GET", path: "/tasks/{id}", role: auth.RoleViewer, do: (*call).getTask},
	{method: "DELETE", path: "/tasks/{id}", role: auth.RoleOperator, do: (*call).deleteTask},
	{method: "GET", path: "/tasks/{id}/events", role: auth.RoleViewer, do: (*call).taskEvents},
	{method: "GET", path: "/tasks/{id}/timeline", role: auth.RoleViewer, do: (*call).taskTimeline},
	{method: "GET", path: "/tasks/{id}/tree", role: auth.RoleViewer, do: (*call).taskTree},
	{method: "GET", path: "/tasks/{id}/artifacts/{artifact}/{part}", role: auth.RoleViewer, do: (*call).artifactPart},
	{method: "GET", path: "/tasks/{id}/messages/{message}/{part}", role: auth.RoleViewer, do: (*call).messagePart},
	{method: "GET", path: "/grants", role: auth.RoleViewer, do: (*call).listGrants},
	{method: "POST", path: "/grants/{id}", role: auth.RoleOperator, do: (*call).decideGrant},
	{method: "GET", path: "/inbox", role: auth.RoleViewer, do: (*call).listInbox},
	{method: "POST", path: "/inbox/{id}/answer", role: auth.RoleCaller, do: (*call).answerItem},
	{method: "POST", path: "/inbox/{id}/decision", role: auth.RoleOperator, do: (*call).decideItem},
	{method: "POST", path: "/inbox/{id}/assign", role: auth.RoleOperator, do: (*call).assignItem},
	{method: "POST", path: "/inbox/{id}/due", role: auth.RoleOperator, do: (*call).setItemDue},
	{method: "POST", path: "/inbox/{id}/link", role: auth.RoleOperator, do: (*call).linkItem},
	{method: "GET", path: "/inbox/{id}", role: auth.RoleViewer, do: (*call).getItem},
	{method: "GET", path: "/delegations", role: auth.RoleViewer, do: (*call).listDelegations},
	{method: "POST", path: "/delegations", role: auth.RoleOperator, do: (*call).createDelegation},
	{method: "POST", path: "/delegations/{id}:message", role: auth.RoleCaller, do: (*call).sendDelegation},
	{method: "POST", path: "/delegations/{id}:cancel", role: auth.RoleCaller, do: (*call).cancelDelegation},
	{method: "POST", path: "/delegations/{id}:resume", role: auth.RoleCaller, do: (*call).resumeDelegation},
	{method: "GET", path: "/delegations/{id}", role: auth.RoleViewer, do: (*call).getDelegation},
	{method: "GET", path: "/pushes", role: auth.RoleOperator, do: (*call).listPushes},
	{method: "POST", path: "/pushes/{id}:redeliver", role: auth.RoleOperator, do: (*call).redeliverPush},
	{method: "DELETE", path: "/pushes/{id}", role: auth.RoleOperator, do: (*call).deletePush},
	{method: "GET", path: "/agents", role: auth.RoleViewer, do: (*call).listAgents},
	{method: "GET", path: "/agents/{id}", role: auth.RoleViewer, do: (*call).getAgent},
	{method: "GET", path: "/webhooks", role: auth.RoleOperator, do: (*call).listWebhooks},
	{method: "GET", path: "/peers", role: auth.RoleOperator, node: true, do: (*call).listPeers},
	{method: "POST", path: "/peers", role: auth.RoleAdmin, node: true, do: (*call).addPeer},
	{method: "POST", path: "/peers/{id}:check", role: auth.RoleOperator, node: true, do: (*call).checkPeer},
	{method: "POST", path: "/peers/{id}:pin", role: auth.RoleAdmin, node: true, do: (*call).pinPeer},
	{method: "POST", path: "/peers/{id}:unpin", role: auth.RoleAdmin, node: true, do: (*call).unpinPeer},
	{method: "POST", path: "/peers/{id}:login", role: auth.RoleCaller, do: (*call).loginPeer},
	{method: "POST", path: "/peers/{id}:logout", role: auth.RoleCaller, do: (*call).logoutPeer},
	{method: "GET", path: "/peers/{id}", role: auth.RoleOperator, node: true, do: (*call).getPeer},
	{method: "DELETE", path: "/peers/{id}", role: auth.RoleAdmin, node: true, do: (*call).removePeer},
	{method: "GET", path: "/mcp/servers", role: auth.RoleOperator, node: true, do: (*call).listToolServers},
	{method: "GET", path: "/mcp/tools", role: auth.RoleOperator, node: true, do: (*call).listTools},
	{method: "GET", path: "/mcp/explain", role: auth.RoleOperator, node: true, do: (*call).explainTool},
	{method: "POST", path: "/mcp/call", role: auth.RoleOperator, node: true, do: (*call).callTool},
	{method: "GET", path: "/mcp/tasks", role: auth.RoleOperator, node: true, do: (*call).listToolTasks},
	{method: "GET", path: "/mcp/held", role: auth.RoleOperator, node: true, do: (*call).listHeldTools},
	{method: "POST", path: "/mcp/held:approve", role: auth.RoleAdmin, node: true, do: (*call).approveTool},
	{method: "GET", path: "/config", role: auth.RoleOperator, node: true, do: (*call).getConfig},
	{method: "POST", path: "/reload", role: auth.RoleAdmin, node: true, do: (*call).reload},
	{method: "POST", path: "/backup", role: auth.RoleAdmin, node: true, do: (*call).backup},
	{method: "GET", path: "/status", role: auth.RoleOperator, node: true, do: (*call).status},
	{method: "GET", path: "/nodes", role: auth.RoleOperator, node: true, do: (*call).listNodes},
	{method: "GET", path: "/keys", role: auth.RoleAdmin, node: true, do: (*call).listKeys},
	{method: "POST", path: "/keys", role: auth.RoleAdmin, node: true, do: (*call).createKey},
	{method: "DELETE", path: "/keys/{id}", role: auth.RoleAdmin, node: true, do: (*call).revokeKey},
	{method: "POST", path: "/console-links", role: auth.RoleAdmin, node: true, do: (*call).createConsoleLink},
	{method: "GET", path: "/audit", role: auth.RoleAdmin, node: true, do: (*call).listAudit},
	{method: "GET", path: "/metrics", role: auth.RoleOperator, node: true, do: (*call).metrics},
	{method: "GET", path: "/openapi.json", role: auth.RoleNone, do: (*call).openAPI},
}

// route returns the operation that a request is for; or nil, and the methods
// that its path takes, "" for a path that there is not.
func route(r *http.Request) (found *operation, allow string) {
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), Prefix)
	if !ok {
		return nil, ""
	}
	var methods []string
	pattern := ""
	for i := range operations {
		o := &operations[i]
		if pattern != "" && o.path != pattern {
			continue // a path with an action is not the one without
		}
		values, ok := match(o.path, path)
		if !ok {
			continue
		}
		pattern = o.path
		if o.method == r.Method || o.method == http.MethodGet && r.Method == http.MethodHead {
			for name, value := range values {
				r.SetPathValue(name, value)
			}
			return o, ""
		}
		if methods = append(methods, o.method); o.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	if len(methods) == 0 {
		return nil, ""
	}
	slices.Sort(methods)
	return nil, strings.Join(append(methods, http.MethodOptions), ", ")
}

// match compares an escaped path with a pattern, segment by segment, and returns
// the parameters.
func match(pattern, path string) (values map[string]string, ok bool) {
	if strings.Count(pattern, "/") != strings.Count(path, "/") {
		return nil, false
	}
	for pattern != "" || path != "" {
		var want, got string
		want, pattern, _ = strings.Cut(pattern, "/")
		got, path, _ = strings.Cut(path, "/")
		before, rest, parameter := strings.Cut(want, "{")
		if !parameter {
			if want != got {
				return nil, false
			}
			continue
		}
		name, action, _ := strings.Cut(rest, "}") // which may stand behind it
		value, begins := strings.CutPrefix(got, before)
		value, ends := strings.CutSuffix(value, action)
		value, err := url.PathUnescape(value)
		if !begins || !ends || value == "" || err != nil {
			return nil, false
		}
		if values == nil {
			values = map[string]string{}
		}
		values[name] = value
	}
	return values, true
}
