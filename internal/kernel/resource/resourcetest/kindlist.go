package resourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// page reads one page: its ids, the cursor to the next.
func (s *suite[T]) page(t *testing.T, args Args) (ids []string, cursor string) {
	t.Helper()
	reply, err := s.Do(t.Context(), "GET", s.store.Path, args)
	if err != nil {
		t.Fatalf("listing with %v: %v", args, err)
	}
	object := Object(t, reply)
	for _, item := range object["items"].([]any) {
		ids = append(ids, item.(map[string]any)[s.store.IDField].(string))
	}
	for _, key := range s.store.Keys {
		if diff := cmp.Diff(object["items"], object[key]); diff != "" {
			t.Errorf("%s is not items: %s", key, diff)
		}
	}
	cursor, more := object["cursor"].(string)
	if object["has_more"] != more {
		t.Errorf("has_more is %v with the cursor %v", object["has_more"], object["cursor"])
	}
	return ids, cursor
}

func (s *suite[T]) list(t *testing.T) {
	maximum := s.store.MaxPageSize
	var ids []string
	for range maximum + 3 {
		id, _ := s.made(t, s.Minimal)
		ids = append(ids, id)
	}
	slices.Reverse(ids)
	for limit, want := range map[string]int{
		"": s.store.PageSize, "x": s.store.PageSize, "1": 1, "0": 1, "-5": 1, fmt.Sprint(maximum): maximum,
		fmt.Sprint(maximum + 1): maximum, "99999999999999999999": maximum,
	} {
		got, _ := s.page(t, Args{"limit": limit})
		if !slices.Equal(got, ids[:want]) {
			t.Errorf("limit %q gives %d, not the newest %d", limit, len(got), want)
		}
	}
	var paged []string
	added := 0
	for cursor := ""; ; {
		got, next := s.page(t, Args{"limit": "7", "cursor": cursor})
		paged = append(paged, got...)
		if next == "" {
			break
		}
		cursor = next
		s.made(t, s.Minimal) // newer than every page to come
		added++
	}
	if !slices.Equal(paged, ids) || added == 0 {
		t.Errorf("pages give %d, want the %d that were there, once and in order", len(paged), len(ids))
	}
	first, _ := s.page(t, Args{"limit": "1"})
	shown, _ := s.shown(t, first[0])
	reply, err := s.Do(t.Context(), "GET", s.store.Path, Args{"limit": "1"})
	if diff := cmp.Diff([]any{shown}, Object(t, reply)["items"]); err != nil || diff != "" {
		t.Errorf("an item is not what GET answers: %v %s", err, diff)
	}
}

func (s *suite[T]) cursors(t *testing.T) {
	for range 3 {
		s.made(t, s.Minimal)
	}
	_, cursor := s.page(t, Args{"limit": "1"})
	forged := []byte(cursor)
	forged[0] ^= 1 // another letter of base64, but for a few that are no base64
	bad := []string{"x", cursor + "A", cursor + "\n", string(forged), cursor[:len(cursor)-1] + "~", cursor[:8], "null"}
	for _, c := range bad {
		_, err := s.Do(t.Context(), "GET", s.store.Path, Args{"cursor": c})
		if e := WantFault(t, err, fault.Invalid, "INVALID_CURSOR"); e.Fields != nil {
			t.Errorf("a bad cursor names fields %v", e.Fields)
		}
	}
	_, err := NewClient(s.Routes).Do(t.Context(), "GET", s.store.Path, Args{"cursor": cursor})
	WantFault(t, err, fault.Invalid, "INVALID_CURSOR")
	for _, name := range s.store.Filters {
		_, err := s.Do(t.Context(), "GET", s.store.Path, Args{"cursor": cursor, name: "another"})
		WantFault(t, err, fault.Invalid, "INVALID_CURSOR")
	}
}

// moves proves the table of moves: in every state, every action does what the
// table says and nothing else.
func (s *suite[T]) moves(t *testing.T) {
	if len(s.store.Moves) == 0 {
		t.Skip("this kind has no states")
	}
	ways := s.ways()
	for _, m := range s.store.Moves {
		for _, state := range append(slices.Clone(m.From), m.To) {
			if ways[state] == nil {
				t.Errorf("no moves lead to the state %s", state)
			}
		}
	}
	for state, way := range ways {
		for _, m := range s.store.Moves {
			id, _ := s.made(t, s.Full)
			for _, action := range way {
				if _, err := s.Do(t.Context(), "POST", s.item()+"/"+action, s.on(id, "")); err != nil {
					t.Fatalf("%s on the way to %s: %v", action, state, err)
				}
			}
			before := s.outbox.Of(id)
			reply, err := s.Do(t.Context(), "POST", s.item()+"/"+m.Action, s.on(id, ""))
			if !slices.Contains(m.From, state) {
				WantFault(t, err, fault.Conflict, "INVALID_STATE_TRANSITION")
				if now := s.outbox.Of(id); now != before {
					t.Errorf("a refused %s published %q", m.Action, now)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s in %s: %v", m.Action, state, err)
				continue
			}
			after, err := s.store.Get(t.Context(), s.Who.TenantID, id)
			if err != nil || *s.store.State(after) != m.To {
				t.Errorf("%s in %s leads to %s, %v", m.Action, state, *s.store.State(after), err)
			}
			shown, tag := s.shown(t, id)
			if diff := cmp.Diff(shown, Object(t, reply)); diff != "" || tag != reply.ETag {
				t.Errorf("%s answers another thing than GET: %s", m.Action, diff)
			}
			if now := s.outbox.Of(id); now != before+" "+m.Action {
				t.Errorf("%s published %q", m.Action, now)
			}
		}
	}
}

// ways returns, for every state that can be reached, the actions that lead there.
func (s *suite[T]) ways() map[string][]string {
	start := *s.store.State(s.store.Blank())
	ways := map[string][]string{start: {}}
	for grew := true; grew; {
		grew = false
		for _, m := range s.store.Moves {
			for _, from := range m.From {
				if way, known := ways[from]; known && ways[m.To] == nil {
					ways[m.To] = append(slices.Clone(way), m.Action)
					grew = true
				}
			}
		}
	}
	return ways
}

var errCommit = errors.New("the commit failed")

// noCommit runs transactions that fail at their end.
type noCommit struct{ txn.Writer }

func (w noCommit) Write(ctx context.Context, do func(txn.Tx) error) error {
	return w.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return errCommit
	})
}

