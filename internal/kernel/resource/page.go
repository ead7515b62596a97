package resource

import (
	"context"
	"strconv"

	"agentd/internal/base/page"
	"agentd/internal/base/route"
)

// listRequest is the query of a list as clients send it.
type listRequest struct {
	limit, cursor, words string
	summary              bool // leave the long fields empty
	include              bool // with Kind.Include
	where                map[string]string
}

// page answers a list: {items, cursor, has_more}, with the items repeated under
// each of Kind.Keys, and the total where it is counted. Errors: INVALID_CURSOR.
func (a *api[T]) page(ctx context.Context, tenant string, in listRequest) (*route.Reply, error) {
	q, err := a.query(tenant, Find{Where: in.where, Words: in.words})
	if err != nil {
		return nil, err
	}
	if in.words != "" && len(q.Words) == 0 { // only punctuation: no name has it
		return a.wirePage(nil, "", a.wireDoc)
	}
	scope := page.Scope{Tenant: tenant, List: a.Name, Filter: append(q.Filter[:], q.Words...)}
	if q.After, err = a.deps.Cursors.Open(scope, in.cursor); err != nil {
		return nil, err
	}
	limit := page.Limit(in.limit, a.PageSize, a.MaxPageSize)
	q.Limit, q.Page = limit+1, true
	docs, err := a.deps.Backend.List(ctx, q)
	if err != nil {
		return nil, err
	}
	next := ""
	docs, more := page.Cut(docs, limit, func(d Doc) int { return len(d.Body) })
	if more {
		next = a.deps.Cursors.Seal(scope, docs[len(docs)-1].ID)
	}
	show := a.wireDoc
	if in.summary {
		show = a.codec.summary
	}
	if in.include {
		if show, err = a.Include.adding(ctx, tenant, docs, show); err != nil {
			return nil, err
		}
	}
	reply, err := a.wirePage(docs, next, show)
	if err != nil || in.words != "" {
		return reply, err
	}
	total, known, err := a.total(ctx, tenant, in.where)
	if err == nil && known {
		end := len(reply.JSON) - len("}")
		reply.JSON = append(strconv.AppendInt(append(reply.JSON[:end], `,"total":`...), total, 10), '}')
	}
	return reply, err
}

func (a *api[T]) wirePage(docs []Doc, next string, show func([]byte, Doc) ([]byte, error)) (*route.Reply, error) {
	size := 100
	for _, doc := range docs {
		size += len(doc.Body) + 220
	}
	out := append(make([]byte, 0, size*(1+len(a.Keys))), `{"items":`...)
	from := len(out)
	out = append(out, '[')
	for i, doc := range docs {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = show(out, doc); err != nil {
			return nil, err
		}
	}
	out = append(out, ']')
	items := out[from:len(out):len(out)]
	for _, key := range a.Keys {
		out = append(append(append(out, `,"`...), key...), `":`...)
		out = append(out, items...)
	}
	if next == "" {
		return &route.Reply{JSON: append(out, `,"cursor":null,"has_more":false}`...)}, nil
	}
	out = append(append(append(out, `,"cursor":"`...), next...), `","has_more":true}`...)
	return &route.Reply{JSON: out}, nil
}
