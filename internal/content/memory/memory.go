// Package memory implements what agents remember between runs: entries, which are
// found by their words, their meaning and their age, and core blocks, which are
// always part of the agent's prompt.
//
// The text of an entry is a passage of a collection of package retrieval, whose
// id is the agent's; this package stores the other fields.
package memory

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/clock"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/share"
	"agentd/internal/base/txn"
	"agentd/internal/content/doctext"
	"agentd/internal/content/retrieval"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/work"
)

// The types of entries. The default is note.
const (
	Episodic   = "episodic"
	Semantic   = "semantic"
	Procedural = "procedural"
	Note       = "note"
)

// Types lists all types.
var Types = []string{Episodic, Semantic, Procedural, Note}

// Limits of entries.
const (
	maxContent   = 2 << 20 // bytes
	maxTags      = 20
	maxTag       = 64 // characters
	maxEntity    = 200
	maxMetadata  = 64 << 10
	maxImport    = 2000
	defaultBoost = 0.5
	pageSize     = 20
	pageMost     = 200
)

// Entry is a memory entry.
type Entry struct {
	_ struct{} `json:"-" name:"MemoryEntry"`

	EntryID        string        `json:"entry_id" format:"uuid" required:"true"`
	AgentID        string        `json:"agent_id" format:"uuid"`
	TenantID       string        `json:"tenant_id"`
	Type           string        `json:"type" enum:"episodic,semantic,procedural,note"`
	Content        string        `json:"content" required:"true"`
	Tags           []string      `json:"tags"`
	RelevanceScore float64       `json:"relevance_score" doc:"Importance, from 0 to 1. The least relevant entries of a full memory are removed first."`
	SourceRunID    string        `json:"source_run_id,omitzero" doc:"The run that it comes from."`
	AccessCount    int64         `json:"access_count" doc:"How often searches and runs have found it."`
	LastAccessedAt *time.Time    `json:"last_accessed_at"`
	Metadata       schema.Object `json:"metadata"`
	RunOutcome     string        `json:"run_outcome,omitzero" doc:"Final status of the run that it comes from."`
	EntityName     string        `json:"entity_name,omitzero" doc:"The person or thing that the entry is about."`
	EntityType     string        `json:"entity_type,omitzero"`
	CreatedAt      time.Time     `json:"created_at"`
	Sources        []string      `json:"sources,omitzero" doc:"Untrusted sources that the run had read: web, mcp:<server>, file, sensor, visitor, message:<agent>. Runs that find the entry have read them too."`
	SupersededBy   string        `json:"superseded_by,omitzero" doc:"The newer entry that contradicts it and took its place. Searches and runs leave it out, until that entry is deleted or this one is changed."`
	Score          *float64      `json:"score,omitzero" doc:"Of a search result, from 0 to 1: nine tenths are how well it matches, with decay, one tenth its relevance_score."`

	// at is the time that decay counts from: the last write.
	at time.Time
}

// Editable implements route.Editable.
func (e *Entry) Editable() any {
	return struct {
		Type, Content          string
		Tags                   []string
		RelevanceScore         float64
		Metadata               schema.Object
		EntityName, EntityType string
	}{e.Type, e.Content, e.Tags, e.RelevanceScore, e.Metadata, e.EntityName, e.EntityType}
}

// Stored is an entry with the fields that are not shown.
type Stored struct {
	Entry
	Origin string // identifies what created the entry, so that a retry does not create it twice; "": not set
	Hash   string // of the normalized content
	Entity string // the normalized name
}

// Store is the port to the tables of entries and blocks. Every call takes the
// tenant; objects of others are absent: fault.NotFound, or skipped.
type Store interface {
	// CreateTx adds entries whose passages are stored already.
	CreateTx(tx txn.Tx, tenant, agent string, entries []Stored) error
	// UpdateTx stores everything except type, content and score, which the passage has.
	UpdateTx(tx txn.Tx, tenant, agent string, e Stored) error
	// MarkSupersededTx marks entries as superseded by another of the agent about the same
	// entity. One that comes from untrusted sources supersedes only such ones.
	MarkSupersededTx(tx txn.Tx, tenant, agent string, ids []string, by Stored) error
	// DeleteTx deletes entries. What they superseded is not superseded any more.
	DeleteTx(tx txn.Tx, tenant, agent string, ids []string) error
	DeleteAllTx(tx txn.Tx, tenant, agent string) error // the blocks too
	CountTx(tx txn.Tx, tenant, agent string) (int, error)
	// GetByOriginTx returns the id of the entry with an origin, or "".
	GetByOriginTx(tx txn.Tx, tenant, agent, origin string) (id string, err error)
	// ListKnownTx returns those of the hashes that an entry has that is not superseded.
	ListKnownTx(tx txn.Tx, tenant, agent string, hashes []string) (map[string]bool, error)
	LockTx(tx txn.Tx, tenant, agent, id string) (*Entry, error)
	// RecordAccessTx counts an access to entries.
	RecordAccessTx(tx txn.Tx, tenant, agent string, ids []string, at time.Time) error

	Get(ctx context.Context, tenant, agent, id string) (*Entry, error)
	ListByID(ctx context.Context, tenant, agent string, ids []string) (map[string]Entry, error)
	// List returns entries newest first, after an id; entity "" is any.
	List(ctx context.Context, tenant, agent, entity, after string, limit int) ([]Entry, error)
	Count(ctx context.Context, tenant, agent, entity string) (int, error)
	// ListByRun returns up to limit entries that were made of a run or in it.
	ListByRun(ctx context.Context, tenant, agent, runID string, limit int) ([]Entry, error)

	ListBlocks(ctx context.Context, tenant, agent string) ([]Block, error)
	ListBlocksTx(tx txn.Tx, tenant, agent string) ([]Block, error)
	PutBlockTx(tx txn.Tx, tenant, agent string, b Block) error
}

// Models resolves an agent's model to an endpoint.
type Models interface {
	Resolve(ctx context.Context, tenant string, spec model.Spec) (model.Target, error)
}

// Service implements the operations on memories.
type Service struct {
	Store   Store
	Search  *retrieval.Service
	Agents  *agent.Agents      // see Connect
	Files   retrieval.Files    // optional
	Places  *share.Places      // for extracting the text of documents; optional
	Texts   *doctext.Extractor // nil: PDF and DOCX are refused
	Writer  txn.Writer
	Queue   work.Queue
	Cursors *page.Cursors
	Clock   clock.Clock
	Log     *slog.Logger

	// Needed for extraction.
	Runs   run.Store
	Models Models
	Client model.Client
	// Spent, if set, is called with the usage of a model call of extraction.
	Spent func(ctx context.Context, tenant, agent string, target model.Target, u model.Usage)

	// Defaults returns how much agents remember, where they do not say.
	Defaults func() Defaults

	settings settingsCache
}

// Connect sets the agents, which are built after the service because they need
// its tools. It is called once, before the first request.
func (s *Service) Connect(agents *agent.Agents) { s.Agents = agents }
