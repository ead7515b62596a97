package workspace

import (
	"testing"

	"agentd/internal/base/fault"
)

// A node has 8 terminals, 4 of a company and 2 in a workspace; each that is closed makes room
// for another.
func TestLimitsOfTerminals(t *testing.T) {
	t.Parallel()
	ts := &Terminals{}
	var leaving []func()
	open := func(tenant, workspace string, want fault.Kind, code string) {
		t.Helper()
		leave, err := ts.enter(tenant, workspace)
		if err == nil {
			leaving = append(leaving, leave)
		}
		if (err != nil) != (code != "") {
			t.Fatalf("%s, %s: %v", tenant, workspace, err)
		}
		if e := fault.From(err); err != nil && (e.Kind != want || e.Code != code || e.RetryAfter == 0) {
			t.Errorf("%s, %s: %+v", tenant, workspace, e)
		}
	}
	for _, at := range []string{"a1", "a1", "a2", "a2", "b1", "b1", "b2"} {
		open(at[:1], at, 0, "")
	}
	open("a", "a1", fault.Limited, "TERMINAL_LIMIT") // of the workspace
	open("a", "a3", fault.Limited, "TERMINAL_LIMIT") // of the company
	open("c", "c1", 0, "")
	open("c", "c1", fault.Unavailable, "SERVICE_UNAVAILABLE") // of the node
	leaving[0]()
	open("c", "c1", 0, "")
	for _, leave := range leaving[1:] {
		leave()
	}
	if ts.all != 0 || len(ts.each) != 0 {
		t.Errorf("%d terminals are left: %v", ts.all, ts.each)
	}
}
