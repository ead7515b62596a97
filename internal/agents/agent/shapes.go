package agent

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
)

// Policies are rules for the runs of an agent.
type Policies struct {
	_ struct{} `json:"-" name:"AgentPolicies"`

	ApprovalTimeoutMS  int64          `json:"approval_timeout_ms,omitzero" nullable:"true" minimum:"1" doc:"Milliseconds that an approval, a question or an authorization waits for a person; default 259200000, which is 72 hours."`
	CancelOnDisconnect bool           `json:"cancel_on_disconnect,omitzero" nullable:"true" doc:"A client of the chat routes that leaves a stream cancels its run."`
	ToolApprovals      []ToolApproval `json:"tool_approvals,omitzero" nullable:"true" maxItems:"200" doc:"The first rule of a tool decides whether its calls wait for a person. Rules go before approval_required_tools."`
	RateLimits         schema.Any     `json:"rate_limits,omitzero" doc:"Kept and shown; has no effect yet."`
	RBAC               schema.Any     `json:"rbac,omitzero" doc:"Kept and shown; has no effect yet."`
	ABAC               schema.Any     `json:"abac,omitzero" doc:"Kept and shown; has no effect yet."`
}

// ToolApproval is a rule on the approval of a tool's calls.
type ToolApproval struct {
	_ struct{} `json:"-" name:"AgentToolApproval"`

	Tool      string `json:"tool_name,omitzero" required:"true" minLength:"1" maxLength:"200" doc:"Name of the tool."`
	Approval  string `json:"approval,omitzero" required:"true" enum:"always,never,when" doc:"Whether calls wait: always, never, or when the condition holds."`
	Condition string `json:"condition,omitzero" doc:"Of approval when: a CEL expression on the variable arguments."`
}

// ToolOverride is how far a tool is trusted.
type ToolOverride struct {
	_ struct{} `json:"-" name:"AgentToolOverride"`

	Tool  string `json:"tool_name,omitzero" required:"true" minLength:"1" maxLength:"200" doc:"Name of the tool."`
	Trust string `json:"trust_level,omitzero" required:"true" enum:"always_allow,ask_first,never_allow" doc:"Calls are made without asking, wait for a person's approval, or the tool is not offered to the model."`
}

// Levels of trust in a tool.
const (
	AlwaysAllow = "always_allow"
	AskFirst    = "ask_first"
	NeverAllow  = "never_allow"
)

// Autonomy is how much an agent may do by itself.
type Autonomy struct {
	_ struct{} `json:"-" name:"AgentAutonomy"`

	Level string `json:"level,omitzero" required:"true" enum:"manual,approve_risky,full_auto" doc:"manual: a person approves every action; approve_risky: the risky ones; full_auto: none."`
}

// Thinking is how a reasoning model thinks.
type Thinking struct {
	_ struct{} `json:"-" name:"AgentThinking"`

	Mode   string     `json:"mode,omitzero" enum:"adaptive,fixed" nullable:"true" doc:"fixed: every call of a run thinks alike, whatever effort_policy says. Default: adaptive."`
	Budget int64      `json:"budget_tokens,omitzero" minimum:"1" maximum:"10000000" nullable:"true" doc:"Tokens for thinking, where the model takes a budget."`
	Effort schema.Any `json:"effort,omitzero" doc:"low, medium, high, max, or a number from 0 to 100."`
}

// EffortPolicy is the effort of each phase of a run.
type EffortPolicy struct {
	_ struct{} `json:"-" name:"AgentEffortPolicy"`

	Plan     string `json:"plan,omitzero" enum:"low,medium,high,max" nullable:"true" doc:"After a message of the user."`
	Act      string `json:"act,omitzero" enum:"low,medium,high,max" nullable:"true" doc:"After a tool's result."`
	Evaluate string `json:"evaluate,omitzero" enum:"low,medium,high,max" nullable:"true" doc:"Of the last answer, at a limit."`
}

