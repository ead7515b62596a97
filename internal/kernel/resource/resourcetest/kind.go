package resourcetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// Samples are what Kind knows of a kind. All strings are JSON; %d in a body is
// replaced by a number that grows, for what must be unique.
type Samples struct {
	Minimal  string            // the smallest body of a creation
	Defaults map[string]string // fields of a resource created by it
	Full     string            // a body that sets every field that a client can set
	Refused  []Refused
	Changes  []Changed
}

// Refused is a creation that is refused, with every invalid field.
type Refused struct {
	Body   string
	Fields []string
}

// Changed is a patch of a resource made of Full, and the fields that it must
// lead to; "" is a field that is left out.
type Changed struct {
	Patch string
	Want  map[string]string
}

// Deps are a store's dependencies over a backend, for tests.
func Deps(backend resource.Backend, writer txn.Writer) (resource.Deps, *Outbox) {
	box, err := secret.NewBox(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	outbox := &Outbox{}
	return resource.Deps{
		Backend: backend, Writer: writer, Outbox: outbox, Box: box,
		Cursors: page.NewCursors([]byte("the key of the cursors")), Clock: clock.System{},
	}, outbox
}

// Kind tests a kind on a backend, through its routes. build makes its store.
func Kind[T any](t *testing.T, backend resource.Backend, writer txn.Writer, build func(resource.Deps) *resource.Store[T], samples Samples) {
	tests := map[string]func(*suite[T], *testing.T){
		"create":      (*suite[T]).create,
		"refuse":      (*suite[T]).refuse,
		"change":      (*suite[T]).change,
		"ignored":     (*suite[T]).ignored,
		"tenancy":     (*suite[T]).tenancy,
		"if_match":    (*suite[T]).ifMatch,
		"none_match":  (*suite[T]).noneMatch,
		"races":       (*suite[T]).races,
		"delete":      (*suite[T]).remove,
		"list":        (*suite[T]).list,
		"cursors":     (*suite[T]).cursors,
		"names":       (*suite[T]).names,
		"moves":       (*suite[T]).moves,
		"rollback":    (*suite[T]).rollback,
		"typed_calls": (*suite[T]).typed,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deps, outbox := Deps(backend, writer)
			s := &suite[T]{Samples: samples, store: build(deps), outbox: outbox, deps: deps, build: build}
			s.Client = NewClient(resource.Routes(s.store))
			test(s, t)
		})
	}
}

type suite[T any] struct {
	Samples
	Client
	store  *resource.Store[T]
	outbox *Outbox
	deps   resource.Deps
	build  func(resource.Deps) *resource.Store[T]
}

var counter atomic.Int64

func numbered(body string) string {
	return strings.ReplaceAll(body, "%d", fmt.Sprint(counter.Add(1)))
}

func (s *suite[T]) item() string { return s.store.Path + "/{" + s.store.Param + "}" }

func (s *suite[T]) on(id, body string) Args { return Args{s.store.Param: id, "": body} }

func (s *suite[T]) has(method string) bool {
	return slices.ContainsFunc(s.Routes, func(r route.Route) bool { return r.Method == method && r.Path == s.item() })
}

// made creates a resource and returns its id and the answer.
func (s *suite[T]) made(t *testing.T, body string) (string, map[string]any) {
	t.Helper()
	reply, err := s.Do(t.Context(), "POST", s.store.Path, Args{"": numbered(body)})
	if err != nil {
		t.Fatalf("creating: %v", err)
	}
	object := Object(t, reply)
	return object[s.store.IDField].(string), object
}

// shown reads a resource.
func (s *suite[T]) shown(t *testing.T, id string) (map[string]any, string) {
	t.Helper()
	reply, err := s.Do(t.Context(), "GET", s.item(), s.on(id, ""))
	if err != nil {
		t.Fatalf("reading %s: %v", id, err)
	}
	return Object(t, reply), reply.ETag
}

