package initiative

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/resource"
	"agentd/internal/teams/group"
	"agentd/internal/teams/objective"
)

type (
	idIn struct {
		ID string `path:"initiativeId"`
	}
	activityIn struct {
		ID     string `path:"initiativeId"`
		Limit  string `query:"limit" doc:"Entries per page, 1 to 200; 50 if omitted."`
		Cursor string `query:"cursor"`
	}
	streamIn struct {
		ID          string `path:"initiativeId"`
		LastEventID string `header:"Last-Event-ID"`
		After       string `query:"last_event_id" doc:"The same as the header Last-Event-ID."`
	}
)

type (
	statusView struct {
		_ struct{} `json:"-" name:"InitiativeStatusUpdate"`

		Status string `json:"status" enum:"active,paused" required:"true"`
	}
	tickView struct {
		_ struct{} `json:"-" name:"InitiativeTick"`

		Accepted     bool   `json:"accepted" required:"true"`
		InitiativeID string `json:"initiative_id" format:"uuid" required:"true"`
	}
	budgetView struct {
		_ struct{} `json:"-" name:"InitiativeSpending"`

		TotalUSD     float64 `json:"total_usd" required:"true"`
		SpentUSD     float64 `json:"spent_usd" required:"true" doc:"What is reserved for calls under way included."`
		DailyUSD     float64 `json:"daily_limit_usd" required:"true"`
		SpentToday   float64 `json:"spent_today_usd" required:"true" doc:"Since midnight UTC."`
		AlertAtPct   float64 `json:"alert_threshold_pct" required:"true"`
		RemainingUSD float64 `json:"remaining_usd" required:"true" doc:"Of the total; at least 0."`
	}
	tree struct {
		_ struct{} `json:"-" name:"ObjectiveTree"`

		Objective objective.View `json:"objective" required:"true"`
		Children  []tree         `json:"children" required:"true"`
	}
	objectives struct {
		_ struct{} `json:"-" name:"InitiativeObjectives"`

		Trees      []tree           `json:"trees" required:"true" doc:"The objectives, those below others inside of these."`
		Objectives []objective.View `json:"objectives" required:"true" doc:"The same as a list, oldest first."`
	}
	entry struct {
		_ struct{} `json:"-" name:"InitiativeActivityEntry"`

		RunID       string    `json:"run_id" format:"uuid" required:"true" doc:"The run of an agent, or that of a team."`
		Purpose     string    `json:"purpose" enum:"strategy,work,judge,decide" required:"true"`
		ObjectiveID string    `json:"objective_id,omitzero" format:"uuid"`
		AgentID     string    `json:"agent_id,omitzero" format:"uuid"`
		TeamID      string    `json:"team_id,omitzero" format:"uuid"`
		CreatedAt   time.Time `json:"created_at" required:"true"`
		Success     *bool     `json:"success" doc:"Null while the run is under way."`
		Error       string    `json:"error,omitzero"`
		CostUSD     float64   `json:"cost_usd" required:"true"`
	}
	activity struct {
		_ struct{} `json:"-" name:"InitiativeActivity"`

		Entries  []entry `json:"entries" required:"true" doc:"Newest first."`
		Activity []entry `json:"activity" required:"true"`
		HasMore  bool    `json:"has_more" required:"true"`
		Cursor   *string `json:"cursor"`
	}
)

