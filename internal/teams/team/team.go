// Package team stores teams of agents and their graphs: who works with whom. Package
// teamrun runs them.
package team

import (
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
)

// The topologies: how the members of a team work together.
const (
	Supervisor = "supervisor"  // one member plans, the others do the tasks, the results are merged
	RoundRobin = "round_robin" // the members speak in turn
	Pipeline   = "pipeline"    // each member works on the result of the one before
	Swarm      = "swarm"       // one member at a time works, and may hand off to another
	GoalDriven = "goal_driven" // as supervisor, in rounds until a judge finds the goal reached
)

// The strategies of delegation and merging.
const (
	SupervisorDecides = "supervisor_decides"
	InTurn            = "round_robin"

	SupervisorMerges = "supervisor_merges"
	Concatenate      = "concatenate"
	Vote             = "vote"
)

// The modes of orchestration.
const (
	StrictAddressed = "strict_addressed" // members work by themselves
	PeerCollab      = "peer_collab"      // members improve their results with those of others
	VoteBased       = "vote_based"       // members vote for one of the results
)

// ToolDriven is the mode of a supervisor that delegates by its own tool calls.
const ToolDriven = "tool_driven"

// What a team does when a member's run did not complete.
const (
	Retry = "retry"
	Skip  = "skip"
	Abort = "abort_team"
)

// SharedContext is the protocol by which members see the results of others.
const SharedContext = "shared_context"

// Summary is the strategy by which only the last answer is handed off.
const Summary = "summary"

// Limits of teams.
const (
	MaxWorkers = 50
	// MinTimeoutMS is the least time that a team run may have, if it has a limit.
	MinTimeoutMS = 3_600_000
)

// Team is agents that work together.
type Team struct {
	resource.Meta `json:"-"`

	Name               string   `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"What it is called."`
	Description        string   `json:"description" maxLength:"20000" doc:"What it is for."`
	Topology           string   `json:"topology" enum:"supervisor,round_robin,pipeline,swarm,goal_driven" default:"supervisor" doc:"supervisor: one member plans and merges, the workers do the tasks. round_robin: the workers speak in turn. pipeline: each worker gets the result of the one before. swarm: one member at a time works, and may hand off to another. goal_driven: as supervisor, in rounds until a judge finds the goal reached."`
	SupervisorAgentID  string   `json:"supervisor_agent_id" maxLength:"36" ref:"agent" doc:"The agent that plans and merges; it is no worker. Needed by every topology but swarm."`
	Workers            []Worker `json:"workers" maxItems:"50" doc:"The members beside the supervisor, in order. An update replaces the list; a worker that stays keeps the role, the permissions and the external_a2a that are left out."`
	AgentIDs           []string `json:"agent_ids" maxItems:"50" maxLength:"36" ref:"agent" doc:"Members of a swarm, as ids alone; workers can be named too."`
	DelegationStrategy string   `json:"delegation_strategy" enum:"supervisor_decides,round_robin" default:"supervisor_decides" doc:"Who gets the tasks of a supervisor topology. supervisor_decides: its plan says. round_robin: every worker gets the message."`
	MergeStrategy      string   `json:"merge_strategy" enum:"supervisor_merges,concatenate,vote" default:"supervisor_merges" doc:"What becomes of the results of supervisor and round_robin. supervisor_merges: the supervisor writes the answer. concatenate: the results follow each other. vote: the result that most members gave."`
	MessageProtocol    string   `json:"message_protocol" enum:"shared_context,message_passing" default:"shared_context" doc:"shared_context: a member sees the results of others, as far as its permissions allow. message_passing: only its own task."`
	OrchestrationMode  string   `json:"orchestration_mode" enum:"strict_addressed,peer_collab,vote_based" default:"strict_addressed" doc:"strict_addressed: members work by themselves. peer_collab: each sees the results of the others once, and may improve its own, before they are merged. vote_based: instead of a merge, the members vote for one of the results. Where a message names members, only these work on it, in every mode. The last two need results that are merged: supervisor, round_robin or goal_driven."`
	SupervisorMode     string   `json:"supervisor_mode" enum:"auto_dispatch,tool_driven" default:"auto_dispatch" doc:"auto_dispatch: the team runs the tasks of the supervisor's plan. tool_driven: the supervisor calls the tool delegate_to_worker as often as it needs, and its last answer is that of the team; only with the topology supervisor."`
	Policies           Policies `json:"policies" merge:"1" doc:"Limits and what happens on failures."`
	SwarmConfig        *Swarmed `json:"swarm_config" doc:"Needed by a swarm; null: none."`
	GoalConfig         *Goal    `json:"goal_config" doc:"Bounds of a goal_driven team; null: the defaults."`
	WorkspaceID        *string  `json:"workspace_id" maxLength:"36" ref:"workspace" doc:"Where the file tools of the members work; null: each in its own."`
}

