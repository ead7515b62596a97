package mission

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/teams/group"
	"agentd/internal/teams/objective"
)

type (
	startIn struct{ Body Start }
	listIn  struct {
		SessionID string `query:"session_id" doc:"Only missions of this session."`
		Limit     string `query:"limit" doc:"Missions per page, 1 to 200; 50 if omitted."`
		Cursor    string `query:"cursor"`
	}
	idIn struct {
		ID string `path:"missionId"`
	}
	abortIn struct {
		ID   string `path:"missionId"`
		Body struct {
			_ struct{} `json:"-" name:"MissionAbort"`

			Reason string `json:"reason,omitzero" maxLength:"2000" doc:"Why. It is shown with the mission."`
		}
	}
	streamIn struct {
		ID          string `path:"missionId"`
		LastEventID string `header:"Last-Event-ID"`
		After       string `query:"last_event_id" doc:"The same as the header Last-Event-ID."`
	}
)

type (
	metrics struct {
		_ struct{} `json:"-" name:"MissionMetrics"`

		CostUSD    float64 `json:"total_cost_usd" required:"true" doc:"As far as prices are known."`
		Tokens     int64   `json:"total_tokens" required:"true"`
		DurationMS int64   `json:"total_duration_ms" required:"true"`
		Calls      int64   `json:"llm_calls" required:"true"`
		Retries    int64   `json:"retries" required:"true"`
	}
	resultDetails struct {
		_ struct{} `json:"-" name:"MissionResultDetails"`

		Verified int `json:"verified" required:"true" doc:"Objectives that a judge verified."`
		Failed   int `json:"failed" required:"true"`
		Total    int `json:"total" required:"true"`
	}
	// View is a mission as it is shown.
	View struct {
		_ struct{} `json:"-" name:"Mission"`

		MissionID      string         `json:"mission_id" format:"uuid" required:"true"`
		TenantID       string         `json:"tenant_id" required:"true"`
		SessionID      string         `json:"session_id" required:"true"`
		CreatedBy      string         `json:"created_by" required:"true" doc:"The member whose credential started it."`
		Goal           string         `json:"goal" required:"true"`
		Classification string         `json:"classification" enum:"quick_reply,mission" required:"true"`
		Status         string         `json:"status" enum:"planning,awaiting_authorization,executing,paused,verifying,completed,failed,aborted" required:"true" doc:"verifying: what is left is the judge's. The last three are final."`
		ObjectiveIDs   []string       `json:"objective_ids" required:"true"`
		CheckpointIDs  []string       `json:"checkpoint_ids" required:"true" doc:"One of each objective that was reached, which is not done again."`
		AARID          *string        `json:"aar_id" doc:"The after-action report; null until it has ended."`
		Metrics        *metrics       `json:"metrics" doc:"Null until it has ended."`
		Outcome        string         `json:"outcome,omitzero" enum:"success,partial,failed,aborted"`
		ResultSummary  string         `json:"result_summary,omitzero"`
		ResultCode     string         `json:"result_code,omitzero" enum:"all_objectives_verified,objectives_failed,planning_failed,aborted_by_operator,deadline_passed,paused_by_operator,resumed_by_operator,authorized_by_operator"`
		ResultDetails  *resultDetails `json:"result_details,omitzero"`
		FailedIDs      []string       `json:"failed_objective_ids,omitzero"`
		Deadline       *time.Time     `json:"deadline" doc:"Null: none."`
		CreatedAt      time.Time      `json:"created_at" required:"true"`
		UpdatedAt      time.Time      `json:"updated_at" required:"true"`
		StartedAt      *time.Time     `json:"started_at" doc:"When its objectives were first worked on."`
		CompletedAt    *time.Time     `json:"completed_at"`
	}
	startedView struct {
		_ struct{} `json:"-" name:"MissionStarted"`

		MissionID      string         `json:"mission_id" format:"uuid" required:"true"`
		ObjectiveIDs   []string       `json:"objective_ids" required:"true" doc:"Empty while the planner makes the plan."`
		Classification Classification `json:"classification" required:"true"`
		Plan           *Plan          `json:"plan,omitzero" doc:"The plan that it begins with."`
		RunStarted     bool           `json:"run_started" required:"true" doc:"False while it waits for authorization."`
	}
	authorizedView struct {
		_ struct{} `json:"-" name:"MissionAuthorized"`

		View
		RunStarted bool `json:"run_started" required:"true"`
	}
	runView struct {
		_ struct{} `json:"-" name:"MissionRun"`

		Accepted       bool `json:"accepted" required:"true" doc:"Always false: a mission that is executing is under way already."`
		AlreadyRunning bool `json:"already_running" required:"true"`
		Mission        View `json:"mission" required:"true"`
	}
	pausingView struct {
		_ struct{} `json:"-" name:"MissionPausing"`

		Pausing bool `json:"pausing" required:"true" doc:"It is paused when the objectives that are under way have ended."`
		Mission View `json:"mission" required:"true"`
	}
	resumedView struct {
		_ struct{} `json:"-" name:"MissionResumed"`

		Accepted bool `json:"accepted" required:"true"`
		Mission  View `json:"mission" required:"true"`
	}
	list struct {
		_ struct{} `json:"-" name:"MissionList"`

		Items   []View  `json:"items" required:"true" doc:"Newest first."`
		Total   int     `json:"total" required:"true" doc:"On this page."`
		HasMore bool    `json:"has_more" required:"true"`
		Cursor  *string `json:"cursor"`
	}
	objectives struct {
		_ struct{} `json:"-" name:"MissionObjectives"`

		Items []objective.View `json:"items" required:"true"`
		Total int              `json:"total" required:"true"`
	}
)

