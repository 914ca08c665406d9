package wire

import (
	"net/http"
	"strconv"
	"strings"

	"handoff.example/handoff/a2a"
)

// preference is what an Accept header says of one media type: the weight of the
// most specific range that it is of (RFC 9110 §12.5.1).
type preference struct {
	weight    float64
	specifics int // 0: no range has it; 1: */*; 2: type/*; 3: the type itself
}

func (p preference) named() bool { return p.specifics == 3 }

// accepts is what the Accept header says of the types that there are.
type accepts struct {
	any               bool // the header names something
	json, a2a, stream preference
}

func parseAccept(lines []string) accepts {
	var a accepts
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			mediaRange, parameters, _ := strings.Cut(item, ";")
			mediaRange = strings.TrimSpace(mediaRange)
			if mediaRange == "" {
				continue
			}
			a.any = true
			weight := weightOf(parameters)
			a.json.add(mediaRange, typeJSON[0], weight)
			a.a2a.add(mediaRange, a2a.MediaType, weight)
			a.stream.add(mediaRange, typeStream[0], weight)
		}
	}
	return a
}

// add considers one more range. Of two that are as specific the greater weight
// counts.
func (p *preference) add(mediaRange, mediaType string, weight float64) {
	if !matches(mediaRange, mediaType) {
		return
	}
	specifics := 3
	switch {
	case mediaRange == "*/*" || mediaRange == "*":
		specifics = 1
	case strings.HasSuffix(mediaRange, "/*"):
		specifics = 2
	}
	if specifics > p.specifics || specifics == p.specifics && weight > p.weight {
		p.specifics, p.weight = specifics, weight
	}
}

// weightOf returns the weight among the parameters of a range, 1 when there is
// none that can be read.
func weightOf(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		if weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && weight >= 0 && weight <= 1 {
			return weight
		}
	}
	return 1
}

// restType returns the media type of the answers to a request: that of the
// protocol for clients that name it and do not prefer the other, and plain JSON
// for the rest, some of which read nothing else. Who names neither is answered
// with the type of the request.
func restType(header http.Header) []string {
	a := parseAccept(header["Accept"])
	switch {
	case a.any && a.a2a.weight == 0:
		return typeJSON
	case a.any && a.json.weight == 0:
		return typeA2A
	case a.a2a.named():
		if a.a2a.weight >= a.json.weight {
			return typeA2A
		}
		return typeJSON
	case a.json.named():
		return typeJSON
	}
	if contentType := header["Content-Type"]; len(contentType) > 0 && strings.EqualFold(bareType(contentType[0]), a2a.MediaType) {
		return typeA2A
	}
	return typeJSON
}

// acceptable reports whether the client takes what the operation answers with.
func (x *exchange) acceptable() bool {
	a := parseAccept(x.r.Header["Accept"])
	return !a.any || a.json.weight > 0 || a.a2a.weight > 0 || x.op.streams() && a.stream.weight > 0
}
