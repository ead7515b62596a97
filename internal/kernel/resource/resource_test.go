package resource_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/memstore"
)

func build(deps resource.Deps) *resource.Store[gadget] { return resource.NewStore(gadgets(), deps) }

func TestKind(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	resourcetest.Kind(t, s, s, build, gadgetSamples)
}

// bench is a store of gadgets with a client and its backend.
func newBench(t *testing.T) (resourcetest.Client, *resource.Store[gadget], *memstore.Store, *resourcetest.Outbox) {
	t.Helper()
	backend := memstore.New()
	deps, outbox := resourcetest.Deps(backend, backend)
	store := build(deps)
	return resourcetest.NewClient(resource.Routes(store)), store, backend, outbox
}

const item = "/api/v1/gadgets/{gadgetId}"

func make1(t *testing.T, c resourcetest.Client, body string) string {
	t.Helper()
	reply, err := c.Do(t.Context(), "POST", "/api/v1/gadgets", resourcetest.Args{"": body})
	if err != nil {
		t.Fatal(err)
	}
	return resourcetest.Object(t, reply)["gadget_id"].(string)
}

func TestPatchRefused(t *testing.T) {
	t.Parallel()
	c, _, _, _ := newBench(t)
	id := make1(t, c, gadgetSamples.Full)
	for patch, fields := range map[string]string{
		`{"name":null}`:                              "name",
		`{"name":7,"color":"blue","size":-2}`:        "name color size",
		`{"name":"` + strings.Repeat("é", 21) + `"}`: "name",
		`{"limits":{"depth":9}}`:                     "limits.depth",
		`{"limits":{"depth":"x"},"loud":1}`:          "limits.depth loud",
		`{"limits":7}`:                               "limits",
		`{"shape":{"sides":2}}`:                      "shape.sides",
		`{"extra":[]}`:                               "extra",
		`[]`:                                         "body",
	} {
		_, err := c.Do(t.Context(), "PATCH", item, resourcetest.Args{"gadgetId": id, "": patch})
		t.Run("", func(t *testing.T) { resourcetest.WantFields(t, err, strings.Fields(fields)...) })
	}
}

func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	c, store, backend, _ := newBench(t)
	id := make1(t, c, gadgetSamples.Full)
	doc, err := backend.Get(t.Context(), "gadget", c.Who.TenantID, id)
	if err != nil || strings.Contains(string(doc.Body), "hush") {
		t.Errorf("stored as %s, %v", doc.Body, err)
	}
	key := func() string {
		t.Helper()
		g, err := store.Get(t.Context(), c.Who.TenantID, id)
		if err != nil {
			t.Fatal(err)
		}
		return g.Key
	}
	if got := key(); got != "hush" {
		t.Errorf("read as %q", got)
	}
	patch := func(body string) {
		t.Helper()
		if _, err := c.Do(t.Context(), "PATCH", item, resourcetest.Args{"gadgetId": id, "": body}); err != nil {
			t.Fatal(err)
		}
	}
	if patch(`{"name":"x","key":"[redacted]"}`); key() != "hush" {
		t.Error("sending back the redacted secret changed it")
	}
	if patch(`{"key":"new"}`); key() != "new" {
		t.Error("a new secret was not taken")
	}
	replace := func(body string) {
		t.Helper()
		if _, err := c.Do(t.Context(), "PUT", item, resourcetest.Args{"gadgetId": id, "": body}); err != nil {
			t.Fatal(err)
		}
	}
	if replace(`{"name":"x","key":"[redacted]"}`); key() != "new" {
		t.Error("a replacement with the redacted secret changed it")
	}
	if replace(`{"name":"x"}`); key() != "new" {
		t.Error("a replacement without the secret changed it")
	}
	if replace(`{"name":"x","key":null}`); key() != "" {
		t.Error("null did not clear the secret")
	}
	moved := doc
	moved.ID = ident.New()
	if _, err := store.Decode(moved); err == nil {
		t.Error("a sealed secret opened in another row")
	}
	patch(`{"key":"again"}`)
	list, err := c.Do(t.Context(), "GET", "/api/v1/gadgets", nil)
	if err != nil || !strings.Contains(string(list.JSON), `"key":"[redacted]"`) {
		t.Errorf("listed as %s, %v", list.JSON, err)
	}
}

