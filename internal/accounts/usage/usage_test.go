package usage_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/usage"
	"agentd/internal/accounts/usage/usagesql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// bench is a database with a tenant, and the services of some nodes.
type bench struct {
	t      *testing.T
	db     *sqldb.DB
	store  *usagesql.Store
	clock  *clock.Fake
	tenant string
	plans  *quota.Plans
	outbox *outbox
	log    *strings.Builder
}

// outbox is a resource.Outbox that remembers.
type outbox struct {
	mu  sync.Mutex
	all []resource.Change
}

func (o *outbox) Append(tx txn.Tx, c resource.Change) error {
	tx.AfterCommit(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all = append(o.all, c)
	})
	return nil
}

func (o *outbox) changes() []resource.Change {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all)
}

const plansFile = `{"plans": [
	{"id": "free", "name": "Free", "limits": {"runs_per_month": 10, "tokens_per_month": 1000, "tokens_per_day": 400, "tool_calls_per_month": 5,
		"agents": 3, "knowledge_bases": 1, "workspaces": 2, "active_sessions": 4}},
	{"id": "roomy", "name": "Roomy", "limits": {"runs_per_month": 100}},
	{"id": "closed", "name": "Closed", "limits": {"runs_per_month": 0, "tokens_per_month": 0, "agents": 0}},
	{"id": "gated", "name": "Gated", "models": ["default/m", "acme/*"], "limits": {
		"model_requests_per_minute": 5, "model_requests_per_hour": 8, "model_requests_per_day": 10, "tokens_per_month": 5000}},
	{"id": "open", "name": "Open"}
], "default": "open"}`

func newBench(t *testing.T, db *sqldb.DB, plan string) *bench {
	t.Helper()
	plans, err := quota.Parse([]byte(plansFile))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, db: db, store: usagesql.New(db), clock: clock.NewFake(), plans: plans, outbox: &outbox{}, log: &strings.Builder{}}
	b.tenant = b.tenantOn(plan)
	return b
}

// tenantOn makes a tenant on a plan, which there need not be.
func (b *bench) tenantOn(plan string) string {
	b.t.Helper()
	id, now := ident.New(), b.clock.Now()
	b.write(func(tx txn.Tx) error {
		return identitysql.New(b.db).CreateTenantTx(tx, identity.Tenant{
			TenantID: id, Name: "Walrus", Slug: id, Status: identity.Active, Plan: plan, Settings: jsontext.Value("{}"), CreatedAt: now,
			UpdatedAt: now,
		})
	})
	return id
}

// node is a process.
func (b *bench) node() *usage.Service {
	return usage.New(usage.Deps{
		Plans: b.plans, Store: b.store, Writer: b.db, Clock: b.clock, Logger: slog.New(slog.NewTextHandler(b.log, nil)), Outbox: b.outbox,
	})
}

func (b *bench) write(do func(txn.Tx) error) {
	b.t.Helper()
	if err := b.db.Write(b.t.Context(), do); err != nil {
		b.t.Fatal(err)
	}
}

// use counts uses that must be counted.
func (b *bench) use(s *usage.Service, uses ...quota.Use) {
	b.t.Helper()
	for i := range uses {
		if uses[i].AgentID == "" {
			uses[i].AgentID, uses[i].Source = "a", "api"
		}
	}
	b.write(s.Count(b.tenant, uses...))
}

// refused fails unless an error is a refusal with a code.
func refused(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != kind || f.Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func allowed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("refused: %v", err)
	}
}

// Of 50 runs that are made at once, on two nodes, a limit of 10 lets 10 be made.
func TestRunsAreCountedExactly(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "free")
		nodes := []*usage.Service{b.node(), b.node()}
		var mu sync.Mutex
		made, stopped := 0, 0
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				err := db.Write(t.Context(), nodes[i%2].Count(b.tenant, quota.Use{AgentID: ident.New(), Source: "api", Runs: 1}))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					made++
					return
				}
				stopped++
				refused(t, err, fault.Limited, quota.CodeExceeded)
			})
		}
		all.Wait()
		if made != 10 || stopped != 40 {
			t.Errorf("%d runs were made and %d refused", made, stopped)
		}
		b.clock.Advance(time.Second) // the last run may be the other node's
		refused(t, nodes[0].AllowRun(t.Context(), b.tenant), fault.Limited, quota.CodeExceeded)
		allowed(t, nodes[0].AllowModelCall(t.Context(), b.tenant)) // those that were made go on
		got, err := nodes[1].UsageOf(t.Context(), b.tenant, "")
		if err != nil || got.RunsCount != 10 {
			t.Errorf("%d runs are counted, %v", got.RunsCount, err)
		}
		b.toldOnce(map[string]int{"threshold runs_per_month": 1, "exceeded runs_per_month": 1})
	})
}