// Worker is a member of a team.
type Worker struct {
	_ struct{} `json:"-" name:"TeamWorker"`

	AgentID     string       `json:"agent_id" required:"true" minLength:"1" maxLength:"36" ref:"agent" doc:"The agent; with external_a2a a name of your choice, of letters, digits, dots, _ and -."`
	Role        string       `json:"role,omitzero" maxLength:"200" doc:"What it does in the team, which the supervisor is told. Default: worker."`
	Permissions *Permissions `json:"permissions,omitzero" doc:"What it may do. Default: to read the results of others, with the limits of the agent."`
	External    *External    `json:"external_a2a,omitzero" doc:"An agent of another system that does the tasks of this worker, by the Agent2Agent protocol. Default: agent_id is an agent of the company."`
}

// External is how an agent of another system is reached.
type External struct {
	_ struct{} `json:"-" name:"TeamWorkerExternalA2A"`

	CardURL  string        `json:"agent_card_url" required:"true" format:"uri" minLength:"1" maxLength:"2048" doc:"The address of its card, or the one below which the card is at /.well-known/agent-card.json."`
	Endpoint string        `json:"endpoint,omitzero" maxLength:"2048" doc:"The address that messages are sent to. Default: as the card says."`
	Auth     *ExternalAuth `json:"auth,omitzero" doc:"What lets the team in. Default: nothing."`
}

// ExternalAuth is a credential for an agent of another system.
type ExternalAuth struct {
	_ struct{} `json:"-" name:"TeamWorkerExternalAuth"`

	Type     string `json:"type" required:"true" enum:"none,bearer,basic,api_key" doc:"How the credential is sent, as its scheme says; none: there is none."`
	TokenRef string `json:"token_ref,omitzero" maxLength:"36" doc:"The credential_id of a stored credential (/api/v1/a2a/credentials), for the address of the card."`
}

// Permissions are what a worker may do inside of a team run.
type Permissions struct {
	_ struct{} `json:"-" name:"TeamWorkerPermissions"`

	ReadOthers *bool  `json:"can_read_other_results" doc:"It sees what other members answered before. Default: true."`
	MaxTokens  *int64 `json:"max_tokens,omitzero" minimum:"1" doc:"Tokens that one task of it may read and write, at most those of the agent."`
	MaxSteps   *int64 `json:"max_steps_per_subtask,omitzero" minimum:"1" doc:"Steps of one task of it, at most those of the agent."`
}