func TestUniqueAndFilters(t *testing.T) {
	t.Parallel()
	c, store, _, _ := newBench(t)
	red := make1(t, c, `{"slug":"a","name":"one"}`)
	green := make1(t, c, `{"slug":"b","name":"two","color":"green"}`)
	_, err := c.Do(t.Context(), "POST", "/api/v1/gadgets", resourcetest.Args{"": `{"slug":"a","name":"three"}`})
	e := resourcetest.WantFault(t, err, fault.Conflict, "ALREADY_EXISTS")
	if !strings.Contains(e.Detail, "slug") {
		t.Errorf("the refusal says %q", e.Detail)
	}
	stranger := resourcetest.NewClient(c.Routes)
	make1(t, stranger, `{"slug":"a","name":"one"}`)
	for color, want := range map[string]string{"red": red, "green": green, "blue": "", "gr\x00een": ""} {
		reply, err := c.Do(t.Context(), "GET", "/api/v1/gadgets", resourcetest.Args{"color": color})
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, g := range resourcetest.Object(t, reply)["items"].([]any) {
			got += g.(map[string]any)["gadget_id"].(string)
		}
		if got != want {
			t.Errorf("color %q gives %q", color, got)
		}
	}
	found, err := store.List(t.Context(), c.Who.TenantID, resource.Find{Where: map[string]string{"name": "two"}, Unique: "b", Asc: true, Limit: 5})
	if err != nil || len(found) != 1 || found[0].ID != green {
		t.Errorf("found %v, %v", found, err)
	}
	if _, err := store.List(t.Context(), c.Who.TenantID, resource.Find{Where: map[string]string{"no": "x"}, Limit: 5}); err == nil {
		t.Error("an index that is not there was found")
	}
}

func TestHooks(t *testing.T) {
	t.Parallel()
	c, _, _, outbox := newBench(t)
	_, err := c.Do(t.Context(), "POST", "/api/v1/gadgets", resourcetest.Args{"": `{"slug":"a","name":"forbidden"}`})
	resourcetest.WantFault(t, err, fault.Forbidden, "")
	id := make1(t, c, `{"slug":"a","name":"fine"}`)
	do := func(method, path, body string) (map[string]any, error) {
		reply, err := c.Do(t.Context(), method, item+path, resourcetest.Args{"gadgetId": id, "": body})
		if err != nil {
			return nil, err
		}
		return resourcetest.Object(t, reply), nil
	}
	_, err = do("PATCH", "", `{"name":"forbidden"}`)
	resourcetest.WantFault(t, err, fault.Forbidden, "")
	if g, err := do("POST", "/start", ""); err != nil || g["moved_at"] == nil {
		t.Errorf("started as %v, %v", g, err)
	}
	_, err = do("DELETE", "", "")
	resourcetest.WantFault(t, err, fault.Conflict, "INVALID_STATE_TRANSITION")
	_, err = do("POST", "/stop", `{"word":"much too long"}`)
	resourcetest.WantFields(t, err, "word")
	if g, err := do("POST", "/stop", `{"word":"bye"}`); err != nil || g["last_word"] != "bye" || g["state"] != "stopped" {
		t.Errorf("stopped as %v, %v", g, err)
	}
	if got := outbox.Of(id); got != "created start stop" {
		t.Errorf("published %q", got)
	}
}

// lagging is a backend whose reads outside of transactions are outdated.
type lagging struct {
	resource.Backend
	old resource.Doc
}

func (l *lagging) Get(ctx context.Context, kind, tenant, id string) (resource.Doc, error) {
	if l.old.ID == "" {
		return l.Backend.Get(ctx, kind, tenant, id)
	}
	return l.old, nil
}