// toldOnce compares the recorded events.
func (b *bench) toldOnce(want map[string]int) {
	b.t.Helper()
	got := map[string]int{}
	for _, c := range b.outbox.changes() {
		if c.Kind != usage.EventKind {
			b.t.Errorf("a change of kind %s", c.Kind)
		}
		got[c.Action+" "+c.Name]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Each mark is recorded once, by whichever node passes it, with its amounts.
func TestMarksAreToldOnce(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "free")
		nodes := []*usage.Service{b.node(), b.node(), b.node()}
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				use := quota.Use{AgentID: "a", Model: "default/m", Source: "api", InputTokens: 7, OutputTokens: 4, ThinkingTokens: 2}
				if err := db.Write(t.Context(), nodes[i%3].Count(b.tenant, use)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		b.toldOnce(map[string]int{"threshold tokens_per_day": 1})
		b.use(nodes[0], quota.Use{InputTokens: 70})
		b.toldOnce(map[string]int{"threshold tokens_per_day": 1, "exceeded tokens_per_day": 1})
		refused(t, nodes[0].AllowModelCall(t.Context(), b.tenant), fault.Limited, quota.CodeExceeded)

		change := b.outbox.changes()[1]
		e, err := nodes[1].Event(t.Context(), b.tenant, change.ID)
		if err != nil || e.Type != usage.TypeExceeded {
			t.Fatalf("%+v, %v", e, err)
		}
		want := `{"resource":"tokens_per_day","used":400,"limit":400,"percent":100,"resets_at":"2026-09-11T00:00:00Z"}`
		if got := string(e.Data()); got != want {
			t.Errorf("event %s, want %s", got, want)
		}
		_, err = nodes[1].Event(t.Context(), b.tenantOn("free"), change.ID)
		refused(t, err, fault.NotFound, "NOT_FOUND")

		// A transaction that fails records no event.
		failure := errors.New("no")
		err = db.Write(t.Context(), func(tx txn.Tx) error {
			if err := nodes[0].Count(b.tenant, quota.Use{AgentID: "a", ToolCalls: 5})(tx); err != nil {
				return err
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Error(err)
		}
		allowed(t, nodes[0].AllowToolCalls(t.Context(), b.tenant, 5))
		b.use(nodes[2], quota.Use{ToolCalls: 4})
		b.use(nodes[0], quota.Use{ToolCalls: 1})
		b.toldOnce(map[string]int{
			"threshold tokens_per_day": 1, "exceeded tokens_per_day": 1, "threshold tool_calls_per_month": 1, "exceeded tool_calls_per_month": 1,
		})
	})
}

// Counters reset at midnight UTC, and then record events again.
func TestPeriodsRollOver(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "free")
		s := b.node()
		b.clock.Advance(20*24*time.Hour + 12*time.Hour - time.Second) // 30 September, 23:59:59
		b.use(s, quota.Use{Runs: 10, InputTokens: 400, ToolCalls: 5})
		ctx := t.Context()
		refused(t, s.AllowRun(ctx, b.tenant), fault.Limited, quota.CodeExceeded)
		refused(t, s.AllowModelCall(ctx, b.tenant), fault.Limited, quota.CodeExceeded)
		refused(t, s.AllowToolCalls(ctx, b.tenant, 1), fault.Limited, quota.CodeExceeded)
		b.clock.Advance(time.Second)
		for _, node := range []*usage.Service{s, b.node()} {
			allowed(t, node.AllowRun(ctx, b.tenant))
			allowed(t, node.AllowModelCall(ctx, b.tenant))
			allowed(t, node.AllowToolCalls(ctx, b.tenant, 5))
		}
		b.use(s, quota.Use{InputTokens: 400})
		refused(t, s.AllowModelCall(ctx, b.tenant), fault.Limited, quota.CodeExceeded)
		b.clock.Advance(24 * time.Hour) // the day is new, the month is not
		b.use(s, quota.Use{InputTokens: 300})
		allowed(t, s.AllowModelCall(ctx, b.tenant))
		b.use(s, quota.Use{InputTokens: 300})
		f := fault.From(s.AllowModelCall(ctx, b.tenant))
		if f == nil || !strings.Contains(f.Detail, "1000 tokens in a month") {
			t.Errorf("the month's tokens are used up: %v", f)
		}
		months := map[string]int64{}
		for _, month := range []string{"2026-08", "2026-09", "2026-10"} {
			got, err := s.UsageOf(ctx, b.tenant, month)
			if err != nil {
				t.Fatal(err)
			}
			months[month] = got.TotalTokens
		}
		if diff := cmp.Diff(map[string]int64{"2026-08": 0, "2026-09": 400, "2026-10": 1000}, months); diff != "" {
			t.Error(diff)
		}
		b.toldOnce(map[string]int{
			"threshold runs_per_month": 1, "exceeded runs_per_month": 1, "threshold tool_calls_per_month": 1, "exceeded tool_calls_per_month": 1,
			"threshold tokens_per_day": 3, "exceeded tokens_per_day": 3, "threshold tokens_per_month": 1, "exceeded tokens_per_month": 1,
		})
	})
}

