package route

import "reflect"

// Events describes the messages of an event stream, or of webhooks, for the
// OpenAPI document: a union of schemas that the field Tag tells apart.
type Events struct {
	Name   string       // of the union: RunEvent
	Tag    string       // field that holds the event's name
	Common reflect.Type // fields that every event has; nil: none
	Nested bool         // an event's own fields are in its field data, not beside the common ones
	Of     []Event
	Also   *Events // events of another union that are sent too
}

// Event is one member of a union.
type Event struct {
	Name string       // run.started
	Data reflect.Type // its own fields; nil: none
	Ref  string       // instead of Data: the published type of a kind, such as Agent
	Doc  string
	Bare bool // without the common fields
}
