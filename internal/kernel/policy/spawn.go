package policy

import (
	"agentd/internal/base/authz"
	"agentd/internal/base/txn"
)

// Resource is a kind of data of the company, and what may be done with it.
type Resource struct {
	_ struct{} `json:"-" name:"ResourcePermission"`

	Resource string   `json:"resource" required:"true" minLength:"1" maxLength:"100" doc:"memory, files, knowledge or workspaces; * is all of them."`
	Actions  []string `json:"actions" required:"true" enum:"read,write,delete,execute" maxItems:"10" doc:"What may be done with it."`
}

// Permissions are what is asked for an agent. A field that is nil was left out.
type Permissions struct {
	_ struct{} `json:"-" name:"AgentPermissions"`

	AllowedTools        []string   `json:"allowed_tools,omitzero" maxItems:"1000" maxLength:"200" doc:"Names of tools; a * at the end matches any ending. Empty: none."`
	AllowedRoles        []string   `json:"allowed_roles,omitzero" maxItems:"200" maxLength:"200" doc:"Roles that it may spawn agents for. Empty: any."`
	ResourcePermissions []Resource `json:"resource_permissions,omitzero" maxItems:"100" doc:"What its tools may do with data of the company. Empty: whatever the tools do."`
	MaxBudgetPerRunUSD  *float64   `json:"max_budget_per_run_usd,omitzero" nullable:"true" minimum:"0" maximum:"1000000000" doc:"US dollars for the model calls of each of its runs, with those of the runs that they start. 0 and null: no cap."`
	MaxSpawnDepth       *int64     `json:"max_spawn_depth,omitzero" minimum:"0" maximum:"100" doc:"Levels of agents below it."`
	CanSpawn            *bool      `json:"can_spawn,omitzero" doc:"Whether it may spawn agents."`
	CanSelfModify       *bool      `json:"can_self_modify,omitzero" doc:"Whether proposals that it makes about its own permissions are carried out."`
}

// Spawn is an agent that is about to be created as the child of another.
type Spawn struct {
	ParentID string
	ChildID  string
	Role     string
	Depth    int      // of the child, by its parent's lineage: 1 for a child of an agent that a person created
	Children int      // how many children the parent has already
	RunID    string   // the run of the parent that asks for it; "": a person does
	Tools    []string // names of the tools that the child asks for; nil: those that its parent has
	Asked    Permissions
}

// SpawnLimits are the bounds of a company on agents that agents create.
type SpawnLimits struct {
	MaxDepth    int
	MaxChildren int // of one agent
}

// Refusal is why an agent may not be created, and which permissions are missing.
type Refusal struct {
	Reason string
	Denied []string
}

// Spawns decides which agents may be created by agents.
type Spawns interface {
	// SpawnLimitsTx returns the bounds of a company.
	SpawnLimitsTx(tx txn.Tx, tenant string) (SpawnLimits, error)
	// SpawnTx decides about a child, and stores its permissions if it may be created:
	// no more than was asked, and no more than its parent's. A Refusal is nil if it may.
	SpawnTx(tx txn.Tx, who authz.Caller, s Spawn) (*Refusal, error)
}