// Policies are the limits of a team's runs.
type Policies struct {
	_ struct{} `json:"-" name:"TeamPolicies"`

	MaxRounds          int      `json:"max_rounds" minimum:"1" maximum:"100" doc:"Rounds of plans, or of turns. Default: 10."`
	TimeoutMS          int64    `json:"timeout_ms" minimum:"0" doc:"Milliseconds that a run of the team may take; less than an hour counts as an hour. 0, the default: no limit."`
	EarlyTermination   *bool    `json:"early_termination" doc:"A round_robin ends before its last round when every member repeated its answer. Default: true."`
	ConsensusThreshold *float64 `json:"consensus_threshold,omitzero" minimum:"0" maximum:"1" doc:"Share of the members that has to give the same result of a vote; otherwise the run fails. Default: none."`
	SubtaskTimeoutMS   int64    `json:"subtask_timeout_ms" minimum:"0" doc:"Milliseconds that one run of a member may take, its waits included. 0, the default: no limit."`
	OnWorkerFailure    string   `json:"on_worker_failure" enum:"retry,skip,abort_team" doc:"What to do when a member's run did not complete. retry, the default: again, up to max_worker_retries, then as skip."`
	MaxWorkerRetries   *int     `json:"max_worker_retries" minimum:"0" maximum:"10" doc:"Retries of one task. Default: 1."`
	RequireAllWorkers  bool     `json:"require_all_workers" doc:"The run fails if a task has no result in the end. Default: false."`
	MaxGraphNodes      int      `json:"max_graph_nodes" minimum:"1" maximum:"500" doc:"Nodes of the team's graph. Default: 50."`
	MaxConcurrency     int      `json:"max_concurrency" minimum:"1" maximum:"50" doc:"Runs of members at a time. Default: 8."`

	Validation *Validation `json:"validation,omitzero" doc:"How the answer is checked before the run ends; null: it is not."`
}

// Validation is how the answer of a team is checked.
type Validation struct {
	_ struct{} `json:"-" name:"TeamValidationPolicy"`

	Enabled     *bool       `json:"enabled,omitzero" doc:"False: the answer is not checked. Default: true."`
	Criteria    []Criterion `json:"criteria" maxItems:"20" doc:"What the answer is scored by. Default: one, that it does what the message asks."`
	MinScore    *float64    `json:"min_score,omitzero" minimum:"0" maximum:"1" doc:"The weighted mean of the scores that the answer needs. Default: 0.7."`
	MaxRounds   *int        `json:"max_revision_rounds,omitzero" minimum:"0" maximum:"20" doc:"Revisions of an answer with a lower score; then the run fails. Default: 1."`
	ValidatorID string      `json:"validator_agent_id,omitzero" maxLength:"36" ref:"agent" doc:"The agent that scores. Default: the supervisor; a swarm needs one."`
	AutoRevise  *bool       `json:"auto_revise,omitzero" doc:"False: a lower score fails the run at once. Default: true."`
}

// Criterion is what an answer is scored by.
type Criterion struct {
	_ struct{} `json:"-" name:"TeamValidationCriterion"`

	Name        string   `json:"name" required:"true" minLength:"1" maxLength:"100" doc:"Its name, once in the list."`
	Description string   `json:"description,omitzero" maxLength:"2000" doc:"What has to be the case."`
	Weight      *float64 `json:"weight,omitzero" minimum:"0" maximum:"1" doc:"How much it counts, compared with the others. Default: 1."`
}

// Goal is how long a team pursues a goal.
type Goal struct {
	_ struct{} `json:"-" name:"TeamGoalConfig"`

	MaxIterations *int    `json:"max_iterations,omitzero" minimum:"1" maximum:"100" doc:"Rounds, each with a plan and a verdict. Default: policies.max_rounds."`
	JudgeID       string  `json:"judge_agent_id,omitzero" maxLength:"36" ref:"agent" doc:"The agent that decides whether the goal is reached. Default: the supervisor."`
	Budget        *Budget `json:"budget,omitzero" doc:"What all runs of the members may use; a round that would begin after it is used up does not. Default: no bounds."`
}

