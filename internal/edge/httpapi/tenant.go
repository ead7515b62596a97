package httpapi

import (
	"context"
	"net/http"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
)

// tenantHeader names the company that a client means to act in, in requests, and
// the company that a credential belongs to, in answers.
const tenantHeader = "X-Tenant-Id"

// TenantNames returns the names of the caller's company and of another one, each
// empty if the caller may not know it.
type TenantNames func(ctx context.Context, who authz.Caller, other string) (own, asserted string)

// assertTenant refuses a request that is meant for another company than its
// credential's. All tabs of a browser share one session: where one of them
// switches companies, the others would act in the wrong one.
func (s *Server) assertTenant(x *exchange, r *http.Request) error {
	x.Header()[tenantHeader] = []string{x.who.TenantID}
	for _, asserted := range r.Header[tenantHeader] {
		if asserted != x.who.TenantID {
			return s.tenantSwitched(x, asserted)
		}
	}
	return nil
}

func (s *Server) tenantSwitched(x *exchange, asserted string) error {
	x.Header()["X-Should-Retry"] = []string{"false"}
	extra := map[string]any{"tenant_id": x.who.TenantID}
	mine, meant := x.who.TenantID, "another company"
	if s.tenantNames != nil {
		own, other := s.tenantNames(x, x.who, asserted)
		if own != "" {
			mine, extra["tenant_name"] = own, own
		}
		if other != "" {
			meant, extra["requested_tenant_id"], extra["requested_tenant_name"] = other, asserted, other
		}
	}
	e := fault.New(fault.Conflict, "TENANT_SWITCHED", "By its header X-Tenant-Id this request is meant for %s, and its credential belongs "+
		"to %s now; nothing was done. Switch back, or reload to go on there.", meant, mine)
	e.Extra = extra
	return e
}