// ImageGeneration says how an agent makes images.
type ImageGeneration struct {
	_ struct{} `json:"-" name:"AgentImageGeneration"`

	Provider string `json:"provider,omitzero" maxLength:"100" nullable:"true" doc:"A provider of the deployment. Default: the first one with an image model."`
	Model    string `json:"model,omitzero" maxLength:"300" nullable:"true" doc:"Default: the provider's image model."`
}

// Memory is what an agent remembers between runs.
type Memory struct {
	_ struct{} `json:"-" name:"AgentMemory"`

	Enabled       bool       `json:"enabled,omitzero" nullable:"true" doc:"Whether runs recall and keep memories. Default: false."`
	Types         []string   `json:"types,omitzero" nullable:"true" maxItems:"10" enum:"episodic,semantic,procedural,note" doc:"Types that are recalled and extracted. Empty: all."`
	MaxEntries    int64      `json:"max_entries,omitzero" nullable:"true" minimum:"1" doc:"Entries that are kept. Default: 10000."`
	Strategy      string     `json:"retrieval_strategy,omitzero" nullable:"true" enum:"relevance,recency,hybrid" doc:"Default: hybrid."`
	Limit         int64      `json:"retrieval_limit,omitzero" nullable:"true" minimum:"1" doc:"Entries that a run recalls. Default: 5."`
	AutoExtract   bool       `json:"auto_extract,omitzero" nullable:"true" doc:"Whether memories are made of what was said, after a run."`
	Extraction    schema.Any `json:"extraction_model,omitzero" doc:"Model that extracts: a name, or an object like the agent's model. Default: the agent's."`
	DecayEnabled  bool       `json:"decay_enabled,omitzero" nullable:"true" doc:"Whether old memories count less."`
	DecayHalfLife float64    `json:"decay_half_life_days,omitzero" nullable:"true" exclusiveMinimum:"0" doc:"Days after which a memory counts half. Default: 30."`
	MCPResource   bool       `json:"mcp_resource_enabled,omitzero" nullable:"true" doc:"Kept and shown; has no effect yet."`
	Tools         []string   `json:"memory_tools,omitzero" nullable:"true" maxItems:"10" doc:"Kept and shown; has no effect yet: built_in_tools lists the tools of the memory."`
}

// CoreMemory is the short texts that an agent always has in mind.
type CoreMemory struct {
	_ struct{} `json:"-" name:"AgentCoreMemory"`

	Enabled bool        `json:"enabled,omitzero" nullable:"true" doc:"Whether runs see the blocks. Default: false."`
	Blocks  []CoreBlock `json:"blocks,omitzero" nullable:"true" maxItems:"100" doc:"Blocks that exist before they are written."`
}

// CoreBlock declares a block of core memory.
type CoreBlock struct {
	_ struct{} `json:"-" name:"AgentCoreBlock"`

	Label          string `json:"label,omitzero" required:"true" pattern:"^[a-zA-Z0-9_.-]{1,64}$" doc:"Name of the block, by which the agent reads and writes it."`
	InitialContent string `json:"initial_content,omitzero" nullable:"true" doc:"Its text until it is written."`
	Content        string `json:"content,omitzero" nullable:"true" doc:"Another name for initial_content, and goes before it."`
	MaxTokens      int64  `json:"max_tokens,omitzero" nullable:"true" doc:"Default: 500."`
}

// Skill is something that an agent can do.
type Skill struct {
	_ struct{} `json:"-" name:"AgentSkill"`

	ID           string   `json:"id,omitzero" maxLength:"200" doc:"Identifier of the skill, of your choice, on cards of A2A. Left out: its name."`
	Name         string   `json:"name,omitzero" maxLength:"200" doc:"Name of the skill, as people and the model see it. A run ignores a skill without one."`
	Description  string   `json:"description,omitzero" maxLength:"4000" doc:"What the skill is for. The model is told name and description at the start of each run."`
	Instructions string   `json:"instructions,omitzero" maxLength:"200000" doc:"How the agent does it. The model gets them when it calls the built-in tool use_skill, which an agent has that has a skill with instructions."`
	AllowedTools []string `json:"allowed_tools,omitzero" doc:"Names of built-in tools that the skill needs. The agent's runs are offered them, beside its built_in_tools."`
	Tags         []string `json:"tags,omitzero" doc:"Words by which people find the skill, on cards of A2A."`
	Examples     []string `json:"examples,omitzero" doc:"Requests that the skill answers, on cards of A2A."`

	Files []SkillFile `json:"files,omitzero" maxItems:"100" doc:"Files that use_skill puts into the workspace of the run, below skills/<name>."`
}

