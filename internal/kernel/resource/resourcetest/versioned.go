package resourcetest

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// Versioned tests a kind with versions on a backend, through its routes: first
// all of [Kind], then its versions. build makes its store. The samples need two
// changes of what versions record.
func Versioned[T any](
	t *testing.T, backend resource.Backend, writer txn.Writer, build func(resource.Deps) *resource.Versioned[T], samples Samples,
) {
	Kind(t, backend, writer, func(deps resource.Deps) *resource.Store[T] { return build(deps).Store }, samples)
	Versions(t, backend, writer, build, samples)
}

// Versions is the second part of [Versioned].
func Versions[T any](
	t *testing.T, backend resource.Backend, writer txn.Writer, build func(resource.Deps) *resource.Versioned[T], samples Samples,
) {
	tests := map[string]func(*versionSuite[T], *testing.T){
		"versions":           (*versionSuite[T]).history,
		"version_rollback":   (*versionSuite[T]).rollback,
		"version_diff":       (*versionSuite[T]).diff,
		"version_pages":      (*versionSuite[T]).pages,
		"versions_of_others": (*versionSuite[T]).others,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deps, outbox := Deps(backend, writer)
			v := build(deps)
			s := &versionSuite[T]{suite: suite[T]{Samples: samples, store: v.Store, outbox: outbox, deps: deps}, versions: v}
			s.Client = NewClient(append(resource.Routes(v.Store), resource.VersionRoutes(v)...))
			for _, c := range samples.Changes {
				if len(c.Want) > 0 && len(s.patches) < 2 {
					s.patches = append(s.patches, c.Patch)
				}
			}
			if len(s.patches) < 2 {
				t.Fatal("the samples need two changes of what versions record")
			}
			test(s, t)
		})
	}
}

type versionSuite[T any] struct {
	suite[T]
	versions *resource.Versioned[T]
	patches  []string // two that change what versions record
}

// call calls an operation below the resource and returns the decoded answer.
func (s *versionSuite[T]) call(t *testing.T, method, below, id, body string, more Args) map[string]any {
	t.Helper()
	object, err := s.try(t, s.Client, method, below, id, body, more)
	if err != nil {
		t.Fatalf("%s %s: %v", method, below, err)
	}
	return object
}

func (s *versionSuite[T]) try(t *testing.T, c Client, method, below, id, body string, more Args) (map[string]any, error) {
	t.Helper()
	args := s.on(id, body)
	maps.Copy(args, more)
	reply, err := c.Do(t.Context(), method, s.item()+below, args)
	if err != nil {
		return nil, err
	}
	return Object(t, reply), nil
}

// changed makes a resource and patches it n times, with a new text each.
func (s *versionSuite[T]) changed(t *testing.T, n int) string {
	t.Helper()
	id, _ := s.made(t, s.Full)
	for i := range n {
		s.call(t, "PATCH", "", id, numbered(s.patches[i%2]), nil)
	}
	return id
}

// changelogs returns "number changelog" of every version, newest first.
func (s *versionSuite[T]) changelogs(t *testing.T, id string) []string {
	t.Helper()
	list := s.call(t, "GET", "/versions", id, "", nil)
	var lines []string
	for _, v := range list["items"].([]any) {
		v := v.(map[string]any)
		lines = append(lines, fmt.Sprintf("%v %v", v["version"], v["changelog"]))
	}
	if list["total"] != float64(len(lines)) || list["has_more"] != nil || list["cursor"] != nil {
		t.Errorf("total %v of %d, has_more %v, cursor %v", list["total"], len(lines), list["has_more"], list["cursor"])
	}
	return lines
}

// history has every write but a deletion record a version.
func (s *versionSuite[T]) history(t *testing.T) {
	id := s.changed(t, 2)
	made := s.call(t, "POST", "/versions", id, `{"changelog":"mine"}`, nil)
	s.call(t, "POST", "/versions", id, ``, nil)
	want := []string{
		"5 Manual snapshot", "4 mine", "3 Auto-versioned after update", "2 Auto-versioned after update", "1 Initial version",
	}
	if diff := cmp.Diff(want, s.changelogs(t, id)); diff != "" {
		t.Error(diff)
	}
	if made["version"] != 4.0 || made["changelog"] != "mine" || made[s.store.IDField] != id || made["created_by"] != s.Who.UserID ||
		made["tenant_id"] != s.Who.TenantID || !ident.Valid(made["version_id"].(string)) || made["config"] == nil {
		t.Errorf("a snapshot is answered as %v", made)
	}
}

