// Package memory is what agents remember between runs: entries that are found
// by their words, their meaning and their age, and core blocks that an agent
// always has in mind (interface.md section 2, MemoryEntry; behaviours.md
// section 8).
//
// The text of an entry is a passage of a collection of package retrieval, whose
// id is the agent's; here stands what else is known of it.
package memory

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/clock"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/content/retrieval"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/work"
)

// The types of entries. Notes are what nobody has classified.
const (
	Episodic   = "episodic"
	Semantic   = "semantic"
	Procedural = "procedural"
	Note       = "note"
)

// Types are all of them.
var Types = []string{Episodic, Semantic, Procedural, Note}

// Limits of entries (behaviours.md sections 8 and 36).
const (
	maxContent    = 2 << 20 // bytes
	maxTags       = 20
	maxTag        = 64 // characters
	maxEntity     = 200
	maxMetadata   = 64 << 10
	maxImport     = 2000
	defaultBoost  = 0.5
	defaultMost   = 10_000 // entries of an agent that sets no memory.max_entries
	greatestMost  = 100_000
	pageSize      = 20
	pageMost      = 200
	defaultRecall = 5
)

// Entry is one thing that an agent remembers.
type Entry struct {
	_ struct{} `json:"-" name:"MemoryEntry"`

	EntryID        string        `json:"entry_id" format:"uuid" required:"true"`
	AgentID        string        `json:"agent_id" format:"uuid"`
	TenantID       string        `json:"tenant_id"`
	Type           string        `json:"type" enum:"episodic,semantic,procedural,note"`
	Content        string        `json:"content" required:"true"`
	Tags           []string      `json:"tags"`
	RelevanceScore float64       `json:"relevance_score" doc:"How much it matters; what matters least falls out of a full memory first."`
	SourceRunID    string        `json:"source_run_id,omitzero" doc:"The run that it comes from."`
	AccessCount    int64         `json:"access_count" doc:"How often a search or a run has found it."`
	LastAccessedAt *time.Time    `json:"last_accessed_at"`
	Metadata       schema.Object `json:"metadata"`
	RunOutcome     string        `json:"run_outcome,omitzero" doc:"How the run ended that it comes from."`
	EntityName     string        `json:"entity_name,omitzero" doc:"Who or what it is about."`
	EntityType     string        `json:"entity_type,omitzero"`
	CreatedAt      time.Time     `json:"created_at"`
	Score          *float64      `json:"score,omitzero" doc:"How well it fits, in the answer of a search; for comparison within that answer."`

	// at is since when it ages: when it was written last.
	at time.Time
}

// Stored is an entry with what only the tables know of it.
type Stored struct {
	Entry
	Origin string // what made it, where that must not make it twice; "": anything
	Hash   string // of the normalized content
	Entity string // the normalized name
}

// Store is the port to the tables of entries and blocks. Every call takes the
// tenant; what is another's is absent: fault.NotFound, or left out.
type Store interface {
	// CreateTx adds entries, whose passages are there.
	CreateTx(tx txn.Tx, tenant, agent string, entries []Stored) error
	// UpdateTx writes everything but type, content and score, which the passage has.
	UpdateTx(tx txn.Tx, tenant, agent string, e Stored) error
	DeleteTx(tx txn.Tx, tenant, agent string, ids []string) error
	DeleteAllTx(tx txn.Tx, tenant, agent string) error // the blocks too
	CountTx(tx txn.Tx, tenant, agent string) (int, error)
	// GetByOriginTx says which entry an origin made; "" for none.
	GetByOriginTx(tx txn.Tx, tenant, agent, origin string) (id string, err error)
	// ListKnownTx says which of these hashes some entry has.
	ListKnownTx(tx txn.Tx, tenant, agent string, hashes []string) (map[string]bool, error)
	LockTx(tx txn.Tx, tenant, agent, id string) (*Entry, error)
	// RecordAccessTx counts an access to entries.
	RecordAccessTx(tx txn.Tx, tenant, agent string, ids []string, at time.Time) error

	Get(ctx context.Context, tenant, agent, id string) (*Entry, error)
	ListByID(ctx context.Context, tenant, agent string, ids []string) (map[string]Entry, error)
	// List gives entries newest first, after an id; entity "" is any.
	List(ctx context.Context, tenant, agent, entity, after string, limit int) ([]Entry, error)
	Count(ctx context.Context, tenant, agent, entity string) (int, error)

	ListBlocks(ctx context.Context, tenant, agent string) ([]Block, error)
	ListBlocksTx(tx txn.Tx, tenant, agent string) ([]Block, error)
	PutBlockTx(tx txn.Tx, tenant, agent string, b Block) error
}

// Models resolves what an agent asks for to an endpoint.
type Models interface {
	Resolve(ctx context.Context, tenant string, spec model.Spec) (model.Target, error)
}

// Service is what callers, runs and tools can do with memories.
type Service struct {
	Store   Store
	Search  *retrieval.Service
	Agents  *agent.Agents   // see Connect
	Files   retrieval.Files // nil: there are no files
	Writer  txn.Writer
	Queue   work.Queue
	Cursors *page.Cursors
	Clock   clock.Clock
	Log     *slog.Logger

	// What extraction needs.
	Runs   run.Store
	Models Models
	Client model.Client
	// Spent is told what a model call of extraction used; nil: nobody counts.
	Spent func(ctx context.Context, tenant, agent string, target model.Target, u model.Usage)

	wishes wishes
}

// Connect sets the agents, which are built after the service because they need
// its tools. It is called once, before the first request.
func (s *Service) Connect(agents *agent.Agents) { s.Agents = agents }
