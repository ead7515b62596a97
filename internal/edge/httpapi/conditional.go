package httpapi

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
)

// editLength is the length of the first part of a tag that has two.
const editLength = 12

// tagOf returns the tag of an answer, which body renders. Where a part of the answer
// is all that clients change, the tag begins with that part's own, so that an
// If-Match needs no more than the part.
func tagOf(out any, body []byte) (string, error) {
	whole := etagOf(body)
	if _, ok := out.(route.Editable); !ok {
		return whole, nil
	}
	edit, err := editTag(out)
	return edit + "-" + whole[:editLength], err
}

// editTag returns the tag of what clients change of a state.
func editTag(current any) (string, error) {
	if e, ok := current.(route.Editable); ok {
		current = e.Editable()
	}
	body, err := json.Marshal(current, answerOptions)
	return etagOf(body), err
}

// withTag returns the answer of a Conditional row as a reply with its tag. What a
// deletion answers has none.
func (o *operation) withTag(out any) (any, error) {
	if !o.row.Conditional || o.row.Method == http.MethodDelete || asReply(out) != nil {
		return out, nil
	}
	body, err := json.Marshal(out, answerOptions)
	if err != nil {
		return nil, err
	}
	tag, err := tagOf(out, body)
	return &route.Reply{JSON: body, ETag: tag}, err
}

// unchanged returns the reply to a read whose client has the answer, 304 without a
// body; else out.
func (o *operation) unchanged(r *http.Request, out any) any {
	reply := asReply(out)
	header := r.Header.Get("If-None-Match")
	if !o.row.Conditional || reply == nil || header == "" || o.row.Method != http.MethodGet {
		return out
	}
	if hasTag(header, reply.ETag) {
		return &route.Reply{Status: http.StatusNotModified, ETag: reply.ETag}
	}
	return out
}

// Match implements route.Matcher for the request's If-Match.
func (x *exchange) Match(current any) error {
	tag, err := editTag(current)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(x.match, ",") {
		part = strings.Trim(strings.TrimPrefix(strings.TrimSpace(part), "W/"), `"`)
		if edit, _, _ := strings.Cut(part, "-"); part == "*" || edit == tag {
			return nil
		}
	}
	e := fault.New(fault.Precondition, "", "It was changed since you read it; read it again and send its new ETag as If-Match.")
	e.Extra = map[string]any{"current_etag": `"` + tag + `"`}
	return e
}

// conditions publishes the headers of conditional requests.
func (d *document) conditions(op *huma.Operation, p published) {
	if !p.Conditional {
		return
	}
	name, header, status := "IfNoneMatch", "If-None-Match", http.StatusNotModified
	doc := "Answer 304 without a body if this is the resource's current ETag."
	if p.Method != http.MethodGet {
		name, header, status = "IfMatch", "If-Match", http.StatusPreconditionFailed
		doc = "Refuse with 412 unless this is the resource's current ETag."
	}
	op.Parameters = append(op.Parameters, &huma.Param{Ref: "#/components/parameters/" + name})
	d.sharedParameter(name, &huma.Param{Name: header, In: "header", Description: doc, Schema: &huma.Schema{Type: huma.TypeString}})
	code := strconv.Itoa(status)
	if status == http.StatusNotModified {
		op.Responses[code] = &huma.Response{Description: http.StatusText(status)}
	} else {
		op.Responses[code] = &huma.Response{Ref: d.refusal(status)}
	}
	if p.Method == http.MethodDelete {
		return
	}
	d.openapi.Components.Headers["ETag"] = &huma.Header{
		Description: "Names the state that is answered, for If-Match and If-None-Match.", Schema: &huma.Schema{Type: huma.TypeString},
	}
	ok := op.Responses[strconv.Itoa(cmp.Or(p.Status, http.StatusOK))]
	if ok.Headers == nil {
		ok.Headers = map[string]*huma.Header{}
	}
	ok.Headers["ETag"] = &huma.Header{Ref: "#/components/headers/ETag"}
}
