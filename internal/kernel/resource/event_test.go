package resource_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/memstore"
)

// emitter records the events of transactions, and those that committed.
type emitter struct {
	types              []string
	emitted, committed []string
	data               map[string]string
	err                error
}

func (e *emitter) Register(name, _ string, data reflect.Type) {
	e.types = append(e.types, name+" "+data.Field(0).Tag.Get("name"))
}

func (e *emitter) EmitTx(tx txn.Tx, event resource.Event) error {
	data, err := event.Data()
	if err != nil {
		return err
	}
	e.emitted, e.data[event.Type] = append(e.emitted, event.Type), string(data)
	tx.AfterCommit(func() { e.committed = append(e.committed, event.Type) })
	return e.err
}

func TestEvents(t *testing.T) {
	t.Parallel()
	backend := memstore.New()
	deps, _ := resourcetest.Deps(backend, backend)
	events := &emitter{data: map[string]string{}}
	deps.Events = events
	store := build(deps)
	c := resourcetest.NewClient(resource.Routes(store))
	types := []string{"gadget.created Gadget", "gadget.updated Gadget", "gadget.deleted WebhookGadgetDeletedData"}
	if diff := cmp.Diff(types, events.types); diff != "" {
		t.Error(diff)
	}

	id := make1(t, c, `{"slug":"a","name":"One","key":"hush"}`)
	shown, err := c.Do(t.Context(), "GET", item, resourcetest.Args{"gadgetId": id})
	if err != nil || events.data["gadget.created"] != string(shown.JSON) {
		t.Errorf("created with %s, %v; GET answers %s", events.data["gadget.created"], err, shown.JSON)
	}
	do := func(method, path, body string) error {
		_, err := c.Do(t.Context(), method, item+path, resourcetest.Args{"gadgetId": id, "": body})
		return err
	}
	err = errors.Join(do("PATCH", "", `{"name":"Two"}`), do("POST", "/start", ""), do("POST", "/stop", "")) // stop has no event
	if err != nil {
		t.Fatal(err)
	}

	events.emitted, events.err = nil, errors.New("the events cannot be stored")
	err = store.Delete(t.Context(), c.Who, id)
	if !errors.Is(err, events.err) || !slices.Equal(events.emitted, []string{"gadget.deleted"}) {
		t.Errorf("deleted with %v, %v", events.emitted, err)
	}
	if _, err := store.Get(t.Context(), c.Who.TenantID, id); err != nil {
		t.Errorf("without its event the deletion is stored: %v", err)
	}
	events.err = nil
	later := errors.New("the transaction fails later")
	err = deps.Writer.Write(t.Context(), func(tx txn.Tx) error {
		return errors.Join(store.DeleteTx(tx, c.Who, id), later)
	})
	if !errors.Is(err, later) {
		t.Error(err)
	}
	if err := store.Delete(t.Context(), c.Who, id); err != nil {
		t.Fatal(err)
	}
	if want := `{"gadget_id":"` + id + `","name":"Two"}`; events.data["gadget.deleted"] != want {
		t.Errorf("deleted with %s, want %s", events.data["gadget.deleted"], want)
	}
	want := []string{"gadget.created", "gadget.updated", "gadget.updated", "gadget.deleted"}
	if diff := cmp.Diff(want, events.committed); diff != "" {
		t.Error(diff)
	}
}
