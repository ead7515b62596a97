package run

import (
	"cmp"
	"context"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/jsonform"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"

	"github.com/go-json-experiment/json"
)

type createIn struct {
	Body struct {
		AgentID        string                            `json:"agent_id" format:"uuid" required:"true" doc:"The agent that runs."`
		SessionID      *string                           `json:"session_id,omitzero" format:"uuid" nullable:"true" doc:"The session that the run continues. Default: a run of its own."`
		Input          schema.Object                     `json:"input,omitzero" doc:"Has the message, and in file_ids up to 20 uploaded files that the model reads with it; they are kept as attachments. Further keys are kept with the run. If omitted, the message is empty."`
		Version        int64                             `json:"version,omitzero" minimum:"1" doc:"Version of the agent; if omitted, the newest."`
		ResourceLimits Limits                            `json:"resource_limits,omitzero" doc:"Limits of this run. For each the smaller one of the run's and the agent's applies."`
		Settings       schema.NullableOf[model.Settings] `json:"model_settings,omitzero" doc:"How the model answers in this run; takes precedence over the agent's, member by member."`
		Metadata       schema.Object                     `json:"metadata,omitzero" doc:"Data of yours, kept with the run."`
		Outcome        schema.NullableOf[judge.Rubric]   `json:"outcome,omitzero" doc:"What makes the result good enough: a judge scores each answer that would end the run, and the run works on until it has the score, or a bound is reached. Replaces the agent's."`
	}
}

type idIn struct {
	RunID string `path:"runId"`
}

type listIn struct {
	Filter

	Order  string `query:"order" enum:"desc,asc" default:"desc" doc:"desc: newest first; asc: oldest first."`
	Fields string `query:"fields" enum:"all,summary" default:"all" page:"-" doc:"summary: rows without input, output and metadata, but with their beginnings and with names."`
	Limit  string `query:"limit" doc:"Runs per page, 1 to 100; default 20."`
	Cursor string `query:"cursor"`
}

type stepsIn struct {
	RunID     string `path:"runId"`
	Inherited string `query:"inherited" doc:"true: with the steps of the runs that this one continues."`
	Fields    string `query:"fields" enum:"all,summary" default:"all" page:"-" doc:"summary: steps without input and output, but with their beginnings and the name of the tool or model."`
	Limit     string `query:"limit" doc:"Steps per page, 1 to 500; all steps if omitted."`
	Cursor    string `query:"cursor"`
}

type waitIn struct {
	RunID   string `path:"runId"`
	Seconds string `query:"timeout_sec" doc:"Maximum wait in seconds, 1 to 600; default 60."`
}

type eventsIn struct {
	RunID       string `path:"runId"`
	LastEventID string `header:"Last-Event-ID" query:"last_event_id"`
}

