package page

import (
	"strings"
	"testing"

	"agentd/internal/base/fault"
)

func TestLimitIsClampedAndNeverRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]int{
		"": 20, "x": 20, "1.5": 20, "ten": 20, "5": 5, " 7 ": 7, "1": 1, "100": 100, "101": 100,
		"0": 1, "-3": 1, "99999999999999999999999": 100, "-99999999999999999999999": 1,
	}
	for s, want := range tests {
		if got := Limit(s, 20, 100); got != want {
			t.Errorf("Limit(%q) = %d, want %d", s, got, want)
		}
	}
}

func scope() Scope { return Scope{Tenant: "t", List: "runs", Filter: []string{"a", "desc"}} }

func TestCursorsAreBoundToTheirList(t *testing.T) {
	t.Parallel()
	c := NewCursors([]byte("0123456789abcdef"))
	for _, position := range []string{"x", "01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f10", "ä\x00", strings.Repeat("p", 1000)} {
		if got, err := c.Open(scope(), c.Seal(scope(), position)); err != nil || got != position {
			t.Errorf("%q opens as %q, %v", position, got, err)
		}
	}
	sealed := c.Seal(scope(), "here")
	others := map[string]func(*Scope){
		"tenant":        func(s *Scope) { s.Tenant = "u" },
		"list":          func(s *Scope) { s.List = "agents" },
		"filter":        func(s *Scope) { s.Filter[0] = "b" },
		"order":         func(s *Scope) { s.Filter[1] = "asc" },
		"more_filter":   func(s *Scope) { s.Filter = append(s.Filter, "") },
		"moved_borders": func(s *Scope) { s.Filter = []string{"ad", "esc"} },
	}
	for name, change := range others {
		s := scope()
		change(&s)
		if _, err := c.Open(s, sealed); !refused(err) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if _, err := NewCursors([]byte("another key than that")).Open(scope(), sealed); !refused(err) {
		t.Errorf("another deployment: %v", err)
	}
	if got, err := c.Open(scope(), ""); got != "" || err != nil {
		t.Errorf("the first page: %q, %v", got, err)
	}
}

func refused(err error) bool {
	f := fault.From(err)
	return f != nil && f.Kind == fault.Invalid && f.Code == "INVALID_CURSOR" && f.Fields == nil
}

func FuzzOpen(f *testing.F) {
	c := NewCursors([]byte("0123456789abcdef"))
	f.Add("")
	f.Add("bm9uZQ")
	f.Add(c.Seal(scope(), "here"))
	f.Add(strings.Repeat("A", 16))
	f.Fuzz(func(t *testing.T, cursor string) {
		position, err := c.Open(scope(), cursor)
		switch {
		case cursor == "" || err != nil:
			if err != nil && !refused(err) {
				t.Errorf("%q: %v", cursor, err)
			}
		case c.Seal(scope(), position) != cursor:
			t.Errorf("%q was not sealed here and opens as %q", cursor, position)
		}
	})
}