// Budget bounds the runs of members of one run of a team.
type Budget struct {
	_ struct{} `json:"-" name:"TeamGoalBudget"`

	MaxRuns    *int64   `json:"max_runs,omitzero" minimum:"1" doc:"Runs of members, verdicts included."`
	MaxTokens  *int64   `json:"max_tokens,omitzero" minimum:"1" doc:"Tokens that they read and write."`
	MaxCostUSD *float64 `json:"max_cost_usd,omitzero" minimum:"0" doc:"US dollars, as far as prices are known."`
}

// Swarmed is how a swarm works.
type Swarmed struct {
	_ struct{} `json:"-" name:"TeamSwarmConfig"`

	InitialAgentID string `json:"initial_agent_id" required:"true" minLength:"1" maxLength:"36" ref:"agent" doc:"The member that begins."`
	MaxHandoffs    *int   `json:"max_handoffs,omitzero" minimum:"0" maximum:"100" doc:"Hand-offs of one run; the answer of the last member is the result. Default: 10."`
	Context        string `json:"handoff_context_strategy,omitzero" enum:"full,summary" doc:"What the next member sees. full, the default: all answers so far. summary: the last one."`
}

// Options are what teams need of others.
type Options struct {
	// Agent and Workspace report whether a company has one. Errors: fault.NotFound.
	Agent     func(tx txn.Tx, tenant, id string) error
	Workspace func(tx txn.Tx, tenant, id string) error
	// Credential returns why a credential cannot be sent to an address in a way; "": it can.
	// Errors: fault.NotFound.
	Credential func(tx txn.Tx, tenant, id, scheme, url string) (wrong string, err error)
	Quota      quota.Gate // nil: there may be any number of teams
	// Deleted is called in the transaction that deletes a team. nil: nothing else is
	// deleted with it.
	Deleted func(tx txn.Tx, tenant, id string) error
}

// Teams keeps the teams of all companies.
type Teams struct {
	store  *resource.Store[Team]
	graphs *graphs
}

// New returns the teams.
func New(deps resource.Deps, o Options) *Teams {
	silent := deps
	silent.Outbox = resource.NoOutbox{} // the change of the team says it all
	t := &Teams{graphs: &graphs{
		store: resource.NewStore(graphKind, deps), silent: resource.NewStore(graphKind, silent),
		writer: deps.Writer, clock: deps.Clock, agent: o.Agent,
	}}
	t.store = resource.NewStore(t.kind(o), deps)
	t.graphs.teams = t.store
	return t
}

// Store returns what keeps them.
func (t *Teams) Store() *resource.Store[Team] { return t.store }

// Routes returns the operations on teams and their graphs.
func (t *Teams) Routes() []route.Route {
	return slices.Concat(resource.Routes(t.store), t.graphs.routes())
}

func (t *Teams) kind(o Options) resource.Kind[Team] {
	limited := quota.Creation[Team](o.Quota, quota.Teams)
	return resource.Kind[Team]{
		Name: "team", Path: "/api/v1/teams", Tag: "Teams", Keys: []string{"teams"},
		PageSize: 200, MaxPageSize: 200,
		Readers:  resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers:  resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
		Put:      resource.PutMerges,
		Counted:  true,
		Default:  func(t *Team) { t.Policies.complete() },
		Label:    func(t *Team) string { return t.Name },
		Validate: validate, Addresses: addresses,
		Events: []resource.EventType{
			{Name: "team.created", Doc: "A team was created.", Actions: []string{resource.Created}},
			{Name: "team.updated", Doc: "A team was changed.", Actions: []string{resource.Updated}},
			{Name: "team.deleted", Doc: "A team was deleted.", Actions: []string{resource.Deleted}},
		},
		Before: func(e *resource.Edit[Team]) error {
			if err := limited(e); err != nil {
				return err
			}
			return o.before(e)
		},
		After: func(e *resource.Edit[Team]) error {
			if err := t.graphs.follow(e); err != nil || e.New != nil || o.Deleted == nil {
				return err
			}
			return o.Deleted(e.Tx, e.Who.TenantID, e.Old.ID)
		},
	}
}