// Routes returns the operations on initiatives, once more under their older path.
func (s *Service) Routes() []route.Route {
	const one = "/api/v1/initiatives/{initiativeId}"
	read, write := []authz.Scope{"agents:read"}, []authz.Scope{"agents:write"}
	row := func(method, path, id, summary string) route.Row {
		r := route.Row{Method: method, Path: one + path, ID: id, Tag: "Initiatives", Summary: summary, Scopes: read, Errors: []int{404}}
		if method != "GET" {
			r.Scopes, r.Role = write, authz.Developer
		}
		return r
	}
	set := func(status string) func(context.Context, authz.Caller, *idIn) (statusView, error) {
		return func(ctx context.Context, who authz.Caller, in *idIn) (statusView, error) {
			return statusView{Status: status}, s.setStatus(ctx, who, in.ID, status)
		}
	}
	listed := row("GET", "/activity", "listInitiativeActivity", "List the runs of an initiative")
	listed.Errors = append(listed.Errors, 422)
	tick := row("POST", "/tick", "tickInitiative", "Ask the strategist of an initiative now")
	tick.Status, tick.Errors = 202, append(tick.Errors, 409)
	tick.Doc = "The next time of the schedule is not changed. While the strategist is being asked, another tick follows."
	remove := row("DELETE", "", "deleteInitiative", "Delete an initiative with its objectives")
	remove.Status, remove.Destroys = 204, true
	all := append(resource.Routes(s.store),
		route.Action(remove, s.remove),
		route.Action(row("POST", "/pause", "pauseInitiative", "Pause an initiative"), set(Paused)),
		route.Action(row("POST", "/resume", "resumeInitiative", "Resume a paused initiative"), set(Active)),
		route.Action(tick, s.tickNow),
		route.Action(listed, s.activity),
		route.Action(row("GET", "/budget", "getInitiativeBudget", "Get what an initiative has spent"), s.budget),
		route.Action(row("GET", "/objectives", "listInitiativeObjectives", "List the objectives of an initiative"), s.objectives),
		route.Stream(row("GET", "/events", "streamInitiativeEvents", "Follow an initiative"), s.stream),
	)
	return slices.Concat(all, twins(all))
}

// twins returns the routes under the path that initiatives had as companies, without
// operations that came later.
func twins(all []route.Route) (more []route.Route) {
	for _, r := range all {
		if r.ID == "tickInitiative" || r.Method == "PATCH" {
			continue
		}
		r.Deprecated, r.Successor = "companies-routes", r.Path
		r.Path = strings.Replace(r.Path, "/initiatives", "/companies", 1)
		r.ID = strings.Replace(strings.Replace(r.ID, "Initiatives", "Companies", 1), "Initiative", "Company", 1)
		r.Tag = "Companies"
		more = append(more, r)
	}
	return more
}

// remove deletes an initiative, and has its runs cancelled.
func (s *Service) remove(ctx context.Context, who authz.Caller, in *idIn) (struct{}, error) {
	return struct{}{}, s.Crew.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.store.DeleteTx(tx, who, in.ID); err != nil {
			return err
		}
		return txn.Answer(tx, nil)
	})
}

// tickNow has the strategist asked at once.
func (s *Service) tickNow(ctx context.Context, who authz.Caller, in *idIn) (tickView, error) {
	answer := tickView{Accepted: true, InitiativeID: in.ID}
	ctx = txn.WithAnswer(ctx, func() any { return answer })
	return answer, s.Crew.Writer.Write(ctx, func(tx txn.Tx) error {
		i, err := s.store.GetTx(tx, who.TenantID, in.ID)
		if err != nil {
			return err
		}
		if i.Status != Active {
			return fault.WrongState("initiative", i.Status, "asking its strategist")
		}
		return s.askTx(tx, who.TenantID, in.ID, true)
	})
}

func (s *Service) budget(ctx context.Context, who authz.Caller, in *idIn) (v budgetView, err error) {
	i, err := s.store.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return v, err
	}
	total, err := s.Crew.Purse.Spent(ctx, who.TenantID, in.ID)
	if err != nil {
		return v, err
	}
	today, err := s.Crew.Purse.Spent(ctx, who.TenantID, dayBudget(in.ID, day(s.Crew.Clock.Now())))
	b := i.Budget
	v = budgetView{
		TotalUSD: b.TotalUSD, SpentUSD: float64(total) / 1e9, DailyUSD: b.DailyUSD, SpentToday: float64(today) / 1e9, AlertAtPct: b.AlertAtPct,
	}
	v.RemainingUSD = max(0, v.TotalUSD-v.SpentUSD)
	return v, err
}

