package wire

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// restForm is the form of HTTP+JSON (A2A §11).
type restForm struct{}

var _ form = restForm{}

// resource is what the path of an HTTP+JSON request names.
type resource struct {
	tenant string
	kind   resourceKind
	task   string
	config string
}

type resourceKind uint8

const (
	resourceNone resourceKind = iota
	resourceBase
	resourceSend
	resourceStream
	resourceTasks
	resourceTask
	resourceCancel
	resourceSubscribe
	resourceConfigs
	resourceConfig
	resourceCard
)

// methods are the operations of each resource by HTTP method (A2A §11.3). GET
// answers HEAD too.
var methods = [...]struct{ get, post, delete operation }{
	resourceSend:      {post: opSendMessage},
	resourceStream:    {post: opSendStreamingMessage},
	resourceTasks:     {get: opListTasks},
	resourceTask:      {get: opGetTask},
	resourceCancel:    {post: opCancelTask},
	resourceSubscribe: {get: opSubscribeToTask, post: opSubscribeToTask},
	resourceConfigs:   {get: opListPushConfigs, post: opCreatePushConfig},
	resourceConfig:    {get: opGetPushConfig, delete: opDeletePushConfig},
	resourceCard:      {get: opGetExtendedCard},
}

// operation returns what a method does to a resource, opNone for nothing.
func (k resourceKind) operation(method string) operation {
	m := &methods[k]
	switch method {
	case http.MethodGet:
		return m.get
	case http.MethodHead:
		if !m.get.streams() {
			return m.get
		}
	case http.MethodPost:
		return m.post
	case http.MethodDelete:
		return m.delete
	}
	return opNone
}

// allow returns the value of the Allow header for a resource.
func (k resourceKind) allow() string {
	var list []string
	for _, method := range [...]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		if k.operation(method) != opNone {
			list = append(list, method)
		}
	}
	return strings.Join(append(list, http.MethodOptions), ", ")
}

// maxSegments is how many segments the longest path has, with its tenant.
const maxSegments = 5

// parseResource reads a path below the binding's base, which has its percent
// escapes still. It returns resourceNone for one that names nothing, and
// resourceBase for the base itself.
func parseResource(path string) resource {
	if path == "" {
		return resource{kind: resourceBase}
	}
	var segments [maxSegments]string
	n := 0
	for segment := range strings.SplitSeq(path, "/") {
		text, err := url.PathUnescape(segment)
		if n == maxSegments || err != nil || text == "" {
			return resource{}
		}
		segments[n] = text
		n++
	}
	if r := parseSegments(segments[:n]); r.kind != resourceNone || n == 1 {
		return r
	}
	r := parseSegments(segments[1:n])
	r.tenant = segments[0]
	return r
}

func parseSegments(s []string) resource {
	switch {
	case len(s) == 1 && s[0] == "message:send":
		return resource{kind: resourceSend}
	case len(s) == 1 && s[0] == "message:stream":
		return resource{kind: resourceStream}
	case len(s) == 1 && s[0] == "extendedAgentCard":
		return resource{kind: resourceCard}
	case s[0] != "tasks":
		return resource{}
	case len(s) == 1:
		return resource{kind: resourceTasks}
	case len(s) == 2:
		if id, ok := strings.CutSuffix(s[1], ":cancel"); ok && id != "" {
			return resource{kind: resourceCancel, task: id}
		}
		if id, ok := strings.CutSuffix(s[1], ":subscribe"); ok && id != "" {
			return resource{kind: resourceSubscribe, task: id}
		}
		return resource{kind: resourceTask, task: s[1]}
	case s[2] != "pushNotificationConfigs":
		return resource{}
	case len(s) == 3:
		return resource{kind: resourceConfigs, task: s[1]}
	case len(s) == 4:
		return resource{kind: resourceConfig, task: s[1], config: s[3]}
	}
	return resource{}
}

