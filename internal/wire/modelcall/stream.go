package modelcall

import (
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// AfterFinish is how long the rest of a stream may take once its answer is complete.
const AfterFinish = 2 * time.Second

// AfterEnd is how long the end of the body may take after the last event.
const AfterEnd = 250 * time.Millisecond

var pooledEvents = sync.Pool{New: func() any { return new(Events) }}

// Decoder reads answers of a wire.
type Decoder interface {
	// Whole reads an answer in one piece.
	Whole(body []byte) error
	// Event reads an event of a stream, and reports whether it is the last.
	Event(data []byte) (last bool, err error)
	// Complete reports whether the answer needs nothing more than the end of its stream.
	Complete() bool
}

// ReadAnswer reads a body, streamed or whole depending on its first byte: some gateways
// answer streamed requests in one piece. Errors: those of the decoder, ErrEmpty,
// ErrGarbage, ErrTruncated, ErrTooLong, the source's.
func ReadAnswer(in *Reader, limit int, d Decoder) error {
	events := pooledEvents.Get().(*Events)
	events.Begin(in, limit)
	defer func() { events.End(); pooledEvents.Put(events) }()
	first, err := events.First()
	switch {
	case err != nil:
		return err
	case first == '{' || first == '[':
		body, err := events.Rest()
		if err != nil {
			return err
		}
		return d.Whole(body)
	case !IsEventStart(first):
		return ErrGarbage
	}
	return readEvents(in, events, d)
}

func readEvents(in *Reader, events *Events, d Decoder) error {
	for {
		data, err := events.Next()
		switch {
		case err == nil:
		case err == ErrTooLong:
			return err
		case d.Complete(): // though not properly closed
			return nil
		case err == io.EOF:
			return ErrTruncated
		default:
			return err
		}
		last, err := d.Event(data)
		if err != nil {
			if err == ErrGarbage && events.Incomplete() {
				err = ErrTruncated
			}
			return err
		}
		if last {
			in.LimitRest(AfterEnd)
			events.Drain()
			return nil
		}
		if d.Complete() && !in.Limited() {
			in.LimitRest(AfterFinish)
		}
	}
}

// Decode decodes a JSON value of an answer. Errors: ErrGarbage.
func Decode(data []byte, v any) error {
	if json.Unmarshal(data, v, Lenient) != nil {
		return ErrGarbage
	}
	return nil
}

// ValidObject returns the arguments of a call if they are a JSON object, else {}: what
// the model wrote instead cannot be sent back over wires with structured arguments.
func ValidObject(arguments string) jsontext.Value {
	v := jsontext.Value(strings.TrimSpace(arguments))
	if v.Kind() == '{' && v.IsValid(jsontext.AllowDuplicateNames(true)) {
		return v
	}
	return jsontext.Value(noArguments)
}

// Form is the form that a request sets for its answer.
type Form struct {
	Name   string
	Schema jsontext.Value // nil: any JSON object
	Strict bool
}

// FormOf returns the form that the response_format of a request sets; nil for none.
func FormOf(req *model.Request) *Form {
	var f struct {
		Type   string `json:"type"`
		Schema struct {
			Name   string         `json:"name"`
			Schema jsontext.Value `json:"schema"`
			Strict *bool          `json:"strict"`
		} `json:"json_schema"`
	}
	raw := req.Extra["response_format"]
	if len(raw) == 0 || json.Unmarshal(raw, &f) != nil {
		return nil
	}
	switch f.Type {
	case "json_object":
		return &Form{}
	case "json_schema":
		if f.Schema.Schema.Kind() == '{' {
			return &Form{Name: f.Schema.Name, Schema: f.Schema.Schema, Strict: f.Schema.Strict != nil && *f.Schema.Strict}
		}
		return &Form{Name: f.Schema.Name}
	}
	return nil
}

// Note asks for the form in words, where a wire or a model has no other means.
func (f *Form) Note() string {
	if f.Schema == nil {
		return "Answer with nothing but a JSON object, without any other text."
	}
	return "Answer with nothing but JSON that fits this JSON Schema, without any other text:\n" + string(f.Schema)
}

// Effort returns the reasoning_effort of a request; "": none.
func Effort(req *model.Request) (effort string) {
	_ = json.Unmarshal(req.Extra["reasoning_effort"], &effort) // another value is none
	return effort
}

// BudgetFor is how many tokens an effort may think, for models that take a budget.
func BudgetFor(effort string) int {
	switch effort {
	case "", "none":
		return 0
	case "minimal":
		return 1024
	case "low":
		return 2048
	case "medium":
		return 8192
	case "high":
		return 16384
	}
	return 32_000
}