// status returns the status as callers see it: what they asked for holds at once.
func (r *Record) status() string {
	switch {
	case final(r.Status):
	case r.Abort:
		return Aborted
	case r.Status == Awaiting && r.Authorized:
		return Executing
	case r.Status == Paused && !r.Hold:
		return Executing
	}
	return r.Status
}

func orNone(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

func show(r *Record) View {
	s := &r.State
	v := View{
		MissionID: r.MissionID, TenantID: r.TenantID, SessionID: r.SessionID, CreatedBy: r.UserID, Goal: r.Spec.Goal,
		Classification: r.Spec.Classification.Classification, Status: r.status(), ObjectiveIDs: orNone(s.ObjectiveIDs),
		CheckpointIDs: orNone(s.Checkpoints), Outcome: s.Outcome, ResultSummary: s.Summary, ResultCode: s.Code, FailedIDs: s.FailedIDs,
		Deadline: s.Deadline, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, StartedAt: s.StartedAt,
	}
	if final(r.Status) {
		v.AARID, v.CompletedAt = new(reportID(r.MissionID)), &r.CompletedAt
		v.Metrics = &metrics{
			CostUSD: s.CostUSD, Tokens: s.Tokens, DurationMS: r.CompletedAt.Sub(r.CreatedAt).Milliseconds(), Calls: s.Calls,
			Retries: s.Retries,
		}
		v.ResultDetails = &resultDetails{Verified: s.Verified, Failed: len(s.FailedIDs), Total: len(s.ObjectiveIDs)}
	} else if r.Abort {
		v.Outcome, v.ResultCode, v.ResultSummary = Stopped, resultAborted, reasonOf(r)
	}
	return v
}

func started(r *Record, plan *Plan) startedView {
	return startedView{
		MissionID: r.MissionID, ObjectiveIDs: orNone(r.State.ObjectiveIDs), Classification: r.Spec.Classification, Plan: plan,
		RunStarted: r.Status != Awaiting,
	}
}

// Routes returns the operations on missions.
func (s *Service) Routes() []route.Route {
	const all, one = "/api/v1/missions", "/api/v1/missions/{missionId}"
	row := func(method, path, id, summary string, errors ...int) route.Row {
		r := route.Row{
			Method: method, Path: path, ID: id, Tag: "Missions", Summary: summary, Scopes: []authz.Scope{"agents:read"}, Errors: errors,
		}
		if method != "GET" {
			r.Scopes, r.Role = []authz.Scope{"agents:write"}, authz.Developer
		}
		return r
	}
	start := row("POST", all, "startMission", "Start a mission", 404)
	start.Status = 201
	start.Doc = "With a plan, or where the goal is classified as quick_reply, it begins at once or waits for authorization. " +
		"Otherwise the planner makes the plan first."
	run := row("POST", one+"/run", "runMission", "Have a mission go on", 404, 409)
	run.Doc = "A mission that is executing goes on by itself; this has it looked at now."
	change := row("PATCH", one+"/objectives/{objectiveId}", "updateMissionObjective", "Change an objective of a mission", 404, 409)
	abort := row("POST", one+"/abort", "abortMission", "Abort a mission", 404, 409)
	abort.Optional = true
	return []route.Route{
		route.Action(start, s.start),
		route.Action(row("GET", all, "listMissions", "List missions", 422), s.list),
		route.Action(row("GET", one, "getMission", "Get a mission", 404), s.get),
		route.Action(row("GET", one+"/objectives", "listMissionObjectives", "List the objectives of a mission", 404), s.objectives),
		route.Action(change, s.patch),
		route.Action(row("POST", one+"/authorize", "authorizeMission", "Let a mission begin that waits for it", 404, 409), s.authorize),
		route.Action(run, s.run),
		route.Action(row("POST", one+"/pause", "pauseMission", "Pause a mission", 404, 409), s.pause),
		route.Action(row("POST", one+"/resume", "resumeMission", "Resume a paused mission", 404, 409), s.resume),
		route.Action(abort, s.abort),
		route.Action(row("GET", one+"/aar", "getMissionReport", "Get the after-action report of a mission", 404), s.report),
		route.Stream(row("GET", one+"/events", "streamMissionEvents", "Follow a mission", 404), s.stream),
	}
}

func (s *Service) start(ctx context.Context, who authz.Caller, in *startIn) (startedView, error) {
	r, plan, err := s.create(ctx, who, &in.Body)
	if err != nil {
		return startedView{}, err
	}
	return started(r, plan), nil
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *idIn) (View, error) {
	r, err := s.Missions.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return View{}, err
	}
	return show(r), nil
}

