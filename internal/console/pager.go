package console

import (
	"maps"
	"net/url"
)

// valuesOf makes a query of names and values; empty values are left out.
func valuesOf(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Add(pairs[i], pairs[i+1])
		}
	}
	return q
}

// address is a path with a query, if there is one.
func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// pager leads to the other pages of a list; "" for none.
type pager struct{ First, Next string }

// pager returns the pager of the list at a path of the console. The filter is what the
// addresses of all its pages have; token is the parameter that tells them apart, and
// next what it is for the page that follows, "" for none.
func (v *view) pager(path string, filter url.Values, token, next string) pager {
	var p pager
	if v.query().Get(token) != "" {
		p.First = address(path, filter)
	}
	if next != "" {
		q := maps.Clone(filter)
		q.Set(token, next)
		p.Next = address(path, q)
	}
	return p
}
