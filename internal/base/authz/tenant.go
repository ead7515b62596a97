package authz

import "context"

type tenantKey struct{}

// WithTenant returns a context for calls to other services that are made for a
// tenant, whose rules hold for them.
func WithTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// TenantOf returns the tenant of WithTenant; "" if there is none.
func TenantOf(ctx context.Context) string {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	return tenant
}