// In TestChangeOfWhatChangedMeanwhile every prepared change is outdated when it
// reaches the transaction, so it is made inside and overwrites nothing.
func TestChangeOfWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	backend := memstore.New()
	deps, outbox := resourcetest.Deps(backend, backend)
	late := &lagging{Backend: backend}
	deps.Backend = late
	c := resourcetest.NewClient(resource.Routes(build(deps)))
	id := make1(t, c, gadgetSamples.Full)
	old, err := backend.Get(t.Context(), "gadget", c.Who.TenantID, id)
	if err != nil {
		t.Fatal(err)
	}
	patch := func(body, match string) (*route.Reply, error) {
		return c.Do(t.Context(), "PATCH", item, resourcetest.Args{"gadgetId": id, "": body, "If-Match": match})
	}
	if _, err := patch(`{"color":"red"}`, ""); err != nil {
		t.Fatal(err)
	}
	late.old = old
	reply, err := patch(`{"name":"late"}`, "")
	if err != nil {
		t.Fatal(err)
	}
	g := resourcetest.Object(t, reply)
	if g["name"] != "late" || g["color"] != "red" || reply.ETag != "3" {
		t.Errorf("version %s is %v", reply.ETag, g)
	}
	_, err = patch(`{"name":"later"}`, `"1"`)
	resourcetest.WantFault(t, err, fault.Precondition, "")
	if got := outbox.Of(id); got != "created updated updated" {
		t.Errorf("published %q", got)
	}
}

func TestPublished(t *testing.T) {
	t.Parallel()
	c, _, _, _ := newBench(t)
	registry := schema.NewRegistry()
	ops := map[string]string{}
	for _, r := range c.Routes {
		ops[r.ID] = r.Method + " " + r.Path
		registry.Schema(r.AnswerOf, true, "x")
		if r.BodyOf != nil {
			registry.Schema(r.BodyOf, true, "x")
		}
	}
	want := map[string]string{
		"createGadget": "POST /api/v1/gadgets", "listGadgets": "GET /api/v1/gadgets", "getGadget": "GET " + item,
		"replaceGadget": "PUT " + item, "patchGadget": "PATCH " + item, "deleteGadget": "DELETE " + item,
		"startGadget": "POST " + item + "/start", "stopGadget": "POST " + item + "/stop", "scrapNowGadget": "POST " + item + "/scrap_now",
	}
	if diff := cmp.Diff(want, ops); diff != "" {
		t.Error(diff)
	}
	for name, properties := range map[string][]string{
		"Gadget": {"gadget_id", "tenant_id", "slug", "name", "color", "loud", "size", "tags", "key", "limits", "shape", "extra",
			"state", "moved_at", "last_word", "created_at", "updated_at"},
		"GadgetCreate":  {"slug", "name", "color", "loud", "size", "tags", "key", "limits", "shape", "extra"},
		"GadgetReplace": {"name", "color", "loud", "size", "tags", "key", "limits", "shape", "extra"},
		"GadgetUpdate":  {"name", "color", "loud", "size", "tags", "key", "limits", "shape", "extra"},
		"GadgetList":    {"items", "gadgets", "older", "cursor", "has_more"},
		"GadgetDeleted": {"deleted", "gadget_id"},
	} {
		s := registry.Map()[name]
		if s == nil {
			t.Errorf("%s is not published", name)
			continue
		}
		for _, p := range properties {
			if s.Properties[p] == nil {
				t.Errorf("%s has no %s", name, p)
			}
		}
		if len(s.Properties) != len(properties) {
			t.Errorf("%s has %d properties, want %d", name, len(s.Properties), len(properties))
		}
	}
	if got := registry.Map()["GadgetUpdate"].Required; len(got) != 0 {
		t.Errorf("an update requires %v", got)
	}
}

func TestKindsThatContradictThemselves(t *testing.T) {
	t.Parallel()
	deps, _ := resourcetest.Deps(memstore.New(), memstore.New())
	breaks := map[string]func(*resource.Kind[gadget], *resource.Deps){
		"filter without index": func(k *resource.Kind[gadget], _ *resource.Deps) { k.Filters = []string{"shape"} },
		"moves without state":  func(k *resource.Kind[gadget], _ *resource.Deps) { k.State = nil },
		"too many indexes": func(k *resource.Kind[gadget], _ *resource.Deps) {
			k.Indexes = make([]resource.Index[gadget], resource.Slots+1)
		},
		"taken name":         func(k *resource.Kind[gadget], _ *resource.Deps) { k.IDField = "slug" },
		"event of no action": func(k *resource.Kind[gadget], _ *resource.Deps) { k.Events[0].Actions = []string{"fly"} },
		"two events of one action": func(k *resource.Kind[gadget], _ *resource.Deps) {
			k.Events[0].Actions = []string{resource.Updated}
		},
		"deletion with others": func(k *resource.Kind[gadget], _ *resource.Deps) {
			k.Events = []resource.EventType{{Name: "gadget.any", Actions: []string{resource.Created, resource.Deleted}}}
		},
		"secrets without box": func(_ *resource.Kind[gadget], d *resource.Deps) { d.Box = nil },
	}
	for name, breakIt := range breaks {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("it was accepted")
				}
			}()
			k, d := gadgets(), deps
			breakIt(&k, &d)
			resource.NewStore(k, d)
		})
	}
}

