package page

import (
	"strings"
	"testing"

	"agentd/internal/fault"
)

func TestLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 20, " ": 20, "abc": 20, "1.5": 20, "0x10": 20, "1 2": 20, "\x00": 20, "-": 20,
		"7": 7, " 7 ": 7, "+7": 7, "007": 7, "100": 100,
		"0": 1, "-3": 1, "-" + strings.Repeat("9", 40): 1, "101": 100, strings.Repeat("9", 40): 100,
	} {
		if got := Limit(text, 20, 100); got != want {
			t.Errorf("Limit(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestCursorIsBoundToItsScope(t *testing.T) {
	t.Parallel()
	c := NewCursors([]byte("a secret of this deployment"))
	scope := Scope{Tenant: "t1", List: "runs", Filter: []string{"a", ""}}
	sealed := c.Seal(scope, "17")
	if got, err := c.Open(scope, sealed); got != "17" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := c.Open(scope, ""); got != "" || err != nil {
		t.Errorf("the first page: %q, %v", got, err)
	}
	for name, other := range map[string]Scope{
		"tenant": {"t2", "runs", []string{"a", ""}},
		"list":   {"t1", "agents", []string{"a", ""}},
		"filter": {"t1", "runs", []string{"b", ""}},
		"shift":  {"t1", "runs", []string{"", "a"}},
		"fewer":  {"t1", "runs", []string{"a"}},
		"more":   {"t1", "runs", []string{"a", "", ""}},
		"joined": {"t1", "run", []string{"sa", ""}},
	} {
		if got, err := c.Open(other, sealed); err == nil {
			t.Errorf("%s: opened as %q", name, got)
		}
	}
	if _, err := NewCursors([]byte("a secret of another one")).Open(scope, sealed); err == nil {
		t.Error("another deployment's cursor opens")
	}
}

// Nothing opens but what was sealed.
func FuzzOpen(f *testing.F) {
	c := NewCursors([]byte("a secret of this deployment"))
	scope := Scope{Tenant: "t1", List: "runs"}
	sealed := c.Seal(scope, "17")
	f.Add(sealed)
	f.Add(sealed[1:])
	f.Add(sealed + "AA")
	f.Add("=")
	f.Add(sealed + "\n")
	f.Add("ynvgA1Dk7dCmOQAzMTd") // spare bits that are not zero
	f.Fuzz(func(t *testing.T, cursor string) {
		got, err := c.Open(scope, cursor)
		switch {
		case cursor == "" || c.Seal(scope, got) == cursor && err == nil:
		case err == nil:
			t.Errorf("%q opens as %q", cursor, got)
		case fault.From(err).Code != "INVALID_CURSOR":
			t.Errorf("%q: %v", cursor, err)
		}
	})
}
