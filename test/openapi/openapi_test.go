// Package openapi checks api/openapi.json without a server: it builds the services
// of all areas on nothing, only to ask them for their routes. An edited route or
// doc tag answers in seconds. What a whole server serves is compared with the same
// file in test/e2e/documents.
package openapi

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/signin"
	"agentd/internal/accounts/tenantadmin"
	"agentd/internal/accounts/usage"
	"agentd/internal/agents/agent"
	"agentd/internal/agents/agentkey"
	"agentd/internal/agents/capability"
	"agentd/internal/agents/guardrail"
	"agentd/internal/agents/headagent"
	"agentd/internal/agents/mcp"
	"agentd/internal/agents/modelcheck"
	"agentd/internal/agents/modelproxy"
	"agentd/internal/agents/provider"
	"agentd/internal/agents/providerkey"
	"agentd/internal/app/kinds"
	"agentd/internal/base/clock"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/secret"
	"agentd/internal/commerce/enrollment"
	"agentd/internal/commerce/marketplace"
	"agentd/internal/commerce/order"
	"agentd/internal/commerce/product"
	"agentd/internal/commerce/sales"
	"agentd/internal/content/artifact"
	"agentd/internal/content/file"
	"agentd/internal/content/knowledge"
	"agentd/internal/content/memory"
	"agentd/internal/content/search"
	"agentd/internal/content/skill"
	"agentd/internal/content/webtool"
	"agentd/internal/content/workspace"
	"agentd/internal/delivery/feed"
	"agentd/internal/delivery/integration"
	"agentd/internal/delivery/live"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/waiting"
	"agentd/internal/delivery/webhook"
	"agentd/internal/edge/a2aserver"
	"agentd/internal/edge/agui"
	"agentd/internal/edge/anthropic"
	"agentd/internal/edge/audio"
	"agentd/internal/edge/bridgeserver"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/integrationpage"
	"agentd/internal/edge/mcpserver"
	"agentd/internal/edge/openai"
	"agentd/internal/edge/runstream"
	"agentd/internal/edge/terminalserver"
	"agentd/internal/edge/uistream"
	"agentd/internal/execution/delegation"
	"agentd/internal/execution/review"
	"agentd/internal/execution/run"
	"agentd/internal/execution/schedule"
	"agentd/internal/execution/sensor"
	"agentd/internal/execution/session"
	"agentd/internal/goldentest"
	"agentd/internal/governance/ambassador"
	"agentd/internal/governance/assurance"
	"agentd/internal/governance/constitution"
	"agentd/internal/governance/court"
	"agentd/internal/governance/design"
	"agentd/internal/governance/goal"
	"agentd/internal/governance/improvement"
	"agentd/internal/governance/ledger"
	"agentd/internal/governance/permission"
	"agentd/internal/governance/voting"
	"agentd/internal/insight/evaluation"
	"agentd/internal/insight/experiment"
	"agentd/internal/insight/rollout"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
	"agentd/internal/operation/audience"
	"agentd/internal/operation/billing"
	"agentd/internal/operation/integrationadmin"
	"agentd/internal/operation/loginprovider"
	"agentd/internal/operation/modeladmin"
	"agentd/internal/operation/opconfig"
	"agentd/internal/operation/privacy"
	"agentd/internal/operation/reconciliation"
	"agentd/internal/operation/retention"
	"agentd/internal/operation/setting"
	"agentd/internal/public/directory"
	"agentd/internal/public/visitor"
	"agentd/internal/teams/a2a"
	"agentd/internal/teams/bridge"
	"agentd/internal/teams/initiative"
	"agentd/internal/teams/mission"
	"agentd/internal/teams/team"
	"agentd/internal/teams/teamrun"
)

func TestDocument(t *testing.T) {
	t.Parallel()
	got, err := httpapi.OpenAPI(routes(t), endpoints())
	if err != nil {
		t.Fatal(err)
	}
	goldentest.Check(t, "../../api/openapi.json", got)
}

