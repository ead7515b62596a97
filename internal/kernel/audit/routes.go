package audit

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// Entries per page, and how many are counted: a log only grows, and the exact
// number of a million entries is not worth waiting for.
const (
	defaultPage = 50
	maxPage     = 500
	mostCounted = 10_000
)

type listIn struct {
	EntryFilter

	TenantID string `query:"tenant_id" maxLength:"100" doc:"Another company's log; only the operator may name one, and both logs then say so."`
	Limit    string `query:"limit" doc:"Entries per page, 1 to 500; 50 if it is left out."`
	Cursor   string `query:"cursor"`
}

type targetIn struct {
	TargetFilter

	TenantID string `query:"tenant_id" maxLength:"100" doc:"Another company's log; only the operator may name one, and both logs then say so."`
	Limit    string `query:"limit" doc:"Entries per page, 1 to 500; the newest 500 without paging if it is left out."`
	Cursor   string `query:"cursor"`
}

// Page is a part of a log, newest first.
type Page struct {
	_ struct{} `json:"-" name:"AuditEntryList"`

	Entries []Record `json:"entries" required:"true"`
	Total   int      `json:"total" required:"true" doc:"How many there are on all pages; at most 10000 are counted."`
	HasMore *bool    `json:"has_more,omitzero"`
	Cursor  string   `json:"cursor,omitzero" doc:"Where the next page begins, if there is one."`
}

// Routes lists the operations on the log.
func (l *Log) Routes() []route.Route {
	row := func(path, id, summary, doc string) route.Row {
		return route.Row{
			Method: "GET", Path: "/api/v1/admin/audit" + path, ID: id, Tag: "Admin", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{authz.SuperScope}, Role: authz.Admin, Errors: []int{404, 422},
		}
	}
	export := row("/export", "exportAuditLog", "Export the audit log",
		"Lines of JSON, oldest first, of entries that are at least ten seconds old. Each line is an entry with its `cursor`: "+
			"send that of the last line as `after` to continue, until there is none.")
	export.Reads = "audit.exported"
	return []route.Route{
		route.Action(export, l.export),
		route.Action(row("", "listAuditEntries", "Read the audit log",
			"Who did what to what, newest first. Entries are written together with what they record; "+
				"they never change, and go only when the company is purged or the operator's retention ends."), l.list),
		route.Action(row("/{targetId}", "listAuditEntriesOfTarget", "Read what was done to one thing",
			"Newest first. Of what is not there, or was never touched, there are no entries."), l.ofTarget),
	}
}

func (l *Log) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	in.TenantID = cmp.Or(in.TenantID, who.TenantID)
	f := Filter{EntryFilter: in.EntryFilter, Limit: page.Limit(in.Limit, defaultPage, maxPage)}
	return l.page(ctx, who, f, request{in.TenantID, page.ScopeOf(who.TenantID, "audit", in), in.Cursor, true})
}

func (l *Log) ofTarget(ctx context.Context, who authz.Caller, in *targetIn) (*Page, error) {
	in.TenantID = cmp.Or(in.TenantID, who.TenantID)
	if in.TargetType == "unknown" {
		in.TargetType = ""
	}
	f := Filter{TargetFilter: in.TargetFilter, Limit: page.Limit(in.Limit, maxPage, maxPage)}
	scope := page.ScopeOf(who.TenantID, "audit_of_target", in)
	return l.page(ctx, who, f, request{in.TenantID, scope, in.Cursor, in.Limit != "" || in.Cursor != ""})
}

// request is a request for a page of a log.
type request struct {
	tenant string // the owner of the log
	scope  page.Scope
	cursor string
	paged  bool // the answer has the paging fields
}

// page reads a page.
func (l *Log) page(ctx context.Context, who authz.Caller, f Filter, r request) (*Page, error) {
	tenant := r.tenant
	if tenant != who.TenantID {
		if err := l.mayRead(ctx, who, tenant); err != nil {
			return nil, err
		}
	}
	position, err := l.Cursors.Open(r.scope, r.cursor)
	if err != nil {
		return nil, err
	}
	f.After = parsePosition(position)
	asked := f.Limit
	f.Limit++
	entries, err := l.Store.List(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	p := &Page{Entries: entries}
	more := len(entries) > asked
	if more {
		p.Entries = entries[:asked]
	}
	if p.Total, err = l.Store.Count(ctx, tenant, f, mostCounted); err != nil {
		return nil, err
	}
	if r.paged {
		if p.HasMore = &more; more {
			p.Cursor = l.Cursors.Seal(r.scope, p.Entries[asked-1].position())
		}
	}
	if tenant != who.TenantID {
		err = l.readAcross(ctx, who, tenant, f)
	}
	return p, err
}

// mayRead returns an error unless the caller is an operator who reads the log of
// another tenant. The refusal of anybody else does not reveal whether the tenant
// exists.
func (l *Log) mayRead(ctx context.Context, who authz.Caller, tenant string) error {
	if !who.Operator {
		return fault.New(fault.Forbidden, "", "Only the operator of this service may read the audit log of another company.")
	}
	there := ident.Valid(tenant)
	if there {
		var err error
		if there, err = l.Store.HasTenant(ctx, tenant); err != nil {
			return err
		}
	}
	if !there {
		return fault.New(fault.NotFound, "", "There is no such company.")
	}
	return nil
}

// readAcross records in both logs that the operator read another tenant's log.
func (l *Log) readAcross(ctx context.Context, who authz.Caller, tenant string, f Filter) error {
	details, err := json.Marshal(struct {
		Action string `json:"action,omitzero"`
		Actor  string `json:"actor_id,omitzero"`
		Target string `json:"target_id,omitzero"`
	}{f.Action, f.ActorID, f.TargetID})
	if err != nil {
		return err
	}
	e := Entry{Action: "audit.cross_tenant_read", TargetType: "tenant", TargetID: tenant, Details: details}
	return l.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := l.Record(tx, who, e); err != nil {
			return err
		}
		return l.RecordFor(tx, tenant, who, e)
	})
}

// position returns the place of the record, as a cursor keeps it.
func (r Record) position() string { return strconv.FormatInt(r.At.UnixMicro(), 10) + "/" + r.EntryID }

// parsePosition reads the result of [Record.position]; "" is the beginning.
func parsePosition(s string) Position {
	at, id, ok := strings.Cut(s, "/")
	micros, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return Position{}
	}
	return Position{At: time.UnixMicro(micros).UTC(), EntryID: id}
}