// What another node counted is seen within a second, what this one counted at
// once; and so is another plan.
func TestViewsAreASecondOld(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "free")
		here, there := b.node(), b.node()
		allowed(t, here.AllowModelCall(t.Context(), b.tenant))
		b.use(there, quota.Use{InputTokens: 400})
		refused(t, there.AllowModelCall(t.Context(), b.tenant), fault.Limited, quota.CodeExceeded)
		allowed(t, here.AllowModelCall(t.Context(), b.tenant))
		b.clock.Advance(time.Second)
		refused(t, here.AllowModelCall(t.Context(), b.tenant), fault.Limited, quota.CodeExceeded)

		b.plan("open")
		refused(t, here.AllowModelCall(t.Context(), b.tenant), fault.Limited, quota.CodeExceeded)
		here.TermsChanged(b.tenant)
		allowed(t, here.AllowModelCall(t.Context(), b.tenant))
		b.clock.Advance(time.Second)
		allowed(t, there.AllowModelCall(t.Context(), b.tenant))
		b.use(here, quota.Use{InputTokens: 5000}) // is counted without a limit
		if got, err := here.UsageOf(t.Context(), b.tenant, ""); err != nil || got.TotalTokens != 5400 || got.Plan != "open" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func (b *bench) put(tx txn.Tx, kind, id string) error {
	return resourcesql.New(b.db).PutTx(tx, resource.Doc{Kind: kind, Tenant: b.tenant, ID: id, Version: 1, Body: jsontext.Value("{}")}, 0)
}

func (b *bench) document(kind string) {
	b.t.Helper()
	b.write(func(tx txn.Tx) error { return b.put(tx, kind, ident.New()) })
}

func (b *bench) plan(id string) {
	b.t.Helper()
	b.write(func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(`UPDATE tenants SET plan = ? WHERE tenant_id = ?`, id, b.tenant)
		return err
	})
}

// The default plan replaces a plan that is no longer in the file.
func TestPlanThatIsGone(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "gone")
		s := b.node()
		for range 3 {
			allowed(t, s.AllowRun(t.Context(), b.tenant))
			b.clock.Advance(time.Minute)
		}
		plan, err := s.PlanOf(t.Context(), b.tenant)
		if err != nil || plan.ID != "open" || s.PlanKnown("gone") || !s.PlanKnown("free") || len(s.Plans()) != 5 {
			t.Errorf("%+v, %v", plan, err)
		}
		if got := strings.Count(b.log.String(), "plan=gone"); got != 1 {
			t.Errorf("it is logged %d times: %s", got, b.log)
		}
	})
}