// SkillFile is a file of a skill.
type SkillFile struct {
	_ struct{} `json:"-" name:"AgentSkillFile"`

	Path    string `json:"path" required:"true" minLength:"1" maxLength:"500" doc:"Where it is in the skill's folder, as the instructions name it."`
	FileID  string `json:"file_id,omitzero" doc:"An uploaded file that has its content."`
	Content string `json:"content,omitzero" maxLength:"200000" doc:"Its content, where file_id is left out."`
}

// SkillTool is the tool that gives a run the instructions of a skill.
const SkillTool = "use_skill"

// MaxSkills is how many skills an import leaves an agent with at most.
const MaxSkills = 100

// Usable reports whether a run can use the skill: it has instructions.
func (k *Skill) Usable() bool { return k.Name != "" && k.Instructions != "" }

// UsableSkills reports whether a run can use one of the skills.
func UsableSkills(skills []Skill) bool {
	return slices.ContainsFunc(skills, func(k Skill) bool { return k.Usable() })
}

// PublicConfig is how an agent talks with visitors.
type PublicConfig struct {
	_ struct{} `json:"-" name:"AgentPublicConfig"`

	Enabled            bool     `json:"enabled" required:"true" doc:"Whether visitors can talk with the agent, where its visibility is public."`
	SystemPrompt       string   `json:"system_prompt,omitzero" maxLength:"200000" doc:"Instructions for conversations with visitors, in place of the agent's prompts. Empty: visitors' runs have the agent's prompts."`
	Greeting           string   `json:"greeting,omitzero" maxLength:"10000" doc:"First message that a visitor sees."`
	AllowedTools       []string `json:"allowed_tools,omitzero" maxItems:"200" doc:"Names of those of the agent's tools that it may call for visitors. Empty: none."`
	AllowedOrigins     []string `json:"allowed_origins,omitzero" maxItems:"50" maxLength:"300" doc:"Origins of web pages on which visitors may talk with the agent, as https://www.example.com; * is any. Empty: pages of this service alone."`
	SessionMessages    *int64   `json:"max_messages_per_session,omitzero" nullable:"true" minimum:"1" doc:"Messages of one visitor's session. The operator's limit holds too, as for all that follow."`
	Sessions           *int64   `json:"max_concurrent_sessions,omitzero" nullable:"true" minimum:"1" doc:"Visitors who talk with the agent at the same time: sessions with a message in the last half hour."`
	SessionsPerAddress *int64   `json:"rate_limit_sessions_per_ip,omitzero" nullable:"true" minimum:"1" doc:"Sessions that one IP address may begin per hour."`
	MessagesPerMinute  *int64   `json:"rate_limit_messages_per_min,omitzero" nullable:"true" minimum:"1" doc:"Messages of one session per minute."`
	MessagesPerDay     *int64   `json:"daily_message_limit,omitzero" nullable:"true" minimum:"1" doc:"Messages of all visitors per day, UTC."`
}

// A2A is how an agent appears to agents of other systems.
type A2A struct {
	_ struct{} `json:"-" name:"AgentA2A"`

	Enabled bool            `json:"enabled,omitzero" nullable:"true" doc:"Whether agents of other systems can find it; has an effect with public."`
	Public  bool            `json:"public,omitzero" nullable:"true" doc:"Whether its card is shown without a credential, where enabled is true."`
	Card    schema.Nullable `json:"agent_card,omitzero" doc:"Members of its card that take precedence: name, description, version, documentationUrl, iconUrl, provider, skills."`
}