// serveREST answers an HTTP+JSON request for what the path names below the base.
func (x *exchange) serveREST(path string) {
	x.mediaType = restType(x.r.Header)
	x.serviceParameters()
	target := parseResource(path)
	if x.old = x.agent.speaksOld(x.version); x.old {
		x.form, x.mediaType = &oldForm{dialect: v03.REST}, typeJSON
		target = oldResource(path, target)
	}
	switch {
	case target.kind == resourceNone:
		if err := x.agent.speaks(x.version); err != nil && oldResource(path, target).kind != resourceNone {
			x.refuse(err) // there is something in another version
			return
		}
		x.refuseRoute()
		return
	case target.kind == resourceBase:
		x.refuse(a2a.Errorf(a2a.CodeInvalidRequest, "This is the base address of HTTP+JSON; the path of an operation follows it, such as /message:send"))
		return
	case x.r.Method == http.MethodOptions:
		x.options(target.kind.allow())
		return
	}
	if x.task = target.task; x.tenant == "" {
		x.tenant = target.tenant
	}
	if x.op = target.kind.operation(x.r.Method); x.op == opNone {
		x.refuseMethod(target.kind.allow())
		return
	}
	if !x.admitCaller() {
		return
	}
	if !x.acceptable() {
		x.refuseAs(a2a.Errorf(a2a.CodeContentTypeNotSupported, "Nothing that the Accept header names can be answered; this is %s or %s", typeJSON[0], typeA2A[0]), http.StatusNotAcceptable)
		return
	}
	if x.r.Method == http.MethodPost && x.r.ContentLength != 0 && !isJSON(x.r.Header["Content-Type"]) {
		x.refuseAs(a2a.Errorf(a2a.CodeContentTypeNotSupported, "The Content-Type %q is not supported; send %s or %s",
			clip(x.r.Header["Content-Type"][0], 128), typeJSON[0], typeA2A[0]), http.StatusUnsupportedMediaType)
		return
	}
	if x.r.Method == http.MethodPost && x.encoded() {
		return
	}
	p := restParameters{x: x, target: target}
	if x.old {
		x.run(x.traced("A2A "+x.op.String()), &oldRESTParameters{p})
		return
	}
	x.run(x.traced("A2A "+x.op.String()), &p)
}

// restParameters are the parameters of an HTTP+JSON request: in its path, its
// query or its body (A2A §11.5).
type restParameters struct {
	x      *exchange
	target resource
}

func (p *restParameters) read(v a2a.Decodable) error {
	switch q := v.(type) {
	case *sendRequest:
		return p.body(q)
	case *getRequest:
		query := parseQuery(p.x.r.URL.RawQuery)
		q.ID, q.Tenant = p.target.task, query.text("tenant", "")
		q.HistoryLength = query.integer("historyLength", "history_length")
		return query.err()
	case *listRequest:
		return parseQuery(p.x.r.URL.RawQuery).list(q)
	case *cardRequest:
		query := parseQuery(p.x.r.URL.RawQuery)
		q.Tenant = query.text("tenant", "")
		return query.err()
	case *subscribeRequest:
		query := parseQuery(p.x.r.URL.RawQuery)
		if p.x.r.Method == http.MethodPost {
			if err := p.body(q); err != nil {
				return err
			}
		}
		return p.merge(&q.ID, &q.Tenant, query)
	case *cancelRequest:
		query := parseQuery(p.x.r.URL.RawQuery)
		if err := p.body(q); err != nil {
			return err
		}
		return p.merge(&q.ID, &q.Tenant, query)
	}
	return p.readWebhook(v)
}

var errUnknownOperation = errors.New("read parameters: unknown operation")

// merge puts the task of the path into a request whose body may name it too.
func (p *restParameters) merge(id, tenant *string, query *query) error {
	if *id != "" && *id != p.target.task {
		return a2a.Invalid("id", "is not the task of the address")
	}
	*id = p.target.task
	if named := query.text("tenant", ""); named != "" {
		if *tenant != "" && *tenant != named {
			return a2a.Invalid("tenant", "is given twice")
		}
		*tenant = named
	}
	return query.err()
}

// body decodes the body. Where the path says it all, there need not be one.
func (p *restParameters) body(v a2a.Decodable) error {
	buf := getBuffer()
	defer putBuffer(buf)
	body, err := p.x.body(*buf)
	*buf = body
	if err != nil {
		return err
	}
	if len(body) == 0 && p.target.task != "" {
		return nil
	}
	if err := checkShape(body, p.x.h.opts.Depth, protocolLevels); err != nil {
		return err
	}
	return a2a.Unmarshal(body, v)
}

func (restForm) result(dst []byte, _ *exchange, v result) []byte { return v.AppendJSON(dst) }

func (restForm) opening(dst []byte, _ *exchange) []byte { return dst }

func (restForm) closing(dst []byte) []byte { return dst }

func (restForm) failure(dst []byte, _ *exchange, e *a2a.Error) ([]byte, int) {
	if e == errLate {
		return appendHTTPStatus(dst, http.StatusRequestTimeout, "DEADLINE_EXCEEDED", e.Message, e.AppendDetails(nil)), http.StatusRequestTimeout
	}
	return e.AppendStatus(dst), e.Code.HTTPStatus()
}

func (restForm) frameError(dst []byte, _ *exchange, e *a2a.Error) []byte { return e.AppendStatus(dst) }

// appendHTTPStatus appends a google.rpc.Status for what HTTP refuses before the
// protocol comes into it.
func appendHTTPStatus(dst []byte, status int, name, message string, details []byte) []byte {
	dst = append(dst, `{"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, name...)
	dst = append(dst, `","message":`...)
	dst, _ = jsontext.AppendQuote(dst, message) // invalid UTF-8 has been replaced
	if len(details) > len("[]") {
		dst = append(dst, `,"details":`...)
		dst = append(dst, details...)
	}
	return append(dst, "}}"...)
}
