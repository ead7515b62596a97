package httpapi

import (
	"cmp"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"agentd/internal/base/route"
)

var (
	replyType = reflect.TypeFor[route.Reply]()
	emptyType = reflect.TypeFor[struct{}]()
)

func (d *document) answers(op *huma.Operation, p published) {
	for i, status := range append([]int{cmp.Or(p.Status, http.StatusOK)}, p.Also...) {
		answer := &huma.Response{Description: http.StatusText(status)}
		t := p.answer()
		if i > 0 && p.AlsoOf != nil {
			t = p.AlsoOf
		}
		switch {
		case p.out == contentType:
			answer.Content = map[string]*huma.MediaType{route.Bytes: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
		case p.out == linesType:
			answer.Content = map[string]*huma.MediaType{linesMedia: {Schema: &huma.Schema{Type: huma.TypeString}}}
		case p.media != "":
			answer.Content = map[string]*huma.MediaType{p.media: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
		case p.stream:
			answer.Content = map[string]*huma.MediaType{eventStream[0]: {Schema: d.events(p.Events)}}
			if t != nil { // see route.Instead
				answer.Content["application/json"] = &huma.MediaType{Schema: d.registry.Schema(t, true, p.ID+"Answer")}
			}
		case t != nil && status != http.StatusNoContent && status != http.StatusNotModified:
			s := d.registry.Schema(t, true, p.ID+"Answer")
			if p.Nullable {
				s = &huma.Schema{AnyOf: []*huma.Schema{s, {Type: "null"}}}
			}
			answer.Content = map[string]*huma.MediaType{"application/json": {Schema: s}}
		}
		if p.mayStream && i == 0 {
			if answer.Content == nil {
				answer.Content = map[string]*huma.MediaType{}
			}
			answer.Content[eventStream[0]] = &huma.MediaType{Schema: d.events(p.Events)}
		}
		if limited(&p.Row) {
			d.rateHeaders(answer)
		}
		op.Responses[strconv.Itoa(status)] = answer
	}
	if p.out == contentType {
		ok := op.Responses[strconv.Itoa(http.StatusOK)]
		op.Responses[strconv.Itoa(http.StatusPartialContent)] = &huma.Response{Description: http.StatusText(http.StatusPartialContent),
			Content: ok.Content}
		op.Responses[strconv.Itoa(http.StatusNotModified)] = &huma.Response{Description: http.StatusText(http.StatusNotModified)}
	}
}

// answer returns the type of the answer, nil where there is none or it is free JSON.
func (p published) answer() reflect.Type {
	t := p.AnswerOf
	if t == nil {
		t = p.out
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t == replyType || t == emptyType || t.Kind() == reflect.Interface {
		return nil
	}
	return t
}

func (d *document) refusals(op *huma.Operation, p published) {
	statuses := append([]int{http.StatusInternalServerError, http.StatusServiceUnavailable}, p.Errors...)
	if p.Destroys {
		statuses = append(statuses, http.StatusLocked)
	}
	if limited(&p.Row) {
		statuses = append(statuses, http.StatusTooManyRequests)
	}
	if !p.Public {
		statuses = append(statuses, http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict)
	}
	if strings.Contains(p.Path, "{") {
		statuses = append(statuses, http.StatusNotFound)
	}
	if len(op.Parameters) > len(pathNames(p.Path)) {
		statuses = append(statuses, http.StatusBadRequest)
	}
	if slices.ContainsFunc(op.Parameters, func(in *huma.Param) bool { return in.Name == "cursor" }) {
		statuses = append(statuses, http.StatusUnprocessableEntity)
	}
	if p.out == contentType {
		statuses = append(statuses, http.StatusRequestedRangeNotSatisfiable)
	}
	switch {
	case p.MaxBytes > 0:
		statuses = append(statuses, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	case op.RequestBody != nil:
		statuses = append(statuses, http.StatusBadRequest, http.StatusLengthRequired, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
	}
	for _, status := range statuses {
		if p.fail != nil {
			refusal := &huma.Response{
				Description: title(status),
				Content:     map[string]*huma.MediaType{"application/json": {Schema: d.registry.Schema(p.fail, true, "")}},
			}
			if status == http.StatusTooManyRequests {
				d.tooMany(refusal)
			}
			if slices.Contains(p.mixed, status) {
				refusal.Content["application/problem+json"] = &huma.MediaType{Schema: d.problem}
			}
			op.Responses[strconv.Itoa(status)] = refusal
			continue
		}
		op.Responses[strconv.Itoa(status)] = &huma.Response{Ref: d.refusal(status)}
	}
}

// repeats publishes that a write can be repeated with an Idempotency-Key. On a
// compatible route, repeating it too early is refused instead of answered 202.
func (d *document) repeats(op *huma.Operation, compatible bool) {
	op.Parameters = append(op.Parameters, &huma.Param{Ref: "#/components/parameters/IdempotencyKey"})
	if op.Responses["202"] == nil && !compatible {
		op.Responses["202"] = &huma.Response{Ref: "#/components/responses/InProgress"}
	}
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
		if op.Responses[strconv.Itoa(status)] == nil {
			op.Responses[strconv.Itoa(status)] = &huma.Response{Ref: d.refusal(status)}
		}
	}
	c := d.openapi.Components
	if c.Parameters["IdempotencyKey"] != nil {
		return
	}
	d.sharedParameter("IdempotencyKey", &huma.Param{
		Name: keyHeader, In: "header",
		Description: "Makes the request safe to repeat: for 24 hours, the same request with the same key has no further effect " +
			"and gets the answer of the first one, with X-Idempotency-Replayed: true. 1 to 128 letters, digits, '_', '.' or '-'.",
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[A-Za-z0-9_.-]{1,128}$"},
	})
	c.Responses["InProgress"] = &huma.Response{
		Description: "The first request with this Idempotency-Key is still running; send the request again.",
		Headers:     map[string]*huma.Header{"Retry-After": retryAfter()},
		Content:     map[string]*huma.MediaType{"application/json": {Schema: d.registry.Schema(reflect.TypeFor[inProgress](), true, "")}},
	}
}

func (d *document) sharedParameter(name string, p *huma.Param) {
	c := d.openapi.Components
	if c.Parameters == nil {
		c.Parameters = map[string]*huma.Param{}
	}
	c.Parameters[name] = p
}

// refusal returns the reference of the problem document of a status.
func (d *document) refusal(status int) string {
	name := strings.ReplaceAll(title(status), " ", "")
	if d.openapi.Components.Responses[name] == nil {
		r := &huma.Response{
			Description: title(status),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: d.problem}},
		}
		d.refusalHeaders(r, status)
		d.openapi.Components.Responses[name] = r
	}
	return "#/components/responses/" + name
}