// RiskClassification is an agent's class under the EU AI Act.
type RiskClassification struct {
	_ struct{} `json:"-" name:"AgentRiskClassification"`

	Level         string     `json:"level,omitzero" nullable:"true" enum:"minimal,limited,high,unacceptable" doc:"Risk class."`
	Category      string     `json:"annex_iii_category,omitzero" nullable:"true" enum:"biometric,critical-infrastructure,education,employment,essential-services,law-enforcement,migration,democratic-processes" doc:"Area of Annex III that a high risk falls under."`
	Justification string     `json:"justification,omitzero" nullable:"true" maxLength:"50000" doc:"Why it has this class."`
	Assessor      string     `json:"assessor,omitzero" nullable:"true" maxLength:"500" doc:"Who assessed it."`
	AssessedAt    *time.Time `json:"assessed_at,omitzero" nullable:"true" doc:"When it was assessed."`
	ReviewDueAt   *time.Time `json:"review_due_at,omitzero" nullable:"true" doc:"When the assessment is to be reviewed."`
}

// AccessControl is what an agent is cleared for.
type AccessControl struct {
	_ struct{} `json:"-" name:"AgentAccessControl"`

	Clearance    int      `json:"clearance" required:"true" minimum:"0" maximum:"4" doc:"0 is public, 1 internal, 2 restricted, 3 confidential, 4 secret."`
	Compartments []string `json:"compartments,omitzero" maxItems:"200" doc:"Names of the compartments that it may read."`
	Caveats      []string `json:"caveats,omitzero" maxItems:"200" doc:"Restrictions on what it reads, in words of yours."`
}

// CommandRelationships are an agent's superiors and peers.
type CommandRelationships struct {
	_ struct{} `json:"-" name:"AgentCommandRelationships"`

	OpCon           string   `json:"opcon,omitzero" maxLength:"36" doc:"Id of the agent with operational control."`
	CoordinatesWith []string `json:"coordinates_with,omitzero" maxItems:"200" doc:"Ids of agents."`
}

// InstalledSpec is a specification that is installed on an agent.
type InstalledSpec struct {
	_ struct{} `json:"-" name:"AgentSpec"`

	ID          string          `json:"spec_id,omitzero" required:"true" minLength:"1" maxLength:"200" doc:"ID of the specification."`
	Version     string          `json:"version,omitzero" maxLength:"100" doc:"Version of the specification."`
	Enabled     *bool           `json:"enabled,omitzero" nullable:"true" doc:"Whether the specification is used."`
	Permissions []schema.Object `json:"permissions_granted,omitzero" maxItems:"200" doc:"Free objects."`
	Tools       []string        `json:"tool_allowlist,omitzero" maxItems:"200" doc:"Names of the tools that the specification may use."`
}

// Visibility is who may find an agent.
type Visibility string

// The visibilities. Some clients send team for TenantWide.
const (
	Private    Visibility = "private"
	TenantWide Visibility = "tenant"
	Public     Visibility = "public"
	team       Visibility = "team"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Visibility) UnmarshalText(name []byte) error {
	if *v = Visibility(name); *v == team {
		*v = TenantWide
	}
	return nil
}

const effortsAre = "expected low, medium, high, max or a number from 0 to 100"

// wrongEffort checks the one member of thinking that is of two kinds.
func wrongEffort(raw schema.NullableOf[Thinking]) []fault.Field {
	var t struct {
		Effort jsontext.Value `json:"effort"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &t) != nil || len(t.Effort) == 0 {
		return nil
	}
	switch t.Effort.Kind() {
	case 'n':
		return nil
	case '"':
		var level string
		if json.Unmarshal(t.Effort, &level) == nil {
			switch level {
			case "low", "medium", "high", "max":
				return nil
			}
		}
	case '0':
		var n float64
		if json.Unmarshal(t.Effort, &n) == nil && n >= 0 && n <= 100 {
			return nil
		}
	}
	return []fault.Field{{Field: "thinking.effort", Message: effortsAre}}
}