func (s *Service) objectives(ctx context.Context, who authz.Caller, in *idIn) (*objectives, error) {
	if _, err := s.store.Get(ctx, who.TenantID, in.ID); err != nil {
		return nil, err
	}
	all, err := s.Crew.Store.List(ctx, who.TenantID, in.ID)
	if err != nil {
		return nil, err
	}
	v := &objectives{Trees: []tree{}, Objectives: []objective.View{}}
	below, known := map[string][]objective.View{}, map[string]bool{}
	for i := range all {
		one := all[i].Show(who.TenantID)
		one.InitiativeID, one.CompanyID = in.ID, in.ID
		v.Objectives = append(v.Objectives, one)
		known[one.ObjectiveID] = true
	}
	for _, one := range v.Objectives {
		parent := ""
		if one.ParentID != nil && known[*one.ParentID] {
			parent = *one.ParentID
		}
		below[parent] = append(below[parent], one)
	}
	v.Trees = grow(below, "")
	return v, nil
}

// grow returns the trees below an objective. They have no circles: an objective is below
// one that was there before, or was checked with those that came with it.
func grow(below map[string][]objective.View, id string) []tree {
	trees := []tree{}
	for _, one := range below[id] {
		trees = append(trees, tree{Objective: one, Children: grow(below, one.ObjectiveID)})
	}
	return trees
}

func (s *Service) activity(ctx context.Context, who authz.Caller, in *activityIn) (*activity, error) {
	if _, err := s.store.Get(ctx, who.TenantID, in.ID); err != nil {
		return nil, err
	}
	scope := page.ScopeOf(who.TenantID, "initiative_activity", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	before := 0
	if after != "" {
		if before, err = strconv.Atoi(after); err != nil {
			return nil, err
		}
	}
	limit := page.Limit(in.Limit, 50, 200)
	tasks, err := s.Crew.Store.ListTasks(ctx, who.TenantID, in.ID, before, limit+1)
	if err != nil {
		return nil, err
	}
	v := &activity{Entries: []entry{}, HasMore: len(tasks) > limit}
	if v.HasMore {
		tasks = tasks[:limit]
		v.Cursor = new(s.Cursors.Seal(scope, strconv.Itoa(tasks[limit-1].Seq)))
	}
	for i := range tasks {
		t := &tasks[i]
		e := entry{
			RunID: t.RunID, Purpose: t.Purpose, ObjectiveID: t.ObjectiveID, AgentID: t.AgentID, TeamID: t.TeamID, CreatedAt: t.At,
			Error: t.Error, CostUSD: t.CostUSD,
		}
		if t.Ended() {
			e.Success = new(t.Status == run.Completed)
		}
		v.Entries = append(v.Entries, e)
	}
	v.Activity = v.Entries
	return v, nil
}

// stream returns what happens to an initiative from now on, or after lastEventID.
func (s *Service) stream(ctx context.Context, who authz.Caller, in *streamIn) (iter.Seq2[route.Frame, error], error) {
	i, err := s.store.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return nil, err
	}
	rec, err := s.States.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return nil, err
	}
	st := group.Stream{
		Log: s.Crew.Log, Hub: s.Crew.Hub, Tenant: who.TenantID, ID: in.ID, Field: "initiative_id", Seq: rec.EventSeq,
		Cursor: cmp.Or(in.LastEventID, in.After, strconv.FormatInt(rec.EventSeq, 10)), Now: s.Crew.Clock.Now,
		First: func(send func(string, any) bool) bool { return send("connected", map[string]any{"status": i.Status}) },
		Final: func(name string) bool { return name == "initiative.deleted" },
	}
	return st.Frames(ctx), nil
}
