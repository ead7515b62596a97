package httpapi

import (
	"errors"
	"net/http"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/audit"
)

// watchRequest passes on a request that is over if it belongs in the audit log: a
// sign-in, a credential, a link or a signature that was refused, a refusal for lack
// of rights, and a download. It is the one place from which these entries come.
func (s *Server) watchRequest(x *exchange, method string) {
	row := &x.op.row
	seen := audit.Sighting{Who: x.who, Operation: row.ID}
	if x.failed != nil {
		seen.Code = x.failed.Code
	}
	switch {
	case x.failed == nil:
		if row.Reads == "" || method != http.MethodGet || x.status != http.StatusOK && x.status != http.StatusPartialContent {
			return
		}
		seen.Action, seen.Target = row.Reads, audit.TargetOf(row.Reads)
		if x.routed != nil {
			seen.TargetID = x.param(0)
		}
	case x.holder != nil:
		seen.Action = audit.CredentialRefused
		if x.holder.TenantID != "" {
			seen.Who = *x.holder
			seen.Who.Address, seen.Who.RequestID = x.who.Address, x.who.RequestID
		}
	case row.SignIn && x.status >= 400 && x.status < 500 && x.status != http.StatusUnprocessableEntity:
		seen.Action = audit.SignInFailed
	case row.Refused != "" && isRefusal(x.failed):
		seen.Action = row.Refused
		if known, ok := errors.AsType[*audit.Refusal](x.failed); ok {
			seen.Who.TenantID, seen.Target, seen.TargetID = known.TenantID, audit.TargetOf(row.Refused), known.TargetID
		}
	case x.failed.Kind == fault.Forbidden:
		seen.Action = audit.AccessRefused
	default:
		return
	}
	s.watch(seen)
}

// isRefusal reports whether a link or a signature was not accepted.
func isRefusal(e *fault.Error) bool {
	return e.Kind == fault.Unauthenticated || e.Kind == fault.Forbidden || e.Kind == fault.NotFound
}