func wantMembers(t *testing.T, object map[string]any, want map[string]string) {
	t.Helper()
	for name, text := range want {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, object[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func (s *suite[T]) create(t *testing.T) {
	id, object := s.made(t, s.Minimal)
	wantMembers(t, object, s.Defaults)
	wantMembers(t, object, map[string]string{"tenant_id": `"` + s.Who.TenantID + `"`})
	if !ident.Valid(id) {
		t.Errorf("the id is %q", id)
	}
	at := moment(t, object["created_at"])
	if time.Since(at) > time.Minute || object["updated_at"] != object["created_at"] {
		t.Errorf("times %v and %v", object["created_at"], object["updated_at"])
	}
	read, tag := s.shown(t, id)
	if diff := cmp.Diff(object, read); diff != "" || tag != "1" {
		t.Errorf("read back with ETag %s: %s", tag, diff)
	}
	if got := s.outbox.Of(id); got != "created" {
		t.Errorf("published %q", got)
	}
	full := numbered(s.Full)
	var sent map[string]any
	if err := json.Unmarshal([]byte(full), &sent); err != nil {
		t.Fatal(err)
	}
	for _, field := range settable[T]() {
		if _, ok := sent[field]; !ok {
			t.Errorf("Samples.Full does not set %s, so that no test shows what the field does", field)
		}
	}
	reply, err := s.Do(t.Context(), "POST", s.store.Path, Args{"": full})
	if err != nil {
		t.Fatal(err)
	}
	s.wantSent(t, full, Object(t, reply))
}

func moment(t *testing.T, v any) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, v.(string))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// wantSent compares an answer with the body that made it.
func (s *suite[T]) wantSent(t *testing.T, body string, object map[string]any) {
	t.Helper()
	var sent map[string]any
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	for _, name := range fields[T]("secret") {
		if object[name] != secret.Redacted {
			t.Errorf("the secret %s is answered as %v", name, object[name])
		}
		delete(sent, name)
	}
	for name, want := range sent {
		if diff := cmp.Diff(want, object[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func (s *suite[T]) refuse(t *testing.T) {
	for i, r := range s.Refused {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			_, err := s.Do(t.Context(), "POST", s.store.Path, Args{"": numbered(r.Body)})
			WantFields(t, err, r.Fields...)
		})
	}
	for _, body := range []string{`[]`, `"x"`, `null`, `7`} {
		_, err := s.Do(t.Context(), "POST", s.store.Path, Args{"": body})
		WantFields(t, err, "body")
	}
	for _, body := range []string{``, `{`, `{"a":1,"a":2}`, `{} {}`, `{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, "{\"a\":\"\xff\"}"} {
		_, err := s.Do(t.Context(), "POST", s.store.Path, Args{"": body})
		WantFault(t, err, fault.Malformed, "")
	}
	reply, err := s.Do(t.Context(), "GET", s.store.Path, nil)
	if err != nil || len(Object(t, reply)["items"].([]any)) != 0 {
		t.Errorf("refused creations left something: %v", err)
	}
}

// change runs the table of patches, by PATCH and by a PUT that merges.
func (s *suite[T]) change(t *testing.T) {
	verbs := []string{"PATCH"}
	if s.store.Put == resource.PutMerges {
		verbs = append(verbs, "PUT")
	}
	for _, verb := range verbs {
		for i, c := range s.Changes {
			id, before := s.made(t, s.Full)
			reply, err := s.Do(t.Context(), verb, s.item(), s.on(id, numbered(c.Patch)))
			if err != nil {
				t.Errorf("%s %s: %v", verb, c.Patch, err)
				continue
			}
			want := before
			for name, text := range c.Want {
				if text == "" {
					delete(want, name)
					continue
				}
				var v any
				if err := json.Unmarshal([]byte(text), &v); err != nil {
					t.Fatal(err)
				}
				want[name] = v
			}
			after := Object(t, reply)
			if i == 0 && !moment(t, after["updated_at"]).After(moment(t, before["created_at"])) {
				t.Errorf("updated_at is %v", after["updated_at"])
			}
			want["updated_at"] = after["updated_at"]
			for _, name := range fields[T]("readOnly") { // set by the kind
				want[name], after[name] = nil, nil
			}
			if diff := cmp.Diff(want, after); diff != "" {
				t.Errorf("%s %s: %s", verb, c.Patch, diff)
			}
			read, _ := s.shown(t, id)
			for _, name := range fields[T]("readOnly") {
				read[name] = nil
			}
			if diff := cmp.Diff(after, read); diff != "" {
				t.Errorf("%s %s, read back: %s", verb, c.Patch, diff)
			}
			if got := s.outbox.Of(id); got != "created updated" {
				t.Errorf("published %q", got)
			}
		}
	}
	if s.store.Put == resource.PutReplace {
		id, full := s.made(t, s.Full)
		reply, err := s.Do(t.Context(), "PUT", s.item(), s.on(id, numbered(s.Minimal)))
		if err != nil {
			t.Fatal(err)
		}
		after := Object(t, reply)
		kept := append(fields[T]("immutable"), fields[T]("secret")...)
		for name, text := range s.Defaults {
			if !slices.Contains(kept, name) {
				wantMembers(t, after, map[string]string{name: text})
			}
		}
		for _, name := range kept {
			if diff := cmp.Diff(full[name], after[name]); diff != "" {
				t.Errorf("a replacement changed %s: %s", name, diff)
			}
		}
	}
}

// ignored sends what a client cannot set.
func (s *suite[T]) ignored(t *testing.T) {
	junk := map[string]any{"no_such_field": 1, s.store.IDField: 7, "tenant_id": 7, "created_at": 7, "updated_at": 7}
	for _, name := range fields[T]("readOnly") {
		junk[name] = []int{1}
	}
	with := func(body string, more map[string]any) string {
		var object map[string]any
		if err := json.Unmarshal([]byte(numbered(body)), &object); err != nil {
			t.Fatal(err)
		}
		maps.Copy(object, more)
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	id, before := s.made(t, with(s.Minimal, junk))
	wantMembers(t, before, s.Defaults)
	if !s.has("PATCH") {
		return
	}
	for _, name := range fields[T]("immutable") {
		junk[name] = "changed"
	}
	reply, err := s.Do(t.Context(), "PATCH", s.item(), s.on(id, with("{}", junk)))
	if err != nil {
		t.Fatal(err)
	}
	after := Object(t, reply)
	for _, name := range append(fields[T]("immutable"), s.store.IDField, "tenant_id", "created_at") {
		if diff := cmp.Diff(before[name], after[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if after["no_such_field"] != nil {
		t.Error("an unknown field was kept")
	}
	for name := range s.Defaults {
		if !slices.Contains(fields[T]("readOnly"), name) { // the kind sets those
			wantMembers(t, after, map[string]string{name: s.Defaults[name]})
		}
	}
	for _, name := range fields[T]("readOnly") {
		if cmp.Equal(after[name], any([]any{1.0})) {
			t.Errorf("a client set %s", name)
		}
	}
}

// everything calls every operation on one resource.
func (s *suite[T]) everything(ctx context.Context, who authz.Caller, id, match string) map[string]error {
	errs := map[string]error{}
	for _, r := range s.Routes {
		if strings.HasPrefix(r.Path, s.item()) {
			args := s.on(id, "{}")
			args["If-Match"] = match
			_, errs[r.Method+" "+r.Path] = Do(ctx, r, who, args)
		}
	}
	return errs
}

func (s *suite[T]) tenancy(t *testing.T) {
	id, before := s.made(t, s.Full)
	stranger := NewClient(s.Routes)
	for _, absent := range []string{id, ident.New(), "no-id", "", "nul\x00", strings.ToUpper(id)} {
		for op, err := range s.everything(t.Context(), stranger.Who, absent, "") {
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("%s on %q by a stranger: %v", op, absent, err)
			}
		}
	}
	reply, err := stranger.Do(t.Context(), "GET", s.store.Path, nil)
	if err != nil || len(Object(t, reply)["items"].([]any)) != 0 {
		t.Errorf("a stranger's list: %s, %v", reply.JSON, err)
	}
	after, tag := s.shown(t, id)
	if diff := cmp.Diff(before, after); diff != "" || tag != "1" {
		t.Errorf("a stranger changed something: %s", diff)
	}
}

func (s *suite[T]) ifMatch(t *testing.T) {
	id, _ := s.made(t, s.Full)
	for op, err := range s.everything(t.Context(), s.Who, id, `"2"`) {
		if strings.HasPrefix(op, "GET ") {
			continue
		}
		e := WantFault(t, err, fault.Precondition, "")
		if e.Extra["current_etag"] != `"1"` {
			t.Errorf("%s names the ETag %v", op, e.Extra["current_etag"])
		}
	}
	version := 1
	for _, match := range []string{`"%d"`, `W/"%d"`, `*`, `"77", "%d"`, ``} {
		args := s.on(id, "{}")
		args["If-Match"] = strings.ReplaceAll(match, "%d", fmt.Sprint(version))
		if !s.has("PATCH") {
			t.Skip("nothing changes this kind")
		}
		reply, err := s.Do(t.Context(), "PATCH", s.item(), args)
		if err != nil {
			t.Fatalf("%s: %v", args["If-Match"], err)
		}
		version++
		if reply.ETag != fmt.Sprint(version) {
			t.Errorf("the ETag is %s after %d writes", reply.ETag, version)
		}
	}
}

// races has many clients change one resource at once.
func (s *suite[T]) races(t *testing.T) {
	if !s.has("PATCH") {
		t.Skip("nothing changes this kind")
	}
	const clients = 6
	id, _ := s.made(t, s.Full)
	patch := func(match string) (errs []error) {
		errs = make([]error, clients)
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				args := s.on(id, "{}")
				args["If-Match"] = match
				_, errs[i] = s.Do(t.Context(), "PATCH", s.item(), args)
			})
		}
		wg.Wait()
		return errs
	}
	for _, err := range patch("") {
		if err != nil {
			t.Errorf("a merge lost a race: %v", err)
		}
	}
	_, tag := s.shown(t, id)
	if tag != fmt.Sprint(1+clients) {
		t.Errorf("version %s after %d merges", tag, clients)
	}
	wins := 0
	for _, err := range patch(`"` + tag + `"`) {
		if err == nil {
			wins++
		} else if !fault.Is(err, fault.Precondition) {
			t.Errorf("a loser gets %v", err)
		}
	}
	if wins != 1 {
		t.Errorf("%d clients won with one ETag", wins)
	}
}

func (s *suite[T]) remove(t *testing.T) {
	if !s.has("DELETE") {
		t.Skip("this kind is not deleted")
	}
	id, _ := s.made(t, s.Full)
	reply, err := s.Do(t.Context(), "DELETE", s.item(), s.on(id, ""))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"deleted": true, s.store.IDField: id}
	if diff := cmp.Diff(want, Object(t, reply)); diff != "" {
		t.Error(diff)
	}
	for op, err := range s.everything(t.Context(), s.Who, id, "") {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s after the deletion: %v", op, err)
		}
	}
	if got := s.outbox.Of(id); got != "created deleted" {
		t.Errorf("published %q", got)
	}
}