// rollback restores the first version.
func (s *versionSuite[T]) rollback(t *testing.T) {
	id, before := s.made(t, s.Full)
	for _, patch := range s.patches {
		s.call(t, "PATCH", "", id, numbered(patch), nil)
	}
	v := s.call(t, "POST", "/rollback", id, `{"version":1}`, nil)
	if v["version"] != 4.0 || v["changelog"] != "Rollback to version 1" || v[s.store.IDField] != id {
		t.Errorf("rolled back to %v", v)
	}
	after, _ := s.shown(t, id)
	for name := range v["config"].(map[string]any) {
		if diff := cmp.Diff(before[name], after[name]); diff != "" {
			t.Errorf("after the rollback, %s: %s", name, diff)
		}
	}
	for _, number := range []string{"77", "5"} {
		_, err := s.try(t, s.Client, "POST", "/rollback", id, `{"version":`+number+`}`, nil)
		WantFault(t, err, fault.NotFound, "")
	}
	if got := s.changelogs(t, id); len(got) != 4 {
		t.Errorf("refused rollbacks left versions: %v", got)
	}
}

// diff compares versions with the one before, and with any other.
func (s *versionSuite[T]) diff(t *testing.T) {
	id := s.changed(t, 2)
	const below = "/versions/{versionNum}/diff"
	one := s.call(t, "GET", below, id, "", Args{"versionNum": "2"})
	if one["version_from"] != 1.0 || one["version_to"] != 2.0 || one[s.store.IDField] != id || len(one["changed_fields"].([]any)) == 0 {
		t.Errorf("the first change is %v", one)
	}
	there := s.call(t, "GET", below, id, "", Args{"versionNum": "3", "compare_to": "1"})
	back := s.call(t, "GET", below, id, "", Args{"versionNum": "1", "compare_to": "3"})
	if diff := cmp.Diff(there["changed_fields"], back["changed_fields"]); diff != "" || back["version_from"] != 3.0 {
		t.Errorf("from 3 to 1: %v %s", back, diff)
	}
	same := s.call(t, "GET", below, id, "", Args{"versionNum": "3", "compare_to": "3"})
	if len(same["changed_fields"].([]any)) != 0 || len(same["diff"].(map[string]any)) != 0 {
		t.Errorf("a version differs from itself: %v", same)
	}
	for _, numbers := range [][2]string{{"1", ""}, {"9", ""}, {"2", "9"}, {"0", ""}, {"-1", "1"}} {
		_, err := s.try(t, s.Client, "GET", below, id, "", Args{"versionNum": numbers[0], "compare_to": numbers[1]})
		WantFault(t, err, fault.NotFound, "")
	}
}

// pages walks more versions than are kept.
func (s *versionSuite[T]) pages(t *testing.T) {
	keep := s.versions.Keep
	id := s.changed(t, keep+4)
	all := s.changelogs(t, id)
	if len(all) != keep || !strings.HasPrefix(all[0], fmt.Sprint(keep+5, " ")) || !strings.HasPrefix(all[keep-1], "6 ") {
		t.Errorf("the newest %d are %v", keep, all)
	}
	next := keep + 5
	for cursor := ""; ; {
		page := s.call(t, "GET", "/versions", id, "", Args{"limit": "7", "cursor": cursor, "fields": "summary"})
		for _, v := range page["items"].([]any) {
			v := v.(map[string]any)
			if v["version"] != float64(next) || v["config"] != nil {
				t.Fatalf("in place of a summary of version %d there is %v", next, v)
			}
			next--
		}
		token, more := page["cursor"].(string)
		if page["total"] != float64(keep) || page["has_more"] != more {
			t.Errorf("total %v, has_more %v, cursor %q", page["total"], page["has_more"], token)
		}
		if !more {
			break
		}
		cursor = token
		s.call(t, "POST", "/versions", id, "", nil) // pushes the oldest one out
	}
	page := s.call(t, "GET", "/versions", id, "", Args{"limit": "1"})
	other := s.changed(t, 1)
	for _, cursor := range []string{"x", page["cursor"].(string)} {
		_, err := s.try(t, s.Client, "GET", "/versions", other, "", Args{"cursor": cursor})
		WantFault(t, err, fault.Invalid, "INVALID_CURSOR")
	}
}

// others has strangers, and the owner after the deletion, ask for versions.
func (s *versionSuite[T]) others(t *testing.T) {
	id := s.changed(t, 1)
	absent := func(c Client) {
		t.Helper()
		for _, call := range []struct{ method, below, body string }{
			{"GET", "/versions", ""}, {"POST", "/versions", ""}, {"POST", "/rollback", `{"version":1}`}, {"GET", "/versions/{versionNum}/diff", ""},
		} {
			_, err := s.try(t, c, call.method, call.below, id, call.body, Args{"versionNum": "2"})
			WantFault(t, err, fault.NotFound, "")
		}
	}
	absent(NewClient(s.Routes))
	if _, err := s.versions.GetVersion(t.Context(), ident.New(), id, 1); !fault.Is(err, fault.NotFound) {
		t.Errorf("a stranger reads a version: %v", err)
	}
	if len(s.changelogs(t, id)) != 2 {
		t.Error("a stranger changed something")
	}
	s.call(t, "DELETE", "", id, "", nil)
	absent(s.Client)
	left, err := s.deps.Backend.List(t.Context(), resource.Query{Kind: s.store.Name + "_version", Tenant: s.Who.TenantID, Limit: 9})
	if err != nil || len(left) != 0 {
		t.Errorf("a deleted %s leaves versions %v, %v", s.store.Name, left, err)
	}
}
