package auth

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

func TestKeyForm(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^hk_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$`)
	seen := map[string]bool{}
	for range 1000 {
		key := newKey()
		if !form.MatchString(key) || !isKey(key) || seen[keyID(key)] || seen[key] {
			t.Fatalf("%q", key)
		}
		seen[key], seen[keyID(key)] = true, true
		if isCompactJWS(key) {
			t.Fatalf("%q is taken for a token", key)
		}
		for _, i := range []int{0, 3, 14, 15, 20, 60, len(key) - 1} {
			changed := []byte(key)
			if changed[i]++; isKey(string(changed)) {
				t.Errorf("%q passes for a key", changed)
			}
		}
	}
	// Every digit comes, and about as often as any other.
	count := map[rune]int{}
	for _, c := range randomText(62_000) {
		count[c]++
	}
	for _, c := range keyDigits {
		if count[c] < 700 || count[c] > 1300 {
			t.Errorf("%c comes %d times in 62,000", c, count[c])
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	c := newClock()
	keys, table := newTestKeys(c)
	text, row, err := keys.Create(t.Context(), &KeyRequest{
		Subject: "erp", Tenant: "acme", Role: RoleOperator, Scopes: []string{"quotes"}, Expires: c.now().Add(time.Hour), By: "root",
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(row.Hash), text) || len(row.Hash) != 32 || row.By != "root" {
		t.Errorf("kept: %+v", row)
	}
	p, err := keys.authenticate(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	// A key is not a caller of its own.
	if diff := cmp.Diff(Principal{Tenant: "acme", Issuer: issuerKeys, Subject: "erp", Scopes: []string{"quotes"}, Role: RoleOperator, Key: row.ID}, p); diff != "" {
		t.Error(diff)
	}
	other := newKey()
	if _, err := keys.authenticate(t.Context(), other); !is[keyError](err) {
		t.Errorf("a key that was never made: %v", err)
	}
	// The id of a key without its secret is nothing.
	body := text[:len(keyPrefix)+keyIDLength+1] + randomText(keySecret)
	if _, err := keys.authenticate(t.Context(), body+checksum(body)); !is[keyError](err) {
		t.Errorf("the id with another secret: %v", err)
	}
	c.add(time.Hour)
	if _, err := keys.authenticate(t.Context(), text); !is[keyError](err) {
		t.Errorf("an expired key: %v", err)
	}
	if list, err := keys.List(t.Context()); err != nil || len(list) != 1 || list[0].Hash != nil {
		t.Errorf("listed: %+v, %v", list, err)
	}
	if len(table.rows) != 1 {
		t.Errorf("%d rows", len(table.rows))
	}
	for name, q := range map[string]KeyRequest{
		"nobody":        {Role: RoleCaller},
		"no role":       {Subject: "a"},
		"a bad tenant":  {Subject: "a", Role: RoleCaller, Tenant: "Acme Inc"},
		"a bad scope":   {Subject: "a", Role: RoleCaller, Scopes: []string{"a b"}},
		"in the past":   {Subject: "a", Role: RoleCaller, Expires: c.now()},
		"for ever":      {Subject: "a", Role: RoleCaller, Expires: c.now().Add(11 * 365 * 24 * time.Hour)},
		"a line":        {Subject: "a\nb", Role: RoleCaller},
		"a long name":   {Subject: strings.Repeat("a", 256), Role: RoleCaller},
		"not UTF-8":     {Subject: "a\xff", Role: RoleCaller},
		"only a space":  {Subject: " ", Role: RoleCaller},
		"many scopes":   {Subject: "a", Role: RoleCaller, Scopes: slices.Repeat([]string{"s"}, 201)},
		"space at last": {Subject: "a ", Role: RoleCaller},
	} {
		if _, _, err := keys.Create(t.Context(), &q); a2a.CodeOf(err) != a2a.CodeInvalidParams {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A revoked key is refused at once where it was revoked, and within five seconds
// by every other node of the store.
func TestRevokedKeys(t *testing.T) {
	t.Parallel()
	c := newClock()
	here, table := newTestKeys(c)
	elsewhere, _ := newTestKeys(c)
	elsewhere.store = table
	text, row, err := here.Create(t.Context(), &KeyRequest{Subject: "erp", Role: RoleCaller})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*Keys{here, elsewhere} {
		if _, err := k.authenticate(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := here.Revoke(t.Context(), row.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := here.authenticate(t.Context(), text); !is[keyError](err) {
		t.Errorf("where it was revoked: %v", err)
	}
	c.add(5 * time.Second)
	if _, err := elsewhere.authenticate(t.Context(), text); !is[keyError](err) {
		t.Errorf("elsewhere, after 5 s: %v", err)
	}
	if err := here.Revoke(t.Context(), "unknown"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown key: %v", err)
	}
}

// The store is asked once in a while for a key, and written to less often still.
func TestKeyCache(t *testing.T) {
	t.Parallel()
	c := newClock()
	keys, table := newTestKeys(c)
	text, row, err := keys.Create(t.Context(), &KeyRequest{Subject: "erp", Role: RoleCaller})
	if err != nil {
		t.Fatal(err)
	}
	unknown := newKey()
	began := c.now()
	for range 100 {
		if _, err := keys.authenticate(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		if _, err := keys.authenticate(t.Context(), unknown); !is[keyError](err) {
			t.Fatal(err)
		}
	}
	if table.reads != 2 {
		t.Errorf("%d reads of two keys", table.reads)
	}
	c.add(time.Minute)
	if _, err := keys.authenticate(t.Context(), text); err != nil || !table.rows[row.ID].Used.Equal(began) {
		t.Errorf("used at %v, %v", table.rows[row.ID].Used, err)
	}
	c.add(keyUsedCoarse)
	if _, err := keys.authenticate(t.Context(), text); err != nil || !table.rows[row.ID].Used.Equal(c.now()) {
		t.Errorf("used at %v, %v", table.rows[row.ID].Used, err)
	}
	table.down = true
	c.add(keyCacheTime)
	if _, err := keys.authenticate(t.Context(), text); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without the store: %v", err)
	}
}