// rollback makes every write fail at its end: nothing may be stored or published.
func (s *suite[T]) rollback(t *testing.T) {
	id, before := s.made(t, s.Full)
	deps := s.deps
	deps.Writer = noCommit{deps.Writer}
	broken := Client{resource.Routes(s.build(deps)), s.Who}
	_, err := broken.Do(t.Context(), "POST", s.store.Path, Args{"": numbered(s.Full)})
	if !errors.Is(err, errCommit) {
		t.Errorf("creating: %v", err)
	}
	failing := &suite[T]{Samples: s.Samples, Client: broken, store: s.store}
	failed := 0
	for op, err := range failing.everything(t.Context(), s.Who, id, "") {
		if errors.Is(err, errCommit) {
			failed++
		} else if err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if failed == 0 && s.has("PATCH") {
		t.Error("nothing was tried")
	}
	after, tag := s.shown(t, id)
	if diff := cmp.Diff(before, after); diff != "" || tag != "1" {
		t.Errorf("after rollbacks: %s", diff)
	}
	if got := s.outbox.Of(id); got != "created" {
		t.Errorf("published %q", got)
	}
	if ids, _ := s.page(t, nil); len(ids) != 1 {
		t.Errorf("%d resources after rollbacks", len(ids))
	}
}

// typed uses the store as slices do.
func (s *suite[T]) typed(t *testing.T) {
	id, _ := s.made(t, s.Full)
	got, err := s.store.Get(t.Context(), s.Who.TenantID, id)
	if err != nil {
		t.Fatal(err)
	}
	_, tag := s.shown(t, id)
	reply, err := s.store.Reply(got)
	if err != nil || reply.ETag != tag {
		t.Errorf("%v, ETag %s", err, reply.ETag)
	}
	shown, _ := s.shown(t, id)
	if diff := cmp.Diff(shown, Object(t, reply)); diff != "" {
		t.Errorf("rendered from its type: %s", diff)
	}
	all, err := s.store.List(t.Context(), s.Who.TenantID, resource.Find{Limit: 9})
	if diff := cmp.Diff([]*T{got}, all); err != nil || diff != "" {
		t.Errorf("typed list: %v %s", err, diff)
	}
	refusal := errors.New("refused")
	if _, err := s.store.Update(t.Context(), s.Who, id, func(txn.Tx, *T) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("a refused update: %v", err)
	}
	if _, err := s.store.Update(t.Context(), s.Who, id, func(txn.Tx, *T) error { return nil }); err != nil {
		t.Error(err)
	}
	stranger := authz.Caller{TenantID: NewClient(nil).Who.TenantID}
	if err := s.store.Delete(t.Context(), stranger, id); !fault.Is(err, fault.NotFound) {
		t.Errorf("a stranger deletes: %v", err)
	}
	if err := s.store.Delete(t.Context(), s.Who, id); err != nil {
		t.Error(err)
	}
	if _, err := s.store.Get(t.Context(), s.Who.TenantID, id); !fault.Is(err, fault.NotFound) {
		t.Errorf("after the deletion: %v", err)
	}
	if got := s.outbox.Of(id); got != "created updated deleted" {
		t.Errorf("published %q", got)
	}
}

// noneMatch reads a resource that the client may have already.
func (s *suite[T]) noneMatch(t *testing.T) {
	id, _ := s.made(t, s.Full)
	for header, status := range map[string]int{`"1"`: 304, `W/"1"`: 304, `"7", "1"`: 304, `*`: 304, `"2"`: 0, `""`: 0, ``: 0} {
		args := s.on(id, "")
		args["If-None-Match"] = header
		reply, err := s.Do(t.Context(), "GET", s.item(), args)
		if err != nil || reply.Status != status || (reply.JSON == nil) != (status == 304) || reply.ETag != "1" {
			t.Errorf("If-None-Match %s: %+v, %v", header, reply, err)
		}
	}
	stranger := NewClient(s.Routes)
	args := s.on(id, "")
	args["If-None-Match"] = "*"
	if _, err := stranger.Do(t.Context(), "GET", s.item(), args); !fault.Is(err, fault.NotFound) {
		t.Errorf("a stranger: %v", err)
	}
}