// routes are those of the services, none of which can do anything. A new area is
// added here; test/e2e/documents fails until it is in the golden file.
func routes(t *testing.T) []route.Route {
	t.Helper()
	box, err := secret.NewBox(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	events := webhook.NewResourceEvents()
	kernel := resource.Deps{Clock: clock.System{}, Box: box, Outbox: resource.NoOutbox{}, Events: events}
	plans, err := quota.Load("")
	if err != nil {
		t.Fatal(err)
	}
	registry, err := tool.NewRegistry(tool.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	people := identity.New(identity.Config{Clock: clock.System{}, Box: box, Plans: plans})
	agents := agent.New(kernel, agent.Options{
		Stats: func(context.Context, string, []string) (map[string]agent.Stats, error) { return nil, nil },
	})
	governs := slices.Concat(design.New(kernel, design.Options{}).Routes(), court.New(kernel, court.Options{}).Routes(),
		voting.New(kernel, voting.Options{}).Routes(), ambassador.New(kernel, ambassador.Options{}).Routes())
	groups := team.New(kernel, team.Options{}).Routes()
	goods := slices.Concat(product.New(kernel, product.Options{}).Routes(),
		enrollment.New(kernel, enrollment.Options{}).Routes(), order.New(kernel, order.Options{}).Routes(), (&sales.Service{}).Routes())
	children := delegation.New(nil, nil)
	children.Connect(nil, agents, nil, nil, nil)
	return slices.Concat(
		(&audit.Log{}).Routes(), people.Routes(), identity.NewPeople(people, identity.PeopleDeps{}).Routes(),
		tenantadmin.New(tenantadmin.Config{Clock: clock.System{}, Tenants: people.Tenants, Usage: noUsage}).Routes(),
		usage.New(usage.Deps{Plans: plans, Clock: clock.System{}}).Routes(), usage.NewAnalytics(usage.AnalyticsDeps{Clock: clock.System{}}).Routes(),
		signin.New(signin.Config{Clock: clock.System{}, Box: box}).Routes(),
		providerkey.New(providerkey.Deps{Clock: clock.System{}}).Routes(), provider.New(provider.Deps{}).Routes(), modeladmin.New(modeladmin.Deps{}).Routes(),
		opconfig.New(opconfig.Deps{}).Routes(), (&setting.Service{}).DocumentRoutes(),
		(&modelcheck.Service{}).Routes(), (&headagent.Service{}).Routes(),
		notification.New(notification.Deps{Clock: clock.System{}}).Routes(), live.New(live.Deps{}).Routes(), (&waiting.Service{}).Routes(), (&feed.Service{}).Routes(),
		webhook.New(webhook.Deps{Clock: clock.System{}, Events: events.Registry}).Routes(),
		(&file.Service{}).Routes(), (&skill.Service{}).Routes(), (&workspace.Service{}).Routes(), (&artifact.Service{}).Routes(), (&memory.Service{}).Routes(),
		knowledge.New(kernel, knowledge.Service{}).Routes(),
		(&webtool.Service{}).Routes(), children.Routes(), registry.Routes(), sensor.New(sensor.Deps{}).Routes(),
		agents.Routes(), agentkey.New(kernel, agentkey.Options{}).Routes(), capability.New(kernel, capability.Options{Agents: agents}).Routes(),
		guardrail.New(kernel, guardrail.Options{}).Routes(), mcp.New(mcp.Config{Kernel: kernel, Clock: clock.System{}}).Routes(),
		(&run.Service{}).Routes(), run.Past{}.Routes(), (&review.Service{}).Routes(), session.New(session.Deps{Clock: clock.System{}}).Routes(),
		schedule.New(schedule.Deps{Clock: clock.System{}}).Routes(), search.New(search.Deps{Clock: clock.System{}}).Routes(),
		ledger.New(ledger.Deps{}).Routes(), goal.New(kernel, goal.Options{}).Routes(), governs, improvement.New(kernel, improvement.Options{}).Routes(),
		assurance.New(kernel, assurance.Options{Agents: agents.Store()}).Routes(),
		permission.New(kernel, permission.Options{}).Routes(),
		constitution.New(constitution.Deps{Elapsed: func() time.Duration { return 0 }}).Routes(),
		goods, groups, (&teamrun.Service{Clock: clock.System{}}).Routes(),
		initiative.New(kernel, initiative.Deps{}).Routes(), mission.New(mission.Deps{}).Routes(),
		evaluation.New(kernel, evaluation.Options{}).Routes(), rollout.New(rollout.Options{}).Routes(),
		experiment.New(kernel, experiment.Options{}).Routes(),
		(&a2a.Service{}).Routes(), a2a.NewCredentials(kernel).Routes(), (&a2aserver.Server{}).Routes(), (&bridge.Service{}).Routes(), kinds.Routes(kernel),
		privacy.New(privacy.Deps{}).Routes(), (&retention.Service{Deps: retention.Deps{Settings: retention.Section(setting.New(setting.Deps{}))}}).Routes(),
		(&reconciliation.Service{Deps: reconciliation.Deps{Settings: reconciliation.Section(setting.New(setting.Deps{}))}}).Routes(), (&loginprovider.Service{}).Routes(),
		billing.New(billing.Deps{Clock: clock.System{}}).Routes(),
		visitor.New(visitor.Deps{Reports: resource.NewStore(visitor.ReportKind, kernel)}).Routes(), directory.New(&directory.Service{Clock: clock.System{}}).Routes(),
		(&audience.Service{Clock: clock.System{}}).Routes(),
		marketplace.New(marketplace.Deps{}).Routes(),
		integration.New(integration.Deps{Kernel: kernel, Clock: clock.System{}}).Routes(),
		integrationadmin.New(setting.New(setting.Deps{}), nil).Routes(),
	)
}

// The example of a body is one that the operation takes, and every JSON body has one.
// What a server does with each is in test/e2e/contract.
func TestExamplesAreAccepted(t *testing.T) {
	t.Parallel()
	unused, err := httpapi.Examples()
	if err != nil {
		t.Fatal(err)
	}
	use := func(id string) { unused = slices.DeleteFunc(unused, func(known string) bool { return known == id }) }
	for _, r := range endpoints() {
		use(r.ID)
	}
	for _, r := range routes(t) {
		use(r.ID)
		example := httpapi.Example(r.Row)
		if example == nil {
			continue
		}
		body := r.BodyOf
		if body == nil {
			f, _ := r.In.FieldByName("Body")
			body = f.Type
		}
		if err := schema.For(body).Check(example, r.Partial); err != nil {
			t.Errorf("%s: %s: %v", r.ID, example, err)
		}
	}
	if len(unused) > 0 {
		t.Errorf("internal/edge/httpapi/examples.json has examples of operations that do not exist: %q", unused)
	}
	text, err := httpapi.OpenAPI(routes(t), endpoints())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			ID   string `json:"operationId"`
			Body struct {
				Content map[string]struct {
					Example any `json:"example"`
				} `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for _, operations := range doc.Paths {
		for _, o := range operations {
			if body, has := o.Body.Content["application/json"]; has && body.Example == nil {
				t.Errorf("%s: its body has no example: add one to internal/edge/httpapi/examples.json", o.ID)
			}
		}
	}
}

// noUsage lets tenantadmin serve the operation that needs it.
func noUsage(context.Context, string, string) (schema.Object, error) { return nil, nil }

// endpoints are those in the shapes of other APIs.
func endpoints() []httpapi.Raw {
	proxy, runner := &modelproxy.Proxy{}, &runstream.Runner{}
	return slices.Concat(
		(&openai.Chat{Runner: runner}).Routes(), (&openai.ChatProxy{Proxy: proxy}).Routes(), (&anthropic.Messages{Proxy: proxy}).Routes(),
		(&openai.Embeddings{Proxy: proxy}).Routes(), (&audio.Audio{Proxy: proxy}).Routes(),
		(&openai.Responses{Runner: runner}).Routes(), (&openai.Files{}).Routes(), (&openai.VectorStores{}).Routes(), (&agui.Server{}).Routes(), (&uistream.Server{}).Routes(), (&mcpserver.Server{Runner: runner}).Routes(), (&integrationpage.Pages{}).Routes(), (&a2aserver.Server{}).Endpoints(),
		(&bridgeserver.Server{}).Endpoints(), (&terminalserver.Server{}).Endpoints(),
	)
}