func FuzzBody(f *testing.F) {
	backend := memstore.New()
	deps, _ := resourcetest.Deps(backend, backend)
	store := build(deps)
	for _, r := range gadgetSamples.Refused {
		f.Add([]byte(r.Body))
	}
	for _, body := range []string{gadgetSamples.Full, gadgetSamples.Minimal, `{"a":1,"a":2}`, `{"name":"\ud800"}`, ` {} x`, `{"limits":{}`, ""} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		who := resourcetest.NewClient(nil).Who
		syntax := schema.Syntax(body)
		reply, err := resource.CreateFrom(t.Context(), store, who, body)
		switch {
		case err == nil && !jsontext.Value(reply.JSON).IsValid():
			t.Errorf("the answer is no JSON: %s", reply.JSON)
		case (syntax != nil) != fault.Is(err, fault.Malformed):
			t.Errorf("syntax %v, but the creation says %v", syntax, err)
		case err != nil && syntax == nil && !fault.Is(err, fault.Invalid):
			t.Errorf("refused with %v", err)
		}
	})
}

// notes are a kind with versions, as plain as can be.
type note struct {
	resource.Meta `json:"-"`
	noteText

	VersionNo string `json:"version" readOnly:"true"`
	Changelog string `json:"-"`
}

type noteText struct {
	Text string `json:"text"`
}

func TestPlainKinds(t *testing.T) {
	t.Parallel()
	versions := resource.Versions[note]{
		Config: func(n *note) any { return &n.noteText }, Number: func(n *note) *string { return &n.VersionNo },
		Changelog: func(n *note) *string { return &n.Changelog },
	}
	kind := resource.Kind[note]{Name: "note", Path: "/api/v1/notes", Example: `{"text":"buy milk"}`}
	for name, c := range map[string]struct {
		plain resource.Plain
		want  string
	}{
		"kind":      {resource.PlainKind(kind), "createNote listNotes getNote patchNote deleteNote"},
		"versioned": {resource.PlainVersioned(kind, versions), "createNote listNotes getNote patchNote deleteNote listNoteVersions createNoteVersion getNoteVersionDiff rollbackNote"},
	} {
		deps, _ := resourcetest.Deps(memstore.New(), memstore.New())
		var ids []string
		for _, r := range c.plain.Routes(deps) {
			ids = append(ids, r.ID)
			if (r.Example != "") != (r.Method == "POST" || r.Method == "PATCH") {
				t.Errorf("%s: the example of %s is %q", name, r.ID, r.Example)
			}
		}
		if got := strings.Join(ids, " "); got != c.want || c.plain.Name != "note" {
			t.Errorf("%s: %s serves %s", name, c.plain.Name, got)
		}
	}
}

// A list with fields=summary leaves the long fields empty, under each of its keys.
func TestSummaries(t *testing.T) {
	t.Parallel()
	c, _, _, _ := newBench(t)
	id := make1(t, c, `{"slug":"a","name":"one","tags":["x"],"extra":{"k":"v"},"key":"hidden"}`)
	reply, err := c.Do(t.Context(), "GET", item, resourcetest.Args{"gadgetId": id})
	if err != nil {
		t.Fatal(err)
	}
	all := resourcetest.Object(t, reply)
	summary := maps.Clone(all)
	summary["extra"] = map[string]any{}
	delete(summary, "tags")
	for fields, want := range map[string]any{"": all, "all": all, "summary": summary} {
		reply, err := c.Do(t.Context(), "GET", "/api/v1/gadgets", resourcetest.Args{"fields": fields})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"items", "gadgets", "older"} {
			if diff := cmp.Diff([]any{want}, resourcetest.Object(t, reply)[key]); diff != "" {
				t.Errorf("fields=%s, %s (-want +got):\n%s", fields, key, diff)
			}
		}
	}
}
