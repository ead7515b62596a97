package httpapi

import (
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

// events returns the schema of the messages of a stream. Where nothing is known of
// them, a message is text: the streams of the compatible routes are described by
// the APIs that they are compatible with.
func (d *document) events(e *route.Events) *huma.Schema {
	if e == nil {
		return &huma.Schema{Type: huma.TypeString, Description: "Server-sent events."}
	}
	return d.union(e)
}

// webhooks publishes the requests that a subscription causes: each event as a
// webhook, and their union as a callback of the operation that subscribes. Without
// the callback, oapi-codegen takes their types for unused.
func (d *document) webhooks(op *huma.Operation, e *route.Events, tag string) {
	received := map[string]*huma.Response{"2XX": {Description: "Received. Any other status is retried, or counts as a failure."}}
	op.Callbacks = map[string]map[string]*huma.PathItem{"event": {"{$request.body#/url}": {Post: &huma.Operation{
		OperationID: op.OperationID + "Event", Summary: "An event that the subscription names", Tags: []string{tag},
		Description: "Sent to the address of the subscription, with a signature.", Security: []map[string][]string{},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{jsonMedia: {Schema: d.union(e)}}},
		Responses:   received,
	}}}}
	if d.openapi.Webhooks == nil {
		d.openapi.Webhooks = map[string]*huma.PathItem{}
	}
	for _, event := range e.Of {
		d.openapi.Webhooks[event.Name] = &huma.PathItem{Post: &huma.Operation{
			OperationID: "on" + strings.TrimPrefix(variantName(e, event), e.Name), Tags: []string{tag},
			Summary: event.Name, Description: event.Doc, Security: []map[string][]string{},
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
				jsonMedia: {Schema: &huma.Schema{Ref: schema.Prefix + variantName(e, event)}},
			}},
			Responses: received,
		}}
	}
}

// union publishes a union of events as components and returns a reference to it.
func (d *document) union(e *route.Events) *huma.Schema {
	components := d.registry.Map()
	if components[e.Name] == nil {
		sum := &huma.Schema{
			Description:   "One event; " + e.Tag + " tells them apart. Ignore events with a name that is not listed: more may be added.",
			Discriminator: &huma.Discriminator{PropertyName: e.Tag, Mapping: map[string]string{}},
		}
		components[e.Name] = sum
		for all := e; all != nil; all = all.Also {
			for _, event := range all.Of {
				if sum.Discriminator.Mapping[event.Name] != "" {
					continue // the first union's own
				}
				ref := schema.Prefix + variantName(all, event)
				sum.OneOf = append(sum.OneOf, &huma.Schema{Ref: ref})
				sum.Discriminator.Mapping[event.Name] = ref
				if name := variantName(all, event); components[name] == nil {
					components[name] = d.variant(all, event)
				}
			}
		}
	}
	return &huma.Schema{Ref: schema.Prefix + e.Name}
}

// variantName returns the component of one event of a union: RunEventStepStarted.
func variantName(e *route.Events, event route.Event) string {
	var b strings.Builder
	b.WriteString(e.Name)
	for word := range strings.FieldsFuncSeq(event.Name, func(r rune) bool { return r == '.' || r == '_' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// variant returns the schema of one event.
func (d *document) variant(e *route.Events, event route.Event) *huma.Schema {
	s := &huma.Schema{
		Type: huma.TypeObject, Description: event.Doc, Required: []string{e.Tag},
		Properties: map[string]*huma.Schema{e.Tag: {Type: huma.TypeString, Enum: []any{event.Name}, Description: "Name of the event."}},
	}
	if e.Common != nil && !event.Bare {
		d.include(s, e.Common)
	}
	switch {
	case event.Ref != "":
		s.Properties["data"] = &huma.Schema{Ref: schema.Prefix + event.Ref}
		s.Required = append(s.Required, "data")
	case event.Data == nil:
	case e.Nested:
		s.Properties["data"] = d.registry.Schema(event.Data, true, "")
		s.Required = append(s.Required, "data")
	default:
		d.include(s, event.Data)
	}
	if p := s.Properties["event_type"]; p != nil && len(p.Enum) == 0 { // not where it has values of its own
		p.Enum = []any{event.Name}
	}
	return s
}

// include copies the fields of a type into a schema.
func (d *document) include(s *huma.Schema, t reflect.Type) {
	part := d.registry.Schema(t, true, "")
	if part.Ref != "" {
		part = d.registry.SchemaFromRef(part.Ref)
	}
	for name, p := range part.Properties {
		if s.Properties[name] == nil {
			s.Properties[name] = clone(p)
		}
	}
	for _, name := range append(slices.Clone(part.Required), schema.Sent(t)...) {
		if !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
}

// healthEvents are the messages of GET /health/sse.
var healthEvents = route.Events{Name: "HealthEvent", Tag: "event", Of: []route.Event{
	{Name: "connected", Data: reflect.TypeFor[connectedData](), Doc: "The stream is open."},
	{Name: "ping", Data: reflect.TypeFor[pingData](), Doc: "A test event passed the live fan-out."},
	{Name: "done", Data: reflect.TypeFor[doneData](), Doc: "The end of the stream; a bare [DONE] follows."},
}}

type connectedData struct {
	Event     string `json:"event"`
	Timestamp string `json:"timestamp" format:"date-time"`
}

type pingData struct {
	Event     string  `json:"event"`
	Timestamp string  `json:"timestamp" format:"date-time"`
	LatencyMS float64 `json:"latency_ms" doc:"How long the test event took, in milliseconds."`
}

type doneData struct {
	Event  string `json:"event"`
	Status string `json:"status" enum:"ok"`
}
