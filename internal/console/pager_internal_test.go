package console

import (
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPager(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address, next string
		want          pager
	}{
		{"/console/audit", "", pager{}},
		{"/console/audit?task=a", "7", pager{Next: "/console/audit?before=7&task=a"}},
		{"/console/audit?task=a&before=9", "7", pager{First: "/console/audit?task=a", Next: "/console/audit?before=7&task=a"}},
		{"/console/audit?before=9", "", pager{First: "/console/audit"}},
	} {
		v := &view{r: httptest.NewRequest("GET", c.address, nil)}
		got := v.pager("/console/audit", valuesOf("task", v.query().Get("task"), "since", ""), "before", c.next)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.address, diff)
		}
	}
}
