package quota

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
)

// Limits are the limits of a plan. Nil is no limit.
type Limits struct {
	_ struct{} `json:"-" name:"PlanLimits"`

	RunsPerMonth      *int64 `json:"runs_per_month"`
	TokensPerMonth    *int64 `json:"tokens_per_month" doc:"Of input and output together."`
	TokensPerDay      *int64 `json:"tokens_per_day"`
	ToolCallsPerMonth *int64 `json:"tool_calls_per_month"`
	RequestsPerMinute *int64 `json:"model_requests_per_minute" doc:"Of the model proxy, as the next two."`
	RequestsPerHour   *int64 `json:"model_requests_per_hour"`
	RequestsPerDay    *int64 `json:"model_requests_per_day"`
	Agents            *int64 `json:"agents"`
	Teams             *int64 `json:"teams"`
	KnowledgeBases    *int64 `json:"knowledge_bases"`
	Workspaces        *int64 `json:"workspaces"`
	Webhooks          *int64 `json:"webhooks"`
	ActiveSessions    *int64 `json:"active_sessions"`
	TeamRuns          *int64 `json:"concurrent_team_runs" doc:"Runs of teams that have not ended."`
}

// Of returns the limit of a resource; nil: it has none.
func (l *Limits) Of(r Resource) *int64 {
	switch r {
	case RunsPerMonth:
		return l.RunsPerMonth
	case TokensPerMonth:
		return l.TokensPerMonth
	case TokensPerDay:
		return l.TokensPerDay
	case ToolCallsPerMonth:
		return l.ToolCallsPerMonth
	case RequestsPerMinute:
		return l.RequestsPerMinute
	case RequestsPerHour:
		return l.RequestsPerHour
	case RequestsPerDay:
		return l.RequestsPerDay
	case Agents:
		return l.Agents
	case Teams:
		return l.Teams
	case KnowledgeBases:
		return l.KnowledgeBases
	case Workspaces:
		return l.Workspaces
	case Webhooks:
		return l.Webhooks
	case ActiveSessions:
		return l.ActiveSessions
	case TeamRuns:
		return l.TeamRuns
	}
	return nil
}

// Refills reports whether any of the limits is on a resource that refills.
func (l *Limits) Refills() bool {
	return l.RunsPerMonth != nil || l.TokensPerMonth != nil || l.TokensPerDay != nil || l.ToolCallsPerMonth != nil
}

// Plan is what a tenant may use.
type Plan struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Limits Limits `json:"limits"`
	// Models are the models that the model proxy may call, as <provider>/<model>,
	// where the last character may be a * that matches anything. Nil: all.
	Models []string `json:"models"`
	// PriceCents is what the plan costs, in hundredths of PriceCurrency. Both are only
	// shown: nothing is charged.
	PriceCents    int64  `json:"price_amount_cents,omitzero"`
	PriceCurrency string `json:"price_currency,omitzero"` // ISO 4217, lower case; "": usd
}

// Allows reports whether the model proxy may call a model.
func (p *Plan) Allows(provider, model string) bool {
	return p.Models == nil || slices.ContainsFunc(p.Models, func(pattern string) bool {
		name := provider + "/" + model
		if start, open := strings.CutSuffix(pattern, "*"); open {
			return strings.HasPrefix(name, start)
		}
		return name == pattern
	})
}

// SelfHosted is the only plan if the operator configures none. It limits
// nothing.
const SelfHosted = "self_hosted"

// Plans are the plans of a deployment.
// They are safe for concurrent use.
type Plans struct {
	plans    atomic.Pointer[[]Plan]
	fallback string
}

func newPlans(all []Plan, fallback string) *Plans {
	p := &Plans{fallback: fallback}
	p.plans.Store(&all)
	return p
}

// Set replaces the plans with others that CheckPlans accepts.
func (p *Plans) Set(all []Plan) {
	all = slices.Clone(all)
	p.plans.Store(&all)
}

func (p *Plans) list() []Plan { return *p.plans.Load() }

// Unlimited returns the plans of an operator who configured none.
func Unlimited() *Plans {
	return newPlans([]Plan{{ID: SelfHosted, Name: "Self-hosted"}}, SelfHosted)
}

// All lists the plans in the operator's order.
func (p *Plans) All() []Plan { return slices.Clone(p.list()) }

// Default returns the id of the plan of tenants without another.
func (p *Plans) Default() string { return p.fallback }

// Names returns the ids of the plans, for a sentence.
func (p *Plans) Names() string {
	all := p.list()
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	return strings.Join(ids, ", ")
}

