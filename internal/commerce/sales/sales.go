// Package sales says what a company has sold.
package sales

import (
	"context"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/commerce/order"
	"agentd/internal/kernel/resource"
)

// Analytics is what a company has sold.
type Analytics struct {
	_ struct{} `json:"-" name:"CommerceAnalytics"`

	Customers            int64            `json:"total_customers"`
	Products             int64            `json:"total_products"`
	Orders               int64            `json:"total_orders"`
	PaidOrders           int64            `json:"paid_orders" doc:"Those that are paid and not refunded."`
	Revenue              int64            `json:"total_revenue_cents" doc:"What these brought, in the smallest unit of each currency; see revenue_by_currency where there are several."`
	RevenueByCurrency    map[string]int64 `json:"revenue_by_currency" doc:"The same by currency."`
	ActiveEnrollments    int64            `json:"active_enrollments"`
	CompletedEnrollments int64            `json:"completed_enrollments"`
}

// Service answers what the counters of commerce say.
type Service struct{ Counters resource.Counters }

// Routes returns the operation on the counters.
func (s *Service) Routes() []route.Route {
	return []route.Route{route.Action(route.Row{
		Method: "GET", Path: "/api/v1/commerce/analytics", ID: "getCommerceAnalytics", Tag: "Commerce",
		Summary: "Count customers, products, orders and enrollments.", Scopes: []authz.Scope{"billing:read"},
	}, s.analytics)}
}

type analyticsIn struct{}

func (s *Service) analytics(ctx context.Context, who authz.Caller, _ *analyticsIn) (*Analytics, error) {
	return s.Analytics(ctx, who.TenantID)
}

// Analytics counts what a company has sold.
func (s *Service) Analytics(ctx context.Context, tenant string) (*Analytics, error) {
	counts, err := s.Counters.List(ctx, tenant, "")
	if err != nil {
		return nil, err
	}
	revenue := map[string]int64{}
	for name, cents := range counts {
		if currency, is := strings.CutPrefix(name, order.Revenue); is {
			revenue[currency] = cents
		}
	}
	return &Analytics{
		Customers: sum(counts, "customer:"), Products: sum(counts, "product:"), Orders: sum(counts, "order:"),
		PaidOrders: counts["order:paid"], Revenue: sum(counts, order.Revenue), RevenueByCurrency: revenue,
		ActiveEnrollments: counts["enrollment:active"], CompletedEnrollments: counts["enrollment:completed"],
	}, nil
}

// sum adds up counters whose names begin so.
func sum(counts map[string]int64, prefix string) (total int64) {
	for name, n := range counts {
		if strings.HasPrefix(name, prefix) {
			total += n
		}
	}
	return total
}
