package resource_test

import (
	"testing"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/memstore"
)

type listed struct {
	resource.Meta `json:"-"`

	Text string `json:"text"`
}

// TestRegistryListsWhatIsServed leaves out kinds whose access is decided elsewhere.
func TestRegistryListsWhatIsServed(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	deps := resource.Deps{Backend: store, Writer: store, Outbox: resource.NoOutbox{}, Clock: clock.System{}, Kinds: resource.NewRegistry()}
	readers := resource.Access{Scopes: []authz.Scope{"agents:read"}}
	open := resource.NewStore(resource.Kind[listed]{Name: "note", Path: "/notes", Tag: "Notes", Readers: readers}, deps)
	resource.Routes(open)
	resource.NewStore(resource.Kind[listed]{Name: "hidden", Path: "/hidden", Tag: "Notes", Readers: readers}, deps) // without routes
	unread := resource.Kind[listed]{Name: "unread", Path: "/unread", Tag: "Notes", Readers: readers, Omit: []resource.Op{resource.OpGet}}
	resource.Routes(resource.NewStore(unread, deps))
	all := deps.Kinds.Kinds()
	if len(all) != 1 || all[0].Kind != "note" || len(all[0].Readers.Scopes) != 1 {
		t.Fatalf("%+v", all)
	}
	n := &listed{Text: "x"}
	if err := open.Create(t.Context(), authz.Caller{TenantID: "acme"}, n); err != nil {
		t.Fatal(err)
	}
	row, version, err := all[0].Row(t.Context(), "acme", n.ID)
	if err != nil || version != 1 || len(row) == 0 {
		t.Errorf("%s, %d, %v", row, version, err)
	}
	if _, _, err := all[0].Row(t.Context(), "other", n.ID); err == nil {
		t.Error("another company reads it")
	}
}
