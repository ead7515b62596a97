package resource

import (
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
)

// EventType is a webhook event that writes of a kind emit. Its data is the
// resource as clients see it after the write; after a deletion, the resource's
// id under Kind.IDField and its name from Kind.Label.
type EventType struct {
	Name    string   // agent.updated
	Doc     string   // one sentence, published
	Actions []string // the writes that emit it: Created, Updated, Deleted, moves; Deleted only alone
}

// Event is a webhook event that a write emits.
type Event struct {
	TenantID string
	Type     string
	At       time.Time
	Data     func() (jsontext.Value, error) // a JSON object; valid until the emitter returns
}

// Emitter is the port to webhooks.
type Emitter interface {
	// Register adds an event type whose data has the schema of a Go type. It is
	// called when a store is made, and again by every other store of the kind.
	Register(name, doc string, data reflect.Type)
	// EmitTx stores an event in the transaction of the write that it reports: it
	// is delivered if and only if that commits.
	EmitTx(tx txn.Tx, e Event) error
}

// checkEvents checks that the kind's events name actions that it has.
func (p *plan[T]) checkEvents() {
	seen := map[string]bool{}
	for _, e := range p.Events {
		if e.Name == "" || len(e.Actions) == 0 || len(e.Actions) > 1 && slices.Contains(e.Actions, Deleted) {
			p.fail("the event %q has no name, no actions, or a deletion among others", e.Name)
		}
		for _, action := range e.Actions {
			isMove := slices.ContainsFunc(p.Moves, func(m Move[T]) bool { return m.Action == action })
			if !isMove && action != Created && action != Updated && action != Deleted || seen[action] {
				p.fail("the event %s is of %s, which is no action or has another event", e.Name, action)
			}
			seen[action] = true
		}
	}
}

// registerEvents registers the kind's events with the types of their data.
func (p *plan[T]) registerEvents(emitter Emitter) {
	for _, e := range p.Events {
		data := p.wire
		if e.Actions[0] == Deleted {
			data = p.deletedData()
		}
		emitter.Register(e.Name, e.Doc, data)
	}
}

// deletedData returns the published type of a deletion's event data.
func (p *plan[T]) deletedData() reflect.Type {
	fields := []reflect.StructField{{Name: "WireID", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(`json:"` + p.IDField + `"`)}}
	if p.Label != nil {
		fields = append(fields, reflect.StructField{Name: "WireName", Type: reflect.TypeFor[string](), Tag: `json:"name"`})
	}
	return named("Webhook"+p.Noun+"DeletedData", fields...)
}

// emit emits the event that the kind declares for an action on t, if any.
func (s *Store[T]) emit(tx txn.Tx, action string, t *T) error {
	i := slices.IndexFunc(s.Events, func(e EventType) bool { return slices.Contains(e.Actions, action) })
	if i < 0 || s.deps.Events == nil {
		return nil
	}
	return s.deps.Events.EmitTx(tx, Event{
		TenantID: metaOf(t).TenantID, Type: s.Events[i].Name, At: s.deps.Clock.Now(),
		Data: func() (jsontext.Value, error) {
			if action == Deleted {
				return s.deletedJSON(t)
			}
			return s.Wire(t)
		},
	})
}

// deletedJSON returns the data of a deletion's event.
func (c *codec[T]) deletedJSON(t *T) (jsontext.Value, error) {
	data := []byte(`{"` + c.IDField + `":"` + metaOf(t).ID + `"`)
	if c.Label != nil {
		var err error
		if data, err = jsontext.AppendQuote(append(data, `,"name":`...), c.Label(t)); err != nil {
			return nil, err
		}
	}
	return append(data, '}'), nil
}
