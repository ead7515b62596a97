package protocol

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/ident"
)

// Lists clamp their limit and are paged by cursors.
func TestLists(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"model": apptest.EchoModel})
	for _, list := range []struct {
		name, path, id string
		usual, most    int
		add            func(i int) string
	}{
		{"agents", "/api/v1/agents", "agent_id", 20, 100, func(i int) string { return n.CreateAgent(object{"name": fmt.Sprint("a", i)}) }},
		{"runs", "/api/v1/runs", "run_id", 20, 100, func(i int) string { return n.StartRun(agent, fmt.Sprint("r", i), nil) }},
		{"customers", "/api/v1/commerce/customers", "id", 50, 200, func(i int) string {
			return n.Expect(201, "POST", "/api/v1/commerce/customers", object{"name": fmt.Sprint("c", i)})["id"].(string)
		}},
		{"files", "/api/v1/files", "file_id", 20, 100, func(i int) string {
			return n.Expect(201, "POST", "/api/v1/files", object{"data": "", "mime_type": "text/plain", "filename": fmt.Sprint("f", i)})["file_id"].(string)
		}},
	} {
		t.Run(list.name, func(t *testing.T) {
			if list.name != "agents" {
				empty := n.Do("GET", list.path, nil)
				want := object{"items": []any{}, "cursor": nil, "has_more": false}
				if list.name == "customers" { // which are counted
					want["total"] = 0.0
				}
				if diff := cmp.Diff(want, unaliased(empty.JSON, list.name)); diff != "" {
					t.Errorf("the empty list (-want +got):\n%s", diff)
				}
			}
			var newest []string
			if list.name == "agents" {
				newest = []string{agent}
			}
			for i := len(newest); i < list.most+5; i++ {
				newest = append(newest, list.add(i))
			}
			slices.Reverse(newest)
			page := func(query string) object { return n.Expect(200, "GET", list.path+query, nil) }

			for limit, want := range map[string]int{
				"": list.usual, "1": 1, "7": 7, "0": 1, "-1": 1, "-9223372036854775808": 1, "abc": list.usual, "1.5": list.usual, "1e1": list.usual,
				"0x10": list.usual, " ": list.usual, "\x00": list.usual, "\xff": list.usual, "null": list.usual, "+3": 3, " 3 ": 3, "003": 3,
				fmt.Sprint(list.most): list.most, fmt.Sprint(list.most + 1): list.most, "1000": list.most, "-" + strings.Repeat("9", 40): 1, strings.Repeat("9", 40): list.most,
			} {
				got := page("?limit=" + url.QueryEscape(limit))
				if diff := cmp.Diff(newest[:want], apptest.IDs(t, got, list.id)); diff != "" {
					t.Errorf("limit %q: (-want +got):\n%s", limit, diff)
				}
				if got["has_more"] != true || got["cursor"] == nil {
					t.Errorf("limit %q: has_more %v, cursor %v", limit, got["has_more"], got["cursor"])
				}
			}
			if got := apptest.IDs(t, page("?limit=2&limit=5"), list.id); len(got) != 2 {
				t.Errorf("of two limits, the first counts: %d", len(got))
			}

			// Every page once, though something is added meanwhile.
			var walked []string
			cursor := ""
			for first := true; first || cursor != ""; first = false {
				got := page("?limit=33&cursor=" + url.QueryEscape(cursor))
				walked = append(walked, apptest.IDs(t, got, list.id)...)
				if cursor, _ = got["cursor"].(string); (cursor == "") == got["has_more"].(bool) {
					t.Fatalf("has_more %v, cursor %q", got["has_more"], cursor)
				}
				if first {
					list.add(1000)
				}
			}
			if diff := cmp.Diff(newest, walked); diff != "" {
				t.Errorf("the walk (-want +got):\n%s", diff)
			}
		})
	}
}

// unaliased leaves out the older name under which a list repeats its items.
func unaliased(page object, key string) object {
	delete(page, key)
	return page
}

// A page that holds everything is the last.
func TestLastPage(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	n.CreateAgent(nil)
	n.CreateAgent(nil)
	for limit, more := range map[int]bool{1: true, 2: false, 3: false} {
		got := n.Expect(200, "GET", fmt.Sprint("/api/v1/agents?limit=", limit), nil)
		if got["has_more"] != more || (got["cursor"] != nil) != more {
			t.Errorf("limit %d: has_more %v, cursor %v", limit, got["has_more"], got["cursor"])
		}
	}
}