// A limit of 0 is never lifted by waiting.
func TestNothingAllowed(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "closed")
		s := b.node()
		refused(t, s.AllowRun(t.Context(), b.tenant), fault.Forbidden, quota.CodeReached)
		refused(t, s.AllowModelCall(t.Context(), b.tenant), fault.Forbidden, quota.CodeReached)
		refused(t, db.Write(t.Context(), s.Count(b.tenant, quota.Use{AgentID: "a", Runs: 1})), fault.Forbidden, quota.CodeReached)
		reserve := func(tx txn.Tx) error { return s.Reserve(tx, b.tenant, quota.Agents) }
		refused(t, db.Write(t.Context(), reserve), fault.Forbidden, quota.CodeReached)
		b.toldOnce(map[string]int{})
	})
}

// Of 30 things that are made at once, on two nodes, there are as many as the
// plan allows, and a place that comes free can be taken.
func TestThingsAreCountedExactly(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		b := newBench(t, db, "free")
		type thing struct {
			resource quota.Resource
			limit    int
			add      func(tx txn.Tx, id string) error
			remove   string
		}
		document := func(kind string) func(tx txn.Tx, id string) error {
			return func(tx txn.Tx, id string) error { return b.put(tx, kind, id) }
		}
		later := sqldb.Micros(b.clock.Now().Add(time.Hour))
		for _, tt := range []thing{
			{quota.Agents, 3, document("agent"), `DELETE FROM documents WHERE tenant_id = ? AND id = ?`},
			{quota.KnowledgeBases, 1, document("knowledge_base"), `DELETE FROM documents WHERE tenant_id = ? AND id = ?`},
			{quota.Workspaces, 2, func(tx txn.Tx, id string) error {
				_, err := sqldb.From(tx).Exec(`INSERT INTO workspaces (tenant_id, workspace_id, owner_type, owner_id, name, file_count, total_size, created_at, updated_at)
					VALUES (?, ?, 'standalone', '', '', 0, 0, 0, 0)`, b.tenant, id)
				return err
			}, `UPDATE workspaces SET owner_type = 'agent' WHERE tenant_id = ? AND workspace_id = ?`},
			{quota.ActiveSessions, 4, func(tx txn.Tx, id string) error {
				_, err := sqldb.From(tx).Exec(`INSERT INTO sessions (tenant_id, session_id, agent_id, status, queue_mode, metadata, active_branch, turns, summary, created_at, updated_at, expires_at)
					VALUES (?, ?, '', 'active', '', '', '', 0, '', 0, 0, ?)`, b.tenant, id, later)
				return err
			}, `UPDATE sessions SET expires_at = 1 WHERE tenant_id = ? AND session_id = ?`},
		} {
			t.Run(string(tt.resource), func(t *testing.T) {
				nodes := []*usage.Service{b.node(), b.node()}
				var mu sync.Mutex
				var made []string
				try := func(s *usage.Service) error {
					id := ident.New()
					err := db.Write(t.Context(), func(tx txn.Tx) error {
						if err := s.Reserve(tx, b.tenant, tt.resource); err != nil {
							return err
						}
						return tt.add(tx, id)
					})
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						made = append(made, id)
					}
					return err
				}
				var all sync.WaitGroup
				for i := range 30 {
					all.Go(func() {
						if err := try(nodes[i%2]); err != nil {
							refused(t, err, fault.Forbidden, quota.CodeReached)
						}
					})
				}
				all.Wait()
				if len(made) != tt.limit {
					t.Fatalf("there are %d", len(made))
				}
				refused(t, try(nodes[0]), fault.Forbidden, quota.CodeReached)
				b.write(func(tx txn.Tx) error {
					_, err := sqldb.From(tx).Exec(tt.remove, b.tenant, made[0])
					return err
				})
				allowed(t, try(nodes[1]))
				refused(t, try(nodes[0]), fault.Forbidden, quota.CodeReached)
			})
		}
		t.Run("not_counted_yet", func(t *testing.T) {
			b.write(func(tx txn.Tx) error { return b.node().Reserve(tx, b.tenant, quota.Teams) })
		})
	})
}

var admin = authz.Caller{UserID: "u", Role: authz.Owner, Scopes: []authz.Scope{authz.Wildcard}}

// client calls the routes of a service as the tenant's owner.
func (b *bench) client(s *usage.Service) resourcetest.Client {
	c := resourcetest.NewClient(s.Routes())
	c.Who = admin
	c.Who.TenantID = b.tenant
	return c
}