// ViewOf returns a mission as lists show it.
func ViewOf(r *Record) View { return show(r) }

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*list, error) {
	scope := page.ScopeOf(who.TenantID, "missions", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := page.Limit(in.Limit, 50, 200)
	found, err := s.Missions.List(ctx, who.TenantID, in.SessionID, page.Window{After: after, Limit: limit + 1})
	if err != nil {
		return nil, err
	}
	l := &list{Items: []View{}, HasMore: len(found) > limit}
	if l.HasMore {
		found = found[:limit]
		l.Cursor = new(s.Cursors.Seal(scope, found[limit-1].MissionID))
	}
	for i := range found {
		l.Items = append(l.Items, show(&found[i]))
	}
	l.Total = len(l.Items)
	return l, nil
}

func (s *Service) objectives(ctx context.Context, who authz.Caller, in *idIn) (*objectives, error) {
	if _, err := s.Missions.Get(ctx, who.TenantID, in.ID); err != nil {
		return nil, err
	}
	all, err := s.Crew.Store.List(ctx, who.TenantID, in.ID)
	if err != nil {
		return nil, err
	}
	v := &objectives{Items: []objective.View{}, Total: len(all)}
	for i := range all {
		one := all[i].Show(who.TenantID)
		one.MissionID = in.ID
		v.Items = append(v.Items, one)
	}
	return v, nil
}

func (s *Service) authorize(ctx context.Context, who authz.Caller, in *idIn) (authorizedView, error) {
	answer := func(r *Record) any { return authorizedView{View: show(r), RunStarted: true} }
	r, err := s.request(ctx, who.TenantID, in.ID, answer, func(r *Record) error {
		if r.status() != Awaiting {
			return fault.WrongState("mission", r.status(), "authorizing")
		}
		r.Authorized = true
		return nil
	})
	if err != nil {
		return authorizedView{}, err
	}
	return authorizedView{View: show(r), RunStarted: true}, nil
}

func (s *Service) run(ctx context.Context, who authz.Caller, in *idIn) (runView, error) {
	answer := func(r *Record) any { return runView{AlreadyRunning: true, Mission: show(r)} }
	r, err := s.request(ctx, who.TenantID, in.ID, answer, func(r *Record) error {
		if now := r.status(); now != Executing && now != Verifying {
			return fault.New(fault.Conflict, "MISSION_NOT_RUNNABLE", "The mission is %s; only one that is executing can go on.", now)
		}
		return nil
	})
	if err != nil {
		return runView{}, err
	}
	return runView{AlreadyRunning: true, Mission: show(r)}, nil
}

func (s *Service) pause(ctx context.Context, who authz.Caller, in *idIn) (pausingView, error) {
	answer := func(r *Record) any { return pausingView{Pausing: true, Mission: show(r)} }
	r, err := s.request(ctx, who.TenantID, in.ID, answer, func(r *Record) error {
		switch now := r.status(); {
		case now == Planning || now == Executing || now == Verifying:
			r.Hold = true
			return nil
		default:
			return fault.New(fault.Conflict, "MISSION_NOT_RUNNING", "The mission is %s; only one that is under way can be paused.", now)
		}
	})
	if err != nil {
		return pausingView{}, err
	}
	return pausingView{Pausing: true, Mission: show(r)}, nil
}

func (s *Service) resume(ctx context.Context, who authz.Caller, in *idIn) (resumedView, error) {
	answer := func(r *Record) any { return resumedView{Accepted: true, Mission: show(r)} }
	r, err := s.request(ctx, who.TenantID, in.ID, answer, func(r *Record) error {
		now := r.status()
		switch {
		case final(now) || now == Awaiting:
			return fault.WrongState("mission", now, "resuming")
		case !r.Hold:
			return fault.New(fault.Conflict, "MISSION_ALREADY_RUNNING", "The mission is %s; it is not paused.", now)
		}
		r.Hold = false
		return nil
	})
	if err != nil {
		return resumedView{}, err
	}
	return resumedView{Accepted: true, Mission: show(r)}, nil
}

func (s *Service) abort(ctx context.Context, who authz.Caller, in *abortIn) (View, error) {
	r, err := s.request(ctx, who.TenantID, in.ID, func(r *Record) any { return show(r) }, func(r *Record) error {
		if now := r.status(); final(now) {
			return fault.WrongState("mission", now, "aborting")
		}
		r.Abort, r.Reason = true, in.Body.Reason
		return nil
	})
	if err != nil {
		return View{}, err
	}
	return show(r), nil
}

func (s *Service) report(ctx context.Context, who authz.Caller, in *idIn) (*report, error) {
	r, err := s.Missions.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return nil, err
	}
	if r.Report == nil {
		return nil, fault.New(fault.NotFound, "AAR_NOT_AVAILABLE", "The mission is %s; its report is made when it has ended.", r.status())
	}
	v := new(report)
	return v, json.Unmarshal(r.Report, v)
}

// maxStream is how long one connection follows a mission. The client reconnects.
const maxStream = 15 * time.Minute

// stream returns the events of a mission: those after lastEventID, then those that
// happen, until it has ended.
func (s *Service) stream(ctx context.Context, who authz.Caller, in *streamIn) (iter.Seq2[route.Frame, error], error) {
	r, err := s.Missions.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return nil, err
	}
	st := group.Stream{
		Log: s.Crew.Log, Hub: s.Crew.Hub, Tenant: who.TenantID, ID: in.ID, Field: "mission_id", Seq: r.EventSeq, Over: final(r.Status),
		Cursor: cmp.Or(in.LastEventID, in.After), Now: s.Crew.Clock.Now, Final: func(name string) bool { return name == "terminal" },
		First: func(send func(string, any) bool) bool {
			return send("connected", map[string]any{"status": r.status()}) && send("mission", map[string]any{"mission": show(r)})
		},
	}
	return func(yield func(route.Frame, error) bool) {
		ctx, cancel := context.WithTimeout(ctx, maxStream)
		defer cancel()
		st.Frames(ctx)(yield)
	}, nil
}
