package bridge

import (
	"context"
	"reflect"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

type (
	registerIn  struct{ Body Registration }
	heartbeatIn struct {
		Body struct {
			_ struct{} `json:"-" name:"BridgeHeartbeat"`

			MachineID string `json:"machine_id,omitzero" maxLength:"200" doc:"The machine. Left out: that of agent_id."`
			AgentID   string `json:"agent_id,omitzero" maxLength:"36" doc:"Its agent."`
		}
	}
	heartbeatOut struct {
		_ struct{} `json:"-" name:"BridgeHeartbeatAnswer"`

		OK        bool      `json:"ok" required:"true"`
		Timestamp time.Time `json:"timestamp" required:"true" doc:"Time of the server."`
	}
	deregisterIn struct {
		Body struct {
			_ struct{} `json:"-" name:"BridgeDeregister"`

			MachineID string `json:"machine_id,omitzero" maxLength:"200" doc:"The machine that leaves."`
			AgentID   string `json:"agent_id,omitzero" maxLength:"36" doc:"Or the agent whose machines leave."`
		}
	}
	deregisterOut struct {
		_ struct{} `json:"-" name:"BridgeDeregistered"`

		Success bool   `json:"success" required:"true"`
		Status  string `json:"status" enum:"offline" required:"true"`
	}
	pollIn struct {
		AgentID   string `query:"agent_id" doc:"The agent whose machine polls."`
		MachineID string `query:"machine_id" doc:"The machine that polls."`
		Timeout   int    `query:"timeout" minimum:"0" maximum:"60000" default:"25000" doc:"How long to wait for the first task, in milliseconds."`
	}
	pollOut struct {
		_ struct{} `json:"-" name:"BridgeTasks"`

		Tasks []PendingTask `json:"tasks" required:"true" doc:"Oldest first, at most 20. A task that is not reported on is offered again after 30 seconds."`
	}
	capabilityIn struct {
		AgentID string `path:"agentId"`
		Body    struct {
			_ struct{} `json:"-" name:"BridgeCapability"`

			Capabilities     []string        `json:"capabilities" required:"true" maxItems:"200" maxLength:"200" doc:"What the machines of the agent can do."`
			WorkingDirectory string          `json:"working_directory,omitzero" maxLength:"4096" doc:"The folder that they work in. Left out: unchanged."`
			Hostname         string          `json:"hostname,omitzero" maxLength:"300" doc:"Their name in their network. Left out: unchanged."`
			InstalledSpecs   []InstalledSpec `json:"installed_specs,omitzero" maxItems:"100" doc:"Specifications that are installed there. Left out: unchanged."`
			Stats            schema.Object   `json:"stats,omitzero" doc:"Numbers of the machine, at most 32, by names of a to z, 0 to 9 and _. Left out: unchanged."`
		}
	}
	capabilityOut struct {
		_ struct{} `json:"-" name:"BridgeCapabilityAnswer"`

		Status  string `json:"status" enum:"ok" required:"true"`
		Success bool   `json:"success" required:"true"`
	}
	delegateIn struct{ Body Delegation }
	eventsIn   struct {
		TaskID string `path:"bridgeTaskId"`
		Body   jsontext.Value
	}
	approvalIn struct {
		TaskID     string `path:"bridgeTaskId"`
		ApprovalID string `query:"approval_id" doc:"The approval, as the machine named it."`
	}
	approvalOut struct {
		_ struct{} `json:"-" name:"BridgeApproval"`

		Response *Decision `json:"approval_response" required:"true"`
	}
	specsIn struct {
		AgentID string `query:"agent_id" doc:"The agent of a machine."`
	}
	machineIn struct {
		MachineID string `path:"machine" doc:"The machine_id."`
	}
)

var (
	readScopes  = []authz.Scope{"agents:read"}
	writeScopes = []authz.Scope{"agents:write"}
	pollScopes  = []authz.Scope{"runs:read"}
	taskScopes  = []authz.Scope{"runs:create"}
)

// row is an operation of a machine or on machines.
func row(method, path, id, summary string, scopes []authz.Scope) route.Row {
	r := route.Row{Method: method, Path: "/api/v1/bridge" + path, ID: id, Tag: "Bridge", Summary: summary, Scopes: scopes}
	if method != "GET" {
		r.Role = authz.Developer
	}
	return r
}

// operations are the HTTP operations of the service.
type operations struct{ *Service }

// Routes returns the operations of machines, and those on them.
func (s *Service) Routes() []route.Route { return operations{s}.routes() }

func (s operations) routes() []route.Route {
	register := row("POST", "/register", "bridgeRegister", "Register a machine", writeScopes)
	register.Status, register.Also, register.Errors = 201, []int{200}, []int{404, 409, 410}
	register.AnswerOf = reflect.TypeFor[Registered]()
	register.Example = `{"machine_id":"build-7","machine_name":"Build server","capabilities":["read_file","run_command"],` +
		`"working_directory":"/srv/app","version":"1.0.0","os":"linux"}`
	register.Doc = "The machine gets an agent of its own, whose runs are its tasks. 201: it is new; 200: it has reconnected, and what it " +
		"had not ended is offered again. " +
		"Registering needs an API key, and only keys of the same member can act for the machine."
	beat := row("POST", "/heartbeat", "bridgeHeartbeat", "Send a heartbeat of a machine", writeScopes)
	beat.Errors, beat.Example = []int{404}, `{"machine_id":"build-7"}`
	beat.Doc = "404: the machine is not registered, or has deregistered; it must register again."
	leave := row("POST", "/deregister", "bridgeDeregister", "Deregister a machine", writeScopes)
	leave.Errors, leave.Example = []int{400}, `{"machine_id":"build-7"}`
	leave.Doc = "Its tasks wait for its return. Succeeds also where there is no such machine of the caller's."
	poll := row("GET", "/poll", "bridgePoll", "Poll for the tasks of a machine", pollScopes)
	poll.Errors, poll.Also, poll.AnswerOf = []int{400, 404}, []int{204}, reflect.TypeFor[pollOut]()
	poll.Doc = "204: there was none in the time; poll again at once."
	capability := row("POST", "/agents/{agentId}/capability", "updateBridgeAgentCapability", "Report what the machines of an agent can do",
		writeScopes)
	capability.Example = `{"capabilities":["read_file","run_command"]}`
	capability.Doc = "Succeeds also where the agent has no machine of the caller's."
	delegate := row("POST", "/delegate", "bridgeDelegate", "Delegate a task to a machine", taskScopes)
	delegate.Errors = []int{400, 404, 409}
	delegate.Example = `{"agent_id":"01a21dd4-6ac5-769d-90e2-d6c25bba37a5","message":"Run the tests."}`
	delegate.Doc = "Starts a run of the machine's agent. A machine that is offline gets it when it comes back."
	events := row("POST", "/tasks/{bridgeTaskId}/events", "pushBridgeTaskEvents", "Report events of a task", taskScopes)
	events.Errors, events.BodyOf = []int{404, 413}, reflect.TypeFor[[]Event]()
	events.Example = `[{"event_id":"1","type":"status","status":"working","timestamp":"2026-11-27T12:00:00Z"}]`
	events.Limits = []route.Limit{{N: 6000, Per: time.Minute}}
	events.Doc = "One event, or a list of at most 500, and at most 1 MiB. They go into the stream of the run. Events that " +
		"were reported before are not counted again. " +
		"An answer with abort tells the machine to stop."
	approval := row("GET", "/tasks/{bridgeTaskId}/approval", "getBridgeTaskApproval", "Get the decision about a tool call of a machine",
		pollScopes)
	approval.Errors, approval.Also, approval.AnswerOf = []int{400, 404}, []int{204}, reflect.TypeFor[approvalOut]()
	approval.Doc = "Waits up to 10 seconds for it. 204: there is no decision yet; ask again."
	forget := row("DELETE", "/deleted-machines/{machine}", "forgetDeletedMachine", "Allow a machine whose agent was deleted to register again",
		writeScopes)
	forget.Status, forget.Errors = 204, []int{404}
	forget.Doc = "The next registration makes a new agent."
	specs := row("GET", "/agent-specs", "getBridgeAgentSpecs", "Get the specifications that a machine should install", readScopes)
	specs.Errors = []int{400, 404}
	specs.Doc = "Those of the agent's field specs. revision changes with them."
	return []route.Route{
		route.Action(register, s.registerRoute), route.Action(beat, s.beatRoute), route.Action(leave, s.leaveRoute),
		route.Action(poll, s.pollRoute), route.Action(capability, s.capabilityRoute), route.Action(delegate, s.delegateRoute),
		route.Action(events, s.eventsRoute), route.Action(approval, s.approvalRoute),
		route.Action(row("GET", "/agents", "listBridgeAgents", "List the machines", readScopes), s.listRoute),
		route.Action(row("GET", "/status", "bridgeStatus", "Get the status of the machines", readScopes), s.statusRoute),
		route.Action(row("GET", "/deleted-machines", "listDeletedMachines", "List the deleted machines", readScopes), s.deletedRoute),
		route.Action(forget, s.forgetRoute), route.Action(specs, s.specsRoute),
	}
}

// reply is a JSON answer with a status of its own.
func reply(status int, v any) (*route.Reply, error) {
	if v == nil {
		return &route.Reply{Status: 204}, nil
	}
	body, err := json.Marshal(v)
	return &route.Reply{Status: status, JSON: body}, err
}

func (s operations) registerRoute(ctx context.Context, who authz.Caller, in *registerIn) (*route.Reply, error) {
	r, err := s.Register(ctx, who, &in.Body)
	if err != nil {
		return nil, err
	}
	if r.Registered {
		return reply(201, r)
	}
	return reply(200, r)
}

func (s operations) beatRoute(ctx context.Context, who authz.Caller, in *heartbeatIn) (heartbeatOut, error) {
	out := heartbeatOut{OK: true, Timestamp: s.Clock.Now().UTC()}
	if in.Body.MachineID != "" {
		return out, s.Seen(ctx, who, in.Body.MachineID, in.Body.AgentID)
	}
	m, err := s.machineOf(ctx, who, in.Body.AgentID)
	if err != nil {
		return out, err
	}
	return out, s.touch(ctx, m)
}

func (s operations) leaveRoute(ctx context.Context, who authz.Caller, in *deregisterIn) (deregisterOut, error) {
	if in.Body.MachineID == "" && in.Body.AgentID == "" {
		return deregisterOut{}, fault.New(fault.Malformed, "", "Say what leaves: with machine_id or agent_id.")
	}
	out := deregisterOut{Success: true, Status: Offline}
	return out, s.Deregister(txn.WithAnswer(ctx, func() any { return out }), who, in.Body.MachineID, in.Body.AgentID)
}

func (s operations) pollRoute(ctx context.Context, who authz.Caller, in *pollIn) (*route.Reply, error) {
	tasks, err := s.Poll(ctx, who, in.MachineID, in.AgentID, time.Duration(in.Timeout)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	if len(tasks) == 0 {
		return reply(204, nil)
	}
	return reply(200, pollOut{Tasks: tasks})
}

func (s operations) delegateRoute(ctx context.Context, who authz.Caller, in *delegateIn) (*Delegated, error) {
	return s.Delegate(ctx, who, &in.Body)
}

func (s operations) eventsRoute(ctx context.Context, who authz.Caller, in *eventsIn) (*Receipt, error) {
	events, err := DecodeEvents(in.Body)
	if err != nil {
		return nil, err
	}
	return s.Report(ctx, who, in.TaskID, events)
}

var (
	oneEvent  = schema.Of[Event]()
	allEvents = schema.Of[[]Event]()
)

// DecodeEvents reads an event, or a list of them. Errors: TooLarge, Invalid.
func DecodeEvents(body jsontext.Value) (events []Event, err error) {
	if len(body) > MaxBody {
		return nil, fault.New(fault.TooLarge, "", "The report is larger than 1 MiB; send the events in several reports.")
	}
	if body.Kind() == '[' {
		if err := allEvents.DecodeInto(body, &events, false); err != nil {
			return nil, err
		}
	} else {
		var one Event
		if err := oneEvent.DecodeInto(body, &one, false); err != nil {
			return nil, err
		}
		events = []Event{one}
	}
	if len(events) == 0 || len(events) > maxEvents {
		return nil, fault.BadFields(fault.Field{Field: "events", Message: "expected 1 to 500 events"})
	}
	return events, nil
}

func (s operations) approvalRoute(ctx context.Context, who authz.Caller, in *approvalIn) (*route.Reply, error) {
	d, err := s.Decision(ctx, who, in.TaskID, in.ApprovalID)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return reply(204, nil)
	}
	return reply(200, approvalOut{Response: d})
}
