package webhook

import (
	"errors"
	"reflect"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// ResourceEvents emits the events that kinds of resources declare. It implements
// resource.Emitter.
//
// Kinds register their events before there is a Service: Connect sets it, before
// the first write of a kind with events. The Service publishes the events that
// are registered when its Routes are listed.
type ResourceEvents struct {
	Registry *Registry // for Deps.Events

	service *Service
}

// NewResourceEvents returns ResourceEvents with the built-in event types.
func NewResourceEvents() *ResourceEvents { return &ResourceEvents{Registry: NewRegistry()} }

// Connect sets the Service that delivers the events.
func (e *ResourceEvents) Connect(s *Service) { e.service = s }

// Register implements resource.Emitter.
func (e *ResourceEvents) Register(name, doc string, data reflect.Type) {
	e.Registry.Register(EventType{Name: name, Data: data, Doc: doc})
}

// EmitTx implements resource.Emitter.
func (e *ResourceEvents) EmitTx(tx txn.Tx, event resource.Event) error {
	if e.service == nil {
		return errors.New("webhook: an event was emitted before Connect")
	}
	return e.service.Emit(tx, Event{TenantID: event.TenantID, Type: event.Type, At: event.At, Data: event.Data})
}