// Routes returns the operations on runs and approvals.
func (s *Service) Routes() []route.Route {
	read := []authz.Scope{"runs:read"}
	create := []authz.Scope{"runs:create"}
	return append([]route.Route{
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/runs", ID: "createRun", Tag: "Runs", Scopes: create, Role: authz.Developer,
			Summary: "Create a run", Status: 202, Errors: []int{404, 409, 503},
			Doc: "The run is stored before the answer is sent, and continues if the process stops. Stream its events, wait for it, or poll it.",
		}, s.create),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/runs", ID: "listRuns", Tag: "Runs", Scopes: read, Role: authz.Viewer,
			Summary: "List runs, newest first", Errors: []int{400, 422},
		}, s.list),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/runs/{runId}", ID: "getRun", Tag: "Runs", Scopes: read, Role: authz.Viewer,
			Summary: "Get a run", Errors: []int{404},
		}, func(ctx context.Context, who authz.Caller, in *idIn) (*Run, error) {
			return s.Get(ctx, who.TenantID, in.RunID)
		}),
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/runs/{runId}/cancel", ID: "cancelRun", Tag: "Runs", Scopes: create, Role: authz.Developer,
			Summary: "Cancel a run", Errors: []int{404},
			Doc: "Always 200: for a run that has ended already, cancelled is false and message says so.",
		}, func(ctx context.Context, who authz.Caller, in *idIn) (CancelAnswer, error) {
			return cancelBy(ctx, s, who, in.RunID)
		}),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/runs/{runId}/wait", ID: "waitForRun", Tag: "Runs", Scopes: read, Role: authz.Viewer,
			Summary: "Wait for a run to end", Also: []int{202}, Errors: []int{404},
			Doc:      "200 with the run once it has ended; 202 with its status if it has not ended when the timeout expires.",
			AnswerOf: reflect.TypeFor[Run](), AlsoOf: reflect.TypeFor[stillRunning](),
		}, s.wait),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/runs/{runId}/steps", ID: "listRunSteps", Tag: "Runs", Scopes: read, Role: authz.Viewer,
			Summary: "List the steps of a run, oldest first", Errors: []int{404, 422},
		}, s.steps),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/runs/{runId}/steps/{stepId}", ID: "getRunStep", Tag: "Runs", Scopes: read, Role: authz.Viewer,
			Summary: "Get a step of a run", Errors: []int{404},
		}, families{s}.step),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/runs/{runId}/timeline", ID: "getRunTimeline", Tag: "Runs", Scopes: read, Role: authz.Viewer,
			Summary: "List when a run, its steps and its descendants began and ended", Errors: []int{404, 422},
			Doc: "Spans in the order in which they began, without contents: the run, the runs that descend from it, their steps, " +
				"the waits for people and the attempts that failed.",
		}, families{s}.timeline),
		route.Stream(route.Row{
			Method: "GET", Path: "/api/v1/runs/{runId}/events", ID: "streamRunEvents", Tag: "Runs",
			Scopes: []authz.Scope{"runs:read", "events:read"}, Role: authz.Viewer,
			Summary: "Stream the events of a run", Errors: []int{404}, Events: &Events,
			Doc: "Server-sent events. Past events come first; Last-Event-ID resumes exactly after an event. " +
				"The stream ends with a frame done and a bare [DONE].",
		}, s.events),
	}, s.waitRoutes()...)
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (*Run, error) {
	b := &in.Body
	if len(b.Input) == 0 {
		b.Input = emptyInput
	}
	if err := cmp.Or(CheckInput(b.Input), CheckSettings(b.Settings)); err != nil {
		return nil, err
	}
	rubric, err := RubricOf(b.Outcome)
	if err != nil {
		return nil, err
	}
	req := Request{
		AgentID: b.AgentID, AgentVersion: b.Version, SessionID: b.SessionID, Input: b.Input,
		Limits: b.ResourceLimits, Metadata: b.Metadata,
		Settings: []byte(b.Settings),
	}
	req.Options.Outcome = rubric
	if b.SessionID != nil {
		if s.Sessions == nil {
			return nil, fault.NewNotFound("session")
		}
		if err := s.Sessions.Join(ctx, who.TenantID, &req); err != nil {
			return nil, err
		}
	}
	req.Answer = func(r *Run) any { return r }
	return s.Create(ctx, who, req)
}

var (
	inputSchema = schema.Of[Input]()
	emptyInput  = schema.Object(`{"message":""}`)
)

// CheckInput refuses an input whose known members are invalid.
func CheckInput(raw schema.Object) error {
	err := inputSchema.Check(raw, false)
	f := fault.From(err)
	if f == nil || len(f.Fields) == 0 {
		return err
	}
	fields := slices.Clone(f.Fields)
	for i := range fields {
		fields[i] = fields[i].Under("input")
	}
	return fault.BadFields(fields...)
}

// CheckSettings refuses the model_settings of a run whose values cannot be used.
func CheckSettings(settings []byte) error {
	if wrong := jsonform.WrongSettings(settings); len(wrong) > 0 {
		return fault.BadFields(wrong...)
	}
	return nil
}

// RubricOf returns the rubric in the field outcome of a body; nil if it has none.
func RubricOf(raw []byte) (*judge.Rubric, error) {
	rubric, wrong := judge.Parse(raw, "outcome")
	if len(wrong) > 0 {
		return nil, fault.BadFields(wrong...)
	}
	return rubric, nil
}

// stillRunning is the answer of a wait that timed out.
type stillRunning struct {
	_ struct{} `json:"-" name:"RunStillRunning"`

	RunID     string `json:"run_id" format:"uuid" required:"true"`
	Status    string `json:"status" enum:"still_running" required:"true"`
	RunStatus Status `json:"run_status" required:"true" doc:"The run's status."`
}

func (s *Service) wait(ctx context.Context, who authz.Caller, in *waitIn) (*route.Reply, error) {
	seconds := 60
	if n, err := strconv.Atoi(in.Seconds); err == nil {
		seconds = min(max(n, 1), 600)
	}
	r, err := s.Wait(ctx, who.TenantID, in.RunID, time.Duration(seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	if r.Status.Final() {
		return reply(200, r)
	}
	return reply(202, stillRunning{RunID: r.RunID, Status: "still_running", RunStatus: r.Status})
}

func (s *Service) events(ctx context.Context, who authz.Caller, in *eventsIn) (iter.Seq2[route.Frame, error], error) {
	return s.Stream(ctx, who.TenantID, in.RunID, in.LastEventID)
}

func reply(status int, v any) (*route.Reply, error) {
	b, err := json.Marshal(v)
	return &route.Reply{Status: status, JSON: b}, err
}