func (b *bench) ask(s *usage.Service, method, path string, args resourcetest.Args) (map[string]any, error) {
	b.t.Helper()
	reply, err := b.client(s).Do(context.Background(), method, path, args)
	if err != nil {
		return nil, err
	}
	return resourcetest.Object(b.t, reply), nil
}

func dollars(n float64) int64 { return int64(n * 1e9) }

func TestBudget(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, tt := range []struct {
			period, start, end string
			next               time.Duration // to the next period
		}{
			// It is Thursday, 10 September 2026, noon.
			{"monthly", "2026-09-01T00:00:00Z", "2026-10-01T00:00:00Z", 21 * 24 * time.Hour},
			{"weekly", "2026-09-07T00:00:00Z", "2026-09-14T00:00:00Z", 4 * 24 * time.Hour},
			{"daily", "2026-09-10T00:00:00Z", "2026-09-11T00:00:00Z", 12 * time.Hour},
		} {
			t.Run(tt.period, func(t *testing.T) {
				b := newBench(t, db, "open")
				here, there := b.node(), b.node()
				const path = "/api/v1/billing/budget"
				none := map[string]any{"configured": false, "budget": nil, "status": nil}
				if got, err := b.ask(here, "GET", path, nil); err != nil || !cmp.Equal(got, none) {
					t.Errorf("no budget: %v, %v", got, err)
				}
				b.use(here, quota.Use{CostNano: dollars(1)})
				body := fmt.Sprintf(`{"limit_usd": 10, "soft_threshold": 0.5, "hard_threshold": 0.9, "period": %q}`, tt.period)
				got, err := b.ask(here, "PUT", path, resourcetest.Args{"": body})
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]any{
					"configured": true,
					"budget": map[string]any{"limit_usd": 10.0, "soft_threshold": 0.5, "hard_threshold": 0.9, "period": tt.period,
						"updated_at": "2026-09-10T12:00:00Z"},
					"status": map[string]any{
						"spent_usd": 1.0, "limit_usd": 10.0, "remaining_usd": 8.0, "utilization": 0.1, "period_start": tt.start, "period_end": tt.end,
						"soft_alert": false, "hard_limit_reached": false,
					},
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				b.use(here, quota.Use{CostNano: dollars(4)})
				b.use(here, quota.Use{CostNano: dollars(1)})
				b.toldOnce(map[string]int{"threshold budget_usd": 1})
				allowed(t, here.AllowRun(t.Context(), b.tenant))
				b.use(here, quota.Use{CostNano: dollars(3)})
				b.toldOnce(map[string]int{"threshold budget_usd": 1, "exceeded budget_usd": 1})
				for _, s := range []*usage.Service{here, there} {
					refused(t, s.AllowRun(t.Context(), b.tenant), fault.Forbidden, quota.CodeBudget)
					refused(t, s.AllowModelCall(t.Context(), b.tenant), fault.Forbidden, quota.CodeBudget)
					allowed(t, s.AllowToolCalls(t.Context(), b.tenant, 1)) // a tool costs nothing
				}
				got, _ = b.ask(there, "GET", path, nil)
				if s := got["status"].(map[string]any); s["spent_usd"] != 9.0 || s["soft_alert"] != true || s["hard_limit_reached"] != true ||
					s["remaining_usd"] != 0.0 {
					t.Errorf("%v", s)
				}
				b.clock.Advance(tt.next)
				allowed(t, here.AllowModelCall(t.Context(), b.tenant))
				b.use(here, quota.Use{CostNano: dollars(9)})
				refused(t, here.AllowModelCall(t.Context(), b.tenant), fault.Forbidden, quota.CodeBudget)
				b.toldOnce(map[string]int{"threshold budget_usd": 2, "exceeded budget_usd": 2})
				if got, err := b.ask(here, "DELETE", path, nil); err != nil || !cmp.Equal(got, none) {
					t.Errorf("deleting: %v, %v", got, err)
				}
				allowed(t, here.AllowModelCall(t.Context(), b.tenant))
				if _, err := b.ask(here, "DELETE", path, nil); err != nil {
					t.Errorf("deleting twice: %v", err)
				}
			})
		}
	})
}
