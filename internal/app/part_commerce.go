package app

import (
	"slices"

	"agentd/internal/base/txn"
	"agentd/internal/commerce/customer"
	"agentd/internal/commerce/enrollment"
	"agentd/internal/commerce/order"
	"agentd/internal/commerce/product"
	"agentd/internal/commerce/sales"
	"agentd/internal/kernel/resource"
)

// commercePart is what companies sell.
func commercePart(p *platform, agents *agents, content *content) part {
	customers := resource.NewStore(customer.Customers, p.kernel)
	exists := func(tx txn.Tx, tenant, id string) error {
		_, err := customers.GetTx(tx, tenant, id)
		return err
	}
	products := product.New(p.kernel, product.Options{
		Agent: func(tx txn.Tx, tenant, id string) error {
			_, err := agents.agents.Store().GetTx(tx, tenant, id)
			return err
		},
		KnowledgeBase: content.knowledge.CheckTx,
	})
	enrollments := enrollment.New(p.kernel, enrollment.Options{
		Clock: p.clock, Customer: exists,
		Product: func(tx txn.Tx, tenant, id string) error {
			_, err := products.GetTx(tx, tenant, id)
			return err
		},
	})
	orders := order.New(p.kernel, order.Options{
		Clock: p.clock, Counters: p.kernel.Counters, Enrollments: enrollments, Customer: exists, Product: products.GetTx,
	})
	figures := &sales.Service{Counters: p.kernel.Counters}
	return part{name: "commerce", routes: slices.Concat(products.Routes(), orders.Routes(), enrollments.Routes(), figures.Routes())}
}
