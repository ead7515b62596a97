package review

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/page"
	"agentd/internal/kernel/audit"
)

const (
	maxAudited  = 500
	mostCounted = 10_000
)

type runAuditIn struct {
	RunID  string `path:"runId"`
	Limit  string `query:"limit" doc:"Entries per page, 1 to 500; the first 500 without paging if it is left out."`
	Cursor string `query:"cursor"`
}

type sessionAuditIn struct {
	SessionID string `path:"sessionId"`
	Limit     string `query:"limit" doc:"Entries per page, 1 to 500; the first 500 without paging if it is left out."`
	Cursor    string `query:"cursor"`
}

// AuditPage is what was done to one thing.
type AuditPage struct {
	Entries []audit.Record `json:"audit_log" required:"true" doc:"Without the addresses of those who did it, which are in the company's audit log."`
	Total   int            `json:"total" required:"true" doc:"How many there are on all pages; at most 10000 are counted."`
	HasMore *bool          `json:"has_more,omitzero"`
	Cursor  string         `json:"cursor,omitzero" doc:"Where the next page begins, if there is one."`
}

// RunAudit is what was done to a run.
type RunAudit struct {
	_ struct{} `json:"-" name:"RunAuditLog"`

	RunID string `json:"run_id" format:"uuid" required:"true"`
	AuditPage
}

// SessionAudit is what was done to a session.
type SessionAudit struct {
	_ struct{} `json:"-" name:"SessionAuditLog"`

	SessionID string `json:"session_id" format:"uuid" required:"true"`
	AuditPage
}

func (s *Service) auditOfRun(ctx context.Context, who authz.Caller, in *runAuditIn) (*RunAudit, error) {
	if _, err := s.Runs.Get(ctx, who.TenantID, in.RunID); err != nil {
		return nil, err
	}
	all, err := s.audited(ctx, who, "run", in.RunID, page.ScopeOf(who.TenantID, "run_audit", in), in.Limit, in.Cursor)
	return &RunAudit{RunID: in.RunID, AuditPage: all}, err
}

func (s *Service) auditOfSession(ctx context.Context, who authz.Caller, in *sessionAuditIn) (*SessionAudit, error) {
	if err := s.Session(ctx, who.TenantID, in.SessionID); err != nil {
		return nil, err
	}
	all, err := s.audited(ctx, who, "session", in.SessionID, page.ScopeOf(who.TenantID, "session_audit", in), in.Limit, in.Cursor)
	return &SessionAudit{SessionID: in.SessionID, AuditPage: all}, err
}

// audited returns a page of what was done to one thing, oldest first.
func (s *Service) audited(
	ctx context.Context, who authz.Caller, kind, id string, scope page.Scope, limit, cursor string,
) (p AuditPage, err error) {
	position, err := s.Cursors.Open(scope, cursor)
	if err != nil {
		return p, err
	}
	n := page.Limit(limit, maxAudited, maxAudited)
	f := audit.Filter{TargetFilter: audit.TargetFilter{TargetID: id, TargetType: kind}, OldestFirst: true, Limit: n + 1}
	if position != "" {
		f.After.At, f.After.EntryID = page.Moment(position).Parts()
	}
	if p.Entries, err = s.AuditLog.List(ctx, who.TenantID, f); err != nil {
		return p, err
	}
	more := len(p.Entries) > n
	p.Entries = p.Entries[:min(n, len(p.Entries))]
	if limit != "" || cursor != "" {
		if p.HasMore = &more; more {
			last := p.Entries[n-1]
			p.Cursor = s.Cursors.Seal(scope, page.MomentOf(last.At, last.EntryID))
		}
	}
	for i := range p.Entries {
		p.Entries[i].Address = ""
	}
	p.Total, err = s.AuditLog.Count(ctx, who.TenantID, f, mostCounted)
	return p, err
}
