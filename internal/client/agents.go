package client

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Agent is what the command line shows of an agent.
type Agent struct {
	AgentID     string    `json:"agent_id"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Status      string    `json:"status"`
	Version     string    `json:"version"`
	Model       Model     `json:"model"`
	Prompts     Prompts   `json:"prompts"`
	Tools       []string  `json:"built_in_tools"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`

	Stats AgentStats `json:"stats"`
}

// AgentStats is how an agent does, in lists with include=stats.
type AgentStats struct {
	Runs24h     int64      `json:"runs_24h"`
	Failures24h int64      `json:"failures_24h"`
	LastRunAt   *time.Time `json:"last_run_at"`
	LastStatus  string     `json:"last_run_status"`
	Cost30d     float64    `json:"cost_30d_usd"`
}

// MaxCount is up to how many runs are counted in lists.
const MaxCount = 1000

// Model names a model and who serves it.
type Model struct {
	Provider string `json:"provider"`
	ModelRef string `json:"model_ref"`
}

// Prompts are an agent's instructions to its model.
type Prompts struct {
	System string `json:"system"`
}

// AgentVersion is a version of an agent's configuration.
type AgentVersion struct {
	Version   int            `json:"version"`
	Config    jsontext.Value `json:"config"`
	Changelog string         `json:"changelog"`
	CreatedBy string         `json:"created_by"`
	CreatedAt time.Time      `json:"created_at"`
}