// Known reports whether there is a plan with the id.
func (p *Plans) Known(id string) bool {
	return slices.ContainsFunc(p.list(), func(plan Plan) bool { return plan.ID == id })
}

// Of returns a plan, or the default one and false if there is no such plan.
func (p *Plans) Of(id string) (plan Plan, known bool) {
	all := p.list()
	at := slices.IndexFunc(all, func(plan Plan) bool { return plan.ID == id })
	if at >= 0 {
		return all[at], true
	}
	return all[slices.IndexFunc(all, func(plan Plan) bool { return plan.ID == p.fallback })], false
}

var planID = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)

// Load reads the file at a path. If path is empty it returns Unlimited.
func Load(path string) (*Plans, error) {
	if path == "" {
		return Unlimited(), nil
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return Parse(file)
}

// Parse reads the file that AGENTD_PLANS names. The error lists every mistake in
// it.
func Parse(file []byte) (*Plans, error) {
	var read struct {
		Plans   []Plan `json:"plans"`
		Default string `json:"default"`
	}
	// A limit with a misspelt name would limit nothing.
	if err := json.Unmarshal(file, &read, json.RejectUnknownMembers(true)); err != nil {
		return nil, explain(err)
	}
	all := read.Plans
	p := newPlans(all, read.Default)
	var wrong []error
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if len(all) == 0 {
		add("plans: there is none; name at least one")
	}
	seen := map[string]bool{}
	for i := range all {
		plan := &all[i]
		switch {
		case !planID.MatchString(plan.ID):
			add("plans[%d].id: %q is no id; it has 1 to 64 of a-z, 0-9, _, . and -, and begins with a letter or digit", i, plan.ID)
		case seen[plan.ID]:
			add("plans[%d].id: %s is the id of two plans", i, plan.ID)
		}
		seen[plan.ID] = true
		if strings.TrimSpace(plan.Name) == "" {
			add("plans[%d].name: it is blank", i)
		}
		for j, pattern := range plan.Models {
			if badModel(pattern) {
				add("plans[%d].models[%d]: %q is no model; write provider/model, provider/* or *", i, j, pattern)
			}
		}
		for _, r := range slices.Concat(Refilling, Requests, Things) {
			if n := plan.Limits.Of(r); n != nil && *n < 0 {
				add("plans[%d].limits.%s: it is negative; leave it out for no limit", i, r)
			}
		}
	}
	if len(all) > 0 && !p.Known(p.fallback) {
		add("default: %q is not the id of one of the plans", p.fallback)
	}
	if wrong != nil {
		return nil, errors.Join(wrong...)
	}
	return p, nil
}

// CheckPlans returns what is wrong with plans of which one has to be the default one;
// the ids are members of plans.
func CheckPlans(all []Plan, fallback string) (wrong []fault.Field) {
	add := func(id, field, message string) {
		wrong = append(wrong, fault.Field{Field: strings.TrimSuffix("plans."+id+"."+field, "."), Message: message})
	}
	known := false
	for i := range all {
		plan := &all[i]
		known = known || plan.ID == fallback
		if !planID.MatchString(plan.ID) {
			add(plan.ID, "", "is no id; it has 1 to 64 of a-z, 0-9, _, . and -, and begins with a letter or digit")
		}
		if strings.TrimSpace(plan.Name) == "" {
			add(plan.ID, "name", "is blank")
		}
		for j, pattern := range plan.Models {
			if badModel(pattern) {
				add(plan.ID, fmt.Sprintf("models[%d]", j), "is no model; write provider/model, provider/* or *")
			}
		}
		for _, r := range slices.Concat(Refilling, Requests, Things) {
			if n := plan.Limits.Of(r); n != nil && *n < 0 {
				add(plan.ID, "limits."+string(r), "is negative; send null for no limit")
			}
		}
	}
	if !known {
		add(fallback, "", "is the plan of companies without one, and cannot be removed")
	}
	return wrong
}

func badModel(pattern string) bool {
	start := strings.TrimSuffix(pattern, "*")
	return start != "" && !strings.Contains(start, "/") || strings.Contains(start, "*")
}

// explain returns err as a sentence that locates the mistake in the file,
// without Go's type names.
func explain(err error) error {
	place := func(p jsontext.Pointer) string { return cmp.Or(strings.TrimPrefix(string(p), "/"), "the top level") }
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("it is not JSON at byte %d, in %s", e.ByteOffset, place(e.JSONPointer))
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(err, json.ErrUnknownName) {
			return fmt.Errorf("%s is not a known setting", place(e.JSONPointer))
		}
		return fmt.Errorf("%s has a value of the wrong kind", place(e.JSONPointer))
	}
	return err
}
