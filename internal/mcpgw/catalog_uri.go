package mcpgw

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// uriTemplate tells which URIs a template covers (RFC 6570).
type uriTemplate struct {
	text    string
	pattern *regexp.Regexp
}

// Bounds of a template.
const maxExpressions = 32

var variable = regexp.MustCompile(`^[A-Za-z0-9_.%]+(\*|:[0-9]{1,4})?$`)

// parseTemplate reads a template.
func parseTemplate(text string) (*uriTemplate, error) {
	var b strings.Builder
	b.WriteString(`\A`)
	rest := text
	for n := 0; rest != ""; n++ {
		if n > maxExpressions {
			return nil, fmt.Errorf("its URI template has more than %d expressions", maxExpressions)
		}
		literal, after, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return nil, errors.New("its URI template has a } without a {")
		}
		b.WriteString(regexp.QuoteMeta(literal))
		if !found {
			break
		}
		expression, after, found := strings.Cut(after, "}")
		if !found || expression == "" {
			return nil, errors.New("its URI template has an expression without an end")
		}
		rest = after
		part, err := expressionPattern(expression)
		if err != nil {
			return nil, err
		}
		b.WriteString(part)
	}
	b.WriteString(`\z`)
	pattern, err := regexp.Compile(b.String())
	if err != nil {
		return nil, errors.New("its URI template cannot be used")
	}
	return &uriTemplate{text, pattern}, nil
}

// expressionPattern returns what an expression can become.
func expressionPattern(expression string) (string, error) {
	operator := byte(0)
	if strings.IndexByte("+#./;?&", expression[0]) >= 0 {
		operator, expression = expression[0], expression[1:]
	}
	names := strings.Split(expression, ",")
	for _, name := range names {
		if !variable.MatchString(name) {
			return "", errors.New("its URI template has a variable that is none")
		}
	}
	const plain = `[^/?#\s]`
	switch operator {
	case '+':
		return `[^#\s]+`, nil
	case '#':
		return `(?:#\S*)?`, nil
	case '.':
		return `(?:\.[^/?#\s]+)*`, nil
	case '/':
		if strings.Contains(expression, "*") {
			return `(?:/` + plain + `*)*`, nil
		}
		return fmt.Sprintf(`(?:/%s*){0,%d}`, plain, len(names)), nil
	case ';':
		return `(?:;[^/?#\s]*)*`, nil
	case '?':
		return `(?:\?[^#\s]*)?`, nil
	case '&':
		return `(?:&[^#\s]*)*`, nil
	}
	return plain + `+`, nil
}

// covers reports whether a URI is one of the template.
func (t *uriTemplate) covers(uri string) bool { return t.pattern.MatchString(uri) }

// spellings returns the ways in which a server might read a URI, the one that is
// written first. One that leads out of where it seems to be, or that hides what it
// is, is refused: what policy says of a URI has to hold for each spelling of it
// (RSC-02).
func spellings(uri string) ([]string, bool) {
	if len(uri) > maxURI || strings.ContainsFunc(uri, isHarmful) || strings.ContainsAny(uri, " \\") {
		return nil, false
	}
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok || scheme == "" || scheme != strings.ToLower(scheme) {
		return nil, false
	}
	list := []string{uri}
	plain := uri
	for range 5 {
		decoded, err := url.PathUnescape(plain)
		if err != nil {
			break // what is left is text with a % in it
		}
		if decoded == plain {
			break
		}
		plain = decoded
	}
	if strings.ContainsFunc(plain, isHarmful) || strings.Contains(plain, "\\") || hasDots(plain) {
		return nil, false
	}
	if again, err := url.PathUnescape(plain); err == nil && again != plain {
		return nil, false // escaped more often than anybody needs
	}
	add := func(s string) {
		for _, known := range list {
			if known == s {
				return
			}
		}
		list = append(list, s)
	}
	add(plain)
	add(norm.NFC.String(plain))
	add(norm.NFKC.String(plain))
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		host, below, slash := strings.Cut(authority, "/")
		if lower := strings.ToLower(host); lower != host {
			return nil, false
		}
		if slash {
			// Empty parts of a path mean nothing to file systems.
			decoded, err := url.PathUnescape(below)
			if err != nil {
				decoded = below
			}
			add(scheme + "://" + host + path.Clean("/"+decoded))
			if host == "" && scheme != "file" { // some readers take the first part of the path for the host
				add(scheme + "://" + strings.TrimLeft(path.Clean("/"+decoded), "/"))
			}
		}
		// What a reader that parses the authority takes for the host.
		if bare := bareHost(host); bare != host {
			add(scheme + "://" + bare + strings.TrimPrefix(authority, host))
		}
	}
	return list, true
}

// hasDots reports whether a part of a path is . or .. .
func hasDots(uri string) bool {
	for part := range strings.FieldsFuncSeq(uri, func(r rune) bool { return r == '/' || r == '?' || r == '#' || r == ';' }) {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// bareHost returns an authority without who logs in, the port, and the dot at the
// end.
func bareHost(authority string) string {
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.Trim(host[i+1:], "0123456789") == "" {
		host = host[:i]
	}
	return strings.TrimRight(host, ".")
}
