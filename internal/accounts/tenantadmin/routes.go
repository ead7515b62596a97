package tenantadmin

import (
	"cmp"
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

// maxPage is the maximum number of tenants on a page.
const maxPage = 500

type tenantIn struct {
	TenantID string `path:"tenantId"`
}

type listIn struct {
	Filter

	Limit  string `query:"limit" doc:"Companies per page, 1 to 500. Default: all."`
	Cursor string `query:"cursor"`
}

// Page is a page of tenants, or all of them if no page was requested.
type Page struct {
	_ struct{} `json:"-" name:"AdminTenantList"`

	Tenants []Tenant `json:"tenants" required:"true"`
	Total   int      `json:"total" required:"true" doc:"Number of companies on all pages."`
	HasMore *bool    `json:"has_more,omitzero"`
	Cursor  string   `json:"cursor,omitzero"`
}

type createIn struct {
	Body Creation
}

type changeIn struct {
	TenantID string `path:"tenantId"`
	Body     Change
}

type suspendIn struct {
	TenantID string `path:"tenantId"`
	Body     struct {
		_ struct{} `json:"-" name:"AdminTenantSuspend"`

		Reason string `json:"reason,omitzero" maxLength:"2000" doc:"Why, for operators; kept in the audit log."`
	}
}

type settingsIn struct {
	TenantID string `path:"tenantId"`
	Body     struct {
		_ struct{} `json:"-" name:"AdminTenantSettingsUpdate"`

		PurgeProtection *bool     `json:"purge_protection,omitzero" doc:"Whether the company is protected from being purged."`
		EgressAllowlist *[]string `json:"egress_allowlist,omitzero" maxItems:"200" doc:"Hosts that calls to addresses of the company's choice may reach: names, *.domain, addresses and networks, each with or without a port. Empty: any public host."`
		LegalHold       *bool     `json:"legal_hold,omitzero" doc:"Whether the company's data must be kept: it cannot be purged, and its owner cannot lift the hold."`
		MaxRetention    *int64    `json:"max_retention_days,omitzero" minimum:"0" maximum:"36500" doc:"Days that the company's runs are kept after their end at most, and that its activity feed goes back. 0: as long as the operator's settings say."`
	}
}

type purgeIn struct {
	TenantID string `path:"tenantId"`
	Confirm  string `query:"confirm" maxLength:"200" doc:"The id, name or slug of the company. Can be sent in the body instead."`
	DryRun   bool   `query:"dry_run" doc:"Only count what would be deleted."`
	Body     struct {
		_ struct{} `json:"-" name:"AdminTenantPurge"`

		Confirm string `json:"confirm,omitzero" maxLength:"200" doc:"The id, name or slug of the company, so that no other is purged by mistake. Required, here or in the query."`
		DryRun  bool   `json:"dry_run,omitzero" doc:"Only count what would be deleted. Default: false."`
	}
}

type usageIn struct {
	TenantID string `path:"tenantId"`
	Period   string `query:"period" maxLength:"20" doc:"A month such as 2026-09. Default: the current month."`
}

// Used is what a tenant used in a month.
type Used struct {
	_ struct{} `json:"-" name:"AdminTenantUsage"`

	TenantID string        `json:"tenant_id" required:"true"`
	Period   string        `json:"period" required:"true"`
	Usage    schema.Object `json:"usage" required:"true"`
}

// Routes lists the operations on tenants.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary, doc string, errors ...int) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1/admin/tenants" + path, ID: id, Tag: "Admin", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{authz.SuperScope}, Role: authz.Admin, Operator: true, Fresh: method != "GET", Errors: errors,
		}
	}
	const one = "/{tenantId}"
	create := row("POST", "", "createTenant", "Create a company",
		"Also creates its owner and, unless owner_key is false, a key with all rights of the owner. Only this response shows the "+
			"key.", 409)
	create.Status = 201
	suspend := row("PUT", one+"/suspend", "suspendTenant", "Suspend a company",
		"Takes effect immediately: its keys and sessions are refused, no run starts, no schedule fires, "+
			"and runs in progress stop before their next model call. Suspending it again changes the reason.", 404)
	suspend.Optional = true
	purge := row("DELETE", one, "purgeTenant", "Delete a company and all its data",
		"The company is inaccessible as soon as this request succeeds. Its data is deleted in the background; "+
			"the audit log records when that is done. This cannot be undone.", 404, 409, 422, 423)
	purge.Optional = true
	get := row("GET", one, "getTenant", "Get a company", "", 404)
	update := row("PATCH", one, "updateAdminTenant", "Update a company", "", 404, 409)
	getSettings := row("GET", one+"/settings", "getTenantSettings", "Get the operator's settings of a company", "", 404)
	setSettings := row("PATCH", one+"/settings", "updateTenantSettings", "Change the operator's settings of a company",
		"Absent settings stay. They hold on all nodes within 2 seconds.", 404, 422)
	for _, r := range []*route.Row{&get, &update, &purge, &getSettings, &setSettings} {
		r.Conditional = true
	}
	routes := []route.Route{
		route.Action(row("GET", "", "listTenants", "List companies, newest first", "", 422), s.list),
		route.Action(create, func(ctx context.Context, who authz.Caller, in *createIn) (Created, error) {
			return s.Create(ctx, who, in.Body)
		}),
		route.Action(get, func(ctx context.Context, _ authz.Caller, in *tenantIn) (Tenant, error) {
			return s.Get(ctx, in.TenantID)
		}),
		route.Action(update, func(ctx context.Context, who authz.Caller, in *changeIn) (Tenant, error) {
			return s.Update(ctx, who, in.TenantID, in.Body)
		}),
		route.Action(purge, func(ctx context.Context, who authz.Caller, in *purgeIn) (PurgeAnswer, error) {
			return s.Purge(ctx, who, in.TenantID, cmp.Or(in.Confirm, in.Body.Confirm), in.DryRun || in.Body.DryRun)
		}),
		route.Action(suspend, func(ctx context.Context, who authz.Caller, in *suspendIn) (Suspension, error) {
			return s.Suspend(ctx, who, in.TenantID, in.Body.Reason)
		}),
		route.Action(row("PUT", one+"/reactivate", "reactivateTenant", "Reactivate a company", "Its runs continue where they stopped.", 404),
			func(ctx context.Context, who authz.Caller, in *tenantIn) (Reactivation, error) {
				return s.Reactivate(ctx, who, in.TenantID)
			}),
		route.Action(getSettings, func(ctx context.Context, _ authz.Caller, in *tenantIn) (SettingsAnswer, error) {
			t, err := s.Get(ctx, in.TenantID)
			return settingsOf(t), err
		}),
		route.Action(setSettings, func(ctx context.Context, who authz.Caller, in *settingsIn) (SettingsAnswer, error) {
			return s.Configure(ctx, who, in.TenantID, SettingsChange{
				in.Body.PurgeProtection, in.Body.EgressAllowlist, in.Body.LegalHold, in.Body.MaxRetention,
			})
		}),
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/bootstrap", ID: "bootstrap", Tag: "Admin", Public: true, Status: 201, Errors: []int{409},
			Summary: "Create the first company",
			Doc:     "Always answers 409: the server created the first company when it was first started, and printed the owner's key.",
		}, func(context.Context, authz.Caller, *struct{}) (struct{}, error) {
			return struct{}{}, fault.New(fault.Conflict, "already_bootstrapped",
				"This deployment already has its first company: the server created it when it was first started.")
		}),
	}
	if s.Usage != nil {
		routes = append(routes, route.Action(row("GET", one+"/usage", "getTenantUsage", "Get a company's usage in a month", "", 404, 422),
			s.usage))
	}
	return routes
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	p := &Page{}
	paged := in.Limit != "" || in.Cursor != ""
	scope := page.ScopeOf(who.TenantID, "tenants", in)
	limit := page.Limit(in.Limit, maxPage, maxPage)
	var w page.Window
	var err error
	if paged {
		if w.After, err = s.Cursors.Open(scope, in.Cursor); err != nil {
			return nil, err
		}
		w.Limit = limit + 1
	}
	if p.Tenants, err = s.List(ctx, in.Filter, w); err != nil {
		return nil, err
	}
	p.Total = len(p.Tenants)
	if !paged {
		return p, nil
	}
	more := len(p.Tenants) > limit
	if p.HasMore = &more; more {
		p.Tenants = p.Tenants[:limit]
		p.Cursor = s.Cursors.Seal(scope, p.Tenants[limit-1].TenantID)
	}
	p.Total, err = s.Store.Count(ctx, in.Filter)
	return p, err
}

func (s *Service) usage(ctx context.Context, _ authz.Caller, in *usageIn) (Used, error) {
	if _, err := s.Get(ctx, in.TenantID); err != nil {
		return Used{}, err
	}
	usage, err := s.Usage(ctx, in.TenantID, in.Period)
	return Used{TenantID: in.TenantID, Period: cmp.Or(in.Period, s.Clock.Now().Format("2006-01")), Usage: usage}, err
}