// A cursor is valid only for the list, filter, order and caller that it was
// issued for.
func TestCursors(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	n := apptest.Start(t, nil)
	agents := []string{n.CreateAgent(object{"model": apptest.EchoModel}), n.CreateAgent(object{"model": apptest.EchoModel})}
	for _, agent := range agents {
		n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"description": "x"})
		for range 2 {
			n.WaitRun(n.StartRun(agent, "hello", nil))
		}
	}
	for _, name := range []string{"a", "b"} {
		n.Expect(201, "POST", "/api/v1/commerce/customers", object{"name": name})
	}
	for range 2 {
		n.Expect(201, "POST", "/api/v1/files", object{"data": "", "mime_type": "text/plain"})
		n.Expect(201, "POST", "/api/v1/workspaces", nil)
	}
	ran := n.CreateAgent(object{"model": apptest.EchoModel, "built_in_tools": []string{"calculator"}})
	run := n.StartRun(ran, "calculate 1+1", nil)
	n.WaitRun(run)

	lists := []string{
		"/api/v1/agents?", "/api/v1/runs?", "/api/v1/runs?order=asc", "/api/v1/runs?agent_id=" + agents[0], "/api/v1/runs?agent_id=" + agents[1],
		"/api/v1/runs?status=completed", "/api/v1/runs?status=completed&order=asc", "/api/v1/commerce/customers?",
		"/api/v1/agents/" + agents[0] + "/versions?", "/api/v1/agents/" + agents[1] + "/versions?", "/api/v1/runs/" + run + "/steps?",
		"/api/v1/files?", "/api/v1/files?mime_prefix=text/", "/api/v1/workspaces?",
	}
	cursors := make([]string, len(lists))
	for i, list := range lists {
		cursor, ok := n.Expect(200, "GET", list+"&limit=1", nil)["cursor"].(string)
		if !ok {
			t.Fatalf("%s has one page", list)
		}
		cursors[i] = cursor
	}
	refused := func(t *testing.T, r apptest.Reply) {
		t.Helper()
		apptest.CheckCode(t, r, 422, "INVALID_CURSOR")
		if _, has := r.JSON["errors"]; has {
			t.Errorf("errors beside INVALID_CURSOR: %s", r.Body)
		}
	}
	for i, list := range lists {
		t.Run(strings.Trim(contracttest.NotWord.ReplaceAllString(list, "_"), "_"), func(t *testing.T) {
			for j, cursor := range cursors {
				r := n.Do("GET", list+"&cursor="+cursor, nil)
				if i == j && r.StatusCode != 200 {
					t.Errorf("its own cursor: %d %s", r.StatusCode, r.Body)
				}
				if i != j {
					refused(t, r)
				}
			}
			good := cursors[i]
			for _, cursor := range []string{
				"x", "0", "null", "!", "%20", good[:len(good)-1], good + "A", good + "=", strings.ToUpper(good), good + "%20", "%00", "%ff",
				ident.New(), strings.Repeat("A", 16), strings.Repeat("A", 40_000), flipped(good, 3), flipped(good, len(good)-3), url.QueryEscape("' OR 1=1 --"),
			} {
				refused(t, n.Do("GET", list+"&cursor="+cursor, nil))
			}
			if r := n.Do("GET", list+"&cursor=", nil); r.StatusCode != 200 {
				t.Errorf("an empty cursor is the first page: %d", r.StatusCode)
			}
			// The limit is no filter.
			n.Expect(200, "GET", list+"&limit=50&cursor="+good, nil)
		})
	}
	if list := lists[5]; apptest.IDs(t, n.Expect(200, "GET", list+"&limit=1&order=desc", nil), "run_id") == nil {
		t.Error("order=desc is the order without one")
	}
	// The same filter with the default spelt out is the same list.
	n.Expect(200, "GET", lists[1]+"order=desc&cursor="+cursors[1], nil)
}

func flipped(s string, at int) string {
	b := []byte(s)
	if b[at] == 'A' {
		b[at] = 'B'
	} else {
		b[at] = 'A'
	}
	return string(b)
}

// Lists that are not paged by themselves are paged by a limit.
func TestWindowedLists(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"model": apptest.EchoModel, "built_in_tools": []string{"calculator"}})
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"description": "x"})
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"description": "y"})
	run := n.StartRun(agent, "calculate 1+1", nil)
	n.WaitRun(run)
	for path, key := range map[string]string{"/api/v1/runs/" + run + "/steps": "steps", "/api/v1/agents/" + agent + "/versions": "items"} {
		whole := n.Expect(200, "GET", path, nil)
		all := whole[key].([]any)
		if len(all) != 3 || whole["total"] != 3.0 {
			t.Fatalf("%s: %v", path, whole)
		}
		for _, name := range []string{"has_more", "cursor"} {
			if _, has := whole[name]; has {
				t.Errorf("%s has %s, though nobody asked for a page", path, name)
			}
		}
		first := n.Expect(200, "GET", path+"?limit=2", nil)
		rest := n.Expect(200, "GET", path+"?limit=2&cursor="+first["cursor"].(string), nil)
		if diff := cmp.Diff(all, append(slices.Clone(first[key].([]any)), rest[key].([]any)...)); diff != "" {
			t.Errorf("%s in pages:\n%s", path, diff)
		}
		if first["has_more"] != true || rest["has_more"] != false || rest["cursor"] != nil || rest["total"] != 3.0 {
			t.Errorf("%s: %v, %v", path, first["has_more"], rest)
		}
		for limit, want := range map[string]int{"0": 1, "-5": 1, "x": 3, "1000": 3} {
			if got := n.Expect(200, "GET", path+"?limit="+limit, nil)[key].([]any); len(got) != want {
				t.Errorf("%s?limit=%s: %d", path, limit, len(got))
			}
		}
	}
}
