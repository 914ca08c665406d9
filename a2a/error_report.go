package a2a

import (
	"strconv"
	"strings"
	"time"
)

// errorReport is what could be read of a peer's error, in whatever form it came:
// a google.rpc.Status, an error object of JSON-RPC, problem details (RFC 9457)
// or an object of a web framework. Members of an unexpected type are skipped.
type errorReport struct {
	number     int    // error.code, or the status of problem details
	status     string // the name of a google.rpc.Code
	reason     string // of google.rpc.ErrorInfo
	message    string
	remark     string // what a peer says beside the message
	violations []Violation
	metadata   map[string]string
	retryAfter time.Duration
}

// maxRemark bounds the remark that is added to a message.
const maxRemark = 1 << 10

// parse reads the object and reports whether it says anything.
func (r *errorReport) parse(object []byte) bool {
	if checkDepth(object) != nil {
		return false
	}
	d := decoders.Get().(*decoder)
	defer d.release()
	d.reset(object)
	if d.kind() != '{' {
		return false
	}
	r.decode(d)
	d.end(object)
	return d.err == nil && (r.number != 0 || r.status != "" || r.reason != "" || r.message != "" || r.remark != "")
}

func (r *errorReport) decode(d *decoder) {
	for m := d.object(); m.next(d); {
		switch key := string(d.key); {
		case key == "error" && d.kind() == '{':
			r.decode(d)
		case (key == "message" || key == "title" || key == "error") && d.kind() == '"':
			if text := d.text(); r.message == "" {
				r.message = text
			}
		case (key == "detail" || key == "data") && d.kind() == '"':
			r.remark = truncate(d.text(), maxRemark)
		case (key == "code" || key == "status") && d.kind() == '0':
			r.number = d.anyInteger()
		case key == "status" && d.kind() == '"':
			r.status = d.text()
		case key == "type" && d.kind() == '"':
			r.problemType(d.text())
		case (key == "data" || key == "details") && d.kind() == '[':
			for e := d.array(); e.nextOrNull(d); {
				r.detail(d)
			}
		case key == "data" || key == "details":
			r.detail(d)
		default:
			d.skip()
		}
	}
}

// problemType takes the reason from the type of problem details, such as
// https://a2a-protocol.org/errors/task-not-found.
func (r *errorReport) problemType(uri string) {
	name := uri[strings.LastIndexByte(uri, '/')+1:]
	reason := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	if _, ok := CodeOfReason(reason); ok && r.reason == "" {
		r.reason = reason
	}
}

// detail reads one of the details of an error. Its members tell its type.
func (r *errorReport) detail(d *decoder) {
	if d.kind() != '{' {
		d.skip()
		return
	}
	for m := d.object(); m.next(d); {
		switch key := string(d.key); {
		case key == "reason" && d.kind() == '"':
			r.reason = d.text()
		case key == "metadata" && d.kind() == '{':
			r.metadata = d.textEntries()
		case (key == "fieldViolations" || key == "field_violations") && d.kind() == '[':
			for e := d.array(); e.nextOrNull(d); {
				r.violation(d)
			}
		case (key == "retryDelay" || key == "retry_delay") && d.kind() == '"':
			if delay, err := time.ParseDuration(d.text()); err == nil && delay > 0 {
				r.retryAfter = delay
			}
		default:
			d.skip()
		}
	}
}

func (r *errorReport) violation(d *decoder) {
	if d.kind() != '{' {
		d.skip()
		return
	}
	var v Violation
	for m := d.object(); m.next(d); {
		switch key := string(d.key); {
		case key == "field" && d.kind() == '"':
			v.Field = d.text()
		case key == "description" && d.kind() == '"':
			v.Description = d.text()
		default:
			d.skip()
		}
	}
	r.violations = append(r.violations, v)
}

// textEntries reads an object and keeps the members that are strings.
func (d *decoder) textEntries() map[string]string {
	entries := map[string]string{}
	for m := d.object(); m.next(d); {
		if key := string(d.key); d.kind() == '"' {
			entries[key] = d.text()
		} else {
			d.skip()
		}
	}
	return entries
}

// anyInteger reads a number; 0 when it is not a whole one of 32 bits.
func (d *decoder) anyInteger() int {
	n, err := strconv.ParseInt(string(d.value()), 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

// truncate cuts a text to at most that many bytes, between characters.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
