package reconciliation

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/operation/setting"
)

// Routes lists the operations.
func (s *Service) Routes() []route.Route {
	const path = "/config/reconciliation"
	get := setting.Operation("GET", path, "getReconciliation", "Get the settings and the last comparison of counters and runs",
		"The settings that hold now, and the result of the last comparison of all companies, by request or by itself.")
	run := setting.Operation("POST", path, "runReconciliation", "Compare counters and runs",
		"Compares the usage counters of all companies, by which they are limited and billed, with what the runs that were created in the "+
			"period say of themselves. It takes 20 seconds at most; what is missing then, complete says.", 422)
	run.Optional, run.Example = true, `{"period": "2026-09"}`
	one := setting.Operation("GET", "/reconciliation/{tenantId}", "adminGetReconciliation", "Compare a company's counters with its runs",
		"The last comparison of the company. With period, or if there is none yet, it is compared at once, and nothing is kept.", 404, 422)
	get.Tag, run.Tag = "Admin Config", "Admin Config"
	// Only PUT: the operation above answers more than the settings.
	put := setting.Routes(s.Settings, setting.Published[Settings]{
		Name: "reconciliation", PutID: "updateReconciliation", What: "when counters and runs are compared",
		Doc: "When all companies are compared by themselves, and which difference is reported.", Example: `{"threshold_percent": 1}`,
	})[1]
	put.Tag = "Admin Config"
	return []route.Route{route.Action(get, s.config), put, route.Action(run, s.run), route.Action(one, s.one)}
}

// Config answers GET /admin/config/reconciliation.
type Config struct {
	_ struct{} `json:"-" name:"AdminConfigReconciliationState"`

	Enabled   bool    `json:"enabled" required:"true" doc:"Whether the day before is compared by itself."`
	Hours     int64   `json:"interval_hours" required:"true"`
	Threshold float64 `json:"threshold_percent" required:"true"`
	Last      *Turn   `json:"last_result" required:"true" doc:"Null: nothing was compared yet."`
}

func (s *Service) config(ctx context.Context, _ authz.Caller, _ *struct{}) (out Config, err error) {
	set := s.Settings.Get()
	out = Config{Enabled: set.Enabled, Hours: set.Hours, Threshold: set.Threshold}
	out.Last, err = s.Store.GetTurn(ctx)
	return out, err
}

type runIn struct {
	Body struct {
		Period string `json:"period,omitzero" maxLength:"10" doc:"A day, 2026-09-10, or a month, 2026-09, that has begun. Left out: yesterday, UTC."`
	}
}

func (s *Service) run(ctx context.Context, who authz.Caller, in *runIn) (*Turn, error) {
	p, err := periodOf(in.Body.Period, s.Clock.Now())
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	t, err := s.turn(bounded, p)
	if err != nil {
		return nil, err
	}
	details, err := json.Marshal(map[string]any{"period": t.Period, "companies": t.Companies, "drifting": t.Drifts}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return t, s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Store.PutTurnTx(tx, t); err != nil {
			return err
		}
		err := audit.Write(s.Audit, tx, who, audit.Entry{
			Action: "reconciliation.made", TargetType: "setting", TargetID: "reconciliation", Details: details,
		})
		if err != nil {
			return err
		}
		return txn.Answer(tx, t)
	})
}

type oneIn struct {
	TenantID string `path:"tenantId"`
	Period   string `query:"period" doc:"A day or a month that has begun, to compare now. Default: the last comparison."`
}

// Report answers GET /admin/reconciliation/{tenantId}.
type Report struct {
	_ struct{} `json:"-" name:"ReconciliationReport"`

	TenantID       string  `json:"tenant_id" required:"true"`
	Reconciliation *Result `json:"reconciliation" required:"true"`
}

func (s *Service) one(ctx context.Context, _ authz.Caller, in *oneIn) (out Report, err error) {
	found, err := s.Store.HasTenant(ctx, in.TenantID)
	if err != nil {
		return out, err
	}
	if !found {
		return out, fault.NewNotFound("tenant")
	}
	p, err := periodOf(in.Period, s.Clock.Now())
	if err != nil {
		return out, err
	}
	out.TenantID = in.TenantID
	if in.Period == "" {
		if out.Reconciliation, err = s.Store.GetResult(ctx, in.TenantID); err != nil || out.Reconciliation != nil {
			return out, err
		}
	}
	out.Reconciliation, err = s.compare(ctx, in.TenantID, p)
	return out, err
}
