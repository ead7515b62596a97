// Package knowledge implements knowledge bases: documents, split into chunks, that
// agents and members search. A base is a resource; its chunks are a collection of
// package retrieval with the base's id.
package knowledge

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/share"
	"agentd/internal/base/txn"
	"agentd/internal/content/doctext"
	"agentd/internal/content/retrieval"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
)

// Limits, which keep a base searchable.
const (
	maxText        = 5_000_000 // characters of a document
	maxChunks      = 5_000     // of a document
	maxBaseChunks  = 200_000
	previewLength  = 300
	attachedShown  = 50
	documentsMost  = 500
	searchMost     = 100
	defaultChunk   = 1_000 // characters, as the create operation's default
	toolSearch     = 5
	statusReady    = "ready"
	completionTodo = "scheduled"
)

// base is a knowledge base as it is stored.
type base struct {
	resource.Meta `json:"-"`

	Name           string `json:"name"`
	Description    string `json:"description"`
	EmbeddingModel string `json:"embedding_model"`
	ChunkSize      int    `json:"chunk_size"`
	ChunkOverlap   int    `json:"chunk_overlap"`
	// Synonyms are groups of words that stand for each other in searches, separated by
	// commas.
	Synonyms      []string `json:"synonyms,omitzero"`
	Rerank        bool     `json:"rerank,omitzero"`
	DocumentCount int      `json:"document_count" readOnly:"true"`
	TotalChunks   int      `json:"total_chunks" readOnly:"true"`
	// Metadata belongs to those who know the base as a vector store.
	Metadata map[string]string `json:"metadata,omitzero"`
}

var kind = resource.Kind[base]{
	Name: "knowledge_base", Path: "/api/v1/knowledge-bases", IDField: "id", Tag: "Knowledge",
	Validate: func(b *base) []fault.Field {
		var wrong []fault.Field
		add := func(field, message string) { wrong = append(wrong, fault.Field{Field: field, Message: message}) }
		if strings.TrimSpace(b.Name) == "" {
			add("name", "it is blank")
		}
		if b.ChunkOverlap > b.ChunkSize/2 {
			add("chunk_overlap", "it is more than half of chunk_size")
		}
		return append(wrong, checkSynonyms(b.Synonyms)...)
	},
	Label: func(b *base) string { return b.Name },
}

// Base is a knowledge base as the API shows it.
type Base struct {
	_ struct{} `json:"-" name:"KnowledgeBase"`

	ID                 string          `json:"id" format:"uuid" required:"true"`
	TenantID           string          `json:"tenant_id" required:"true"`
	Name               string          `json:"name" required:"true"`
	Description        string          `json:"description"`
	EmbeddingModel     string          `json:"embedding_model,omitzero" doc:"As given at creation, otherwise the deployment's, which is the one that is used. Absent where there is none."`
	ChunkSize          int             `json:"chunk_size"`
	ChunkOverlap       int             `json:"chunk_overlap"`
	Synonyms           []string        `json:"synonyms" doc:"Groups of words that stand for each other when the knowledge base is searched."`
	Rerank             bool            `json:"rerank" doc:"What a search found is ordered by the deployment's rerank model."`
	DocumentCount      int             `json:"document_count"`
	TotalChunks        int             `json:"total_chunks"`
	Status             string          `json:"status" enum:"ready"`
	AttachedAgents     []AttachedAgent `json:"attached_agents" doc:"Agents that search it, up to 50."`
	AttachedAgentCount int             `json:"attached_agent_count"`
	CreatedAt          time.Time       `json:"created_at"`
	UpdatedAt          time.Time       `json:"updated_at"`
}

// Editable implements route.Editable.
func (b *Base) Editable() any {
	return struct {
		Name, Description string
		Synonyms          []string
		Rerank            bool
	}{b.Name, b.Description, b.Synonyms, b.Rerank}
}

// AttachedAgent is an agent that searches a base.
type AttachedAgent struct {
	_ struct{} `json:"-" name:"KnowledgeBaseAgent"`

	AgentID string `json:"agent_id" format:"uuid" required:"true"`
	Name    string `json:"name"`
}

// Document is a document of a base.
type Document struct {
	_ struct{} `json:"-" name:"KnowledgeDocument"`

	ID                  string       `json:"id" format:"uuid" required:"true"`
	KBID                string       `json:"kb_id" format:"uuid" required:"true"`
	TenantID            string       `json:"tenant_id" required:"true"`
	Name                string       `json:"name" required:"true"`
	Type                doctext.Type `json:"type" enum:"pdf,markdown,csv,html,plain,docx,image" required:"true"`
	SizeBytes           int64        `json:"size_bytes" required:"true"`
	ChunkCount          int          `json:"chunk_count" required:"true"`
	Status              string       `json:"status" enum:"ready" required:"true"`
	ChunkPreview        *string      `json:"chunk_preview" required:"true"`
	EmbeddingStatus     string       `json:"embedding_status" enum:"embedded,partial,keyword_only" required:"true"`
	EmbeddingCompletion string       `json:"embedding_completion,omitzero" enum:"in_progress" doc:"Present while chunks wait to be embedded; until then they are found by their words."`
	CreatedAt           time.Time    `json:"created_at" required:"true"`
	UpdatedAt           time.Time    `json:"updated_at" required:"true"`
}

// Store is the port to the table of documents. Every call takes the tenant.
type Store interface {
	CreateTx(tx txn.Tx, d Document) error
	// DeleteTx deletes a document and returns it. Errors: fault.NotFound.
	DeleteTx(tx txn.Tx, tenant, base, id string) (Document, error)
	DeleteAllTx(tx txn.Tx, tenant, base string) error
	// Get returns a document. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, base, id string) (Document, error)
	// CountBytes returns the bytes of the documents of bases, by base; those without
	// documents are left out.
	CountBytes(ctx context.Context, tenant string, bases []string) (map[string]int64, error)
	// List returns documents newest first, after an id; limit 0 means all.
	List(ctx context.Context, tenant, base, after string, limit int) ([]Document, error)
	ListNames(ctx context.Context, tenant, base string, ids []string) (map[string]string, error)
}

// Service implements the operations on knowledge bases.
type Service struct {
	Store    Store
	Search   *retrieval.Service
	Agents   *agent.Agents      // see Connect
	Files    retrieval.Files    // optional
	Places   *share.Places      // for extracting the text of documents; optional
	Texts    *doctext.Extractor // nil: PDF and DOCX are refused
	Writer   txn.Writer
	Cursors  *page.Cursors
	Clock    clock.Clock
	Log      *slog.Logger
	Reranker Reranker   // nil: none is configured
	Quota    quota.Gate // optional; limits the number of bases

	audit audit.Recorder
	bases *resource.Store[base]
}

// New returns a service with a store for the bases.
func New(deps resource.Deps, s Service) *Service {
	limited := kind
	made := &s
	limited.Before = func(e *resource.Edit[base]) error { return quota.Creation[base](made.Quota, quota.KnowledgeBases)(e) }
	made.bases, made.audit = resource.NewStore(limited, deps), deps.Audit
	return made
}

// Connect sets the agents, which are built after the service because they need
// its tools. It is called once, before the first request.
func (s *Service) Connect(agents *agent.Agents) { s.Agents = agents }

// CheckTx returns fault.NotFound if the tenant does not have the base, and
// prevents its deletion until the transaction ends.
func (s *Service) CheckTx(tx txn.Tx, tenant, id string) error {
	_, err := s.bases.GetTx(tx, tenant, id)
	return err
}

// shown returns a base with the agents that search it.
func (s *Service) shown(ctx context.Context, b *base) (Base, error) {
	out := s.alone(b)
	err := everyAgent(b.ID, func(f resource.Find) ([]*agent.Agent, error) {
		return s.Agents.Store().List(ctx, b.TenantID, f)
	}, func(g *agent.Agent) {
		if out.AttachedAgentCount++; len(out.AttachedAgents) < attachedShown {
			out.AttachedAgents = append(out.AttachedAgents, AttachedAgent{AgentID: g.ID, Name: g.Name})
		}
	})
	return out, err
}

// everyAgent visits the agents that search a base: those that search it alone, and
// those of several bases that search it too.
func everyAgent(base string, list func(resource.Find) ([]*agent.Agent, error), each func(*agent.Agent)) error {
	for _, indexed := range []string{base, agent.SeveralBases} {
		err := everyPage(func(f resource.Find) ([]*agent.Agent, error) {
			f.Where = map[string]string{agent.KnowledgeBaseIndex: indexed}
			return list(f)
		}, func(g *agent.Agent) (string, error) {
			if slices.Contains(g.KnowledgeBases(), base) {
				each(g)
			}
			return g.ID, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// alone returns a base that no agent uses, as the API shows it.
func (s *Service) alone(b *base) Base {
	return Base{
		ID: b.ID, TenantID: b.TenantID, Name: b.Name, Description: b.Description,
		EmbeddingModel: cmp.Or(b.EmbeddingModel, s.Search.Model()),
		ChunkSize:      b.ChunkSize, ChunkOverlap: b.ChunkOverlap, Synonyms: append([]string{}, b.Synonyms...), Rerank: b.Rerank,
		DocumentCount: b.DocumentCount, TotalChunks: b.TotalChunks,
		Status: statusReady, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt,
	}
}

// everyPage visits a whole list; each returns the id of its argument.
func everyPage[T any](list func(resource.Find) ([]*T, error), each func(*T) (string, error)) error {
	find := resource.Find{Limit: 200}
	for {
		some, err := list(find)
		if err != nil {
			return err
		}
		for _, t := range some {
			if find.After, err = each(t); err != nil {
				return err
			}
		}
		if len(some) < find.Limit {
			return nil
		}
	}
}

// all returns every base of a tenant, newest first.
func (s *Service) all(ctx context.Context, tenant string) ([]Base, error) {
	bases := []Base{}
	err := everyPage(func(f resource.Find) ([]*base, error) {
		return s.bases.List(ctx, tenant, f)
	}, func(b *base) (string, error) {
		shown, err := s.shown(ctx, b)
		bases = append(bases, shown)
		return b.ID, err
	})
	return bases, err
}

// Delete deletes a base with its documents and removes it from its agents.
func (s *Service) Delete(ctx context.Context, who authz.Caller, id string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		b, err := s.bases.GetTx(tx, who.TenantID, id)
		if err != nil {
			return err
		}
		if err := match(tx, b); err != nil {
			return err
		}
		var attached []string
		err = everyAgent(id, func(f resource.Find) ([]*agent.Agent, error) {
			return s.Agents.Store().ListTx(tx, who.TenantID, f)
		}, func(g *agent.Agent) { attached = append(attached, g.ID) })
		if err != nil {
			return err
		}
		for _, agentID := range slices.Compact(attached) {
			_, err := s.Agents.Store().UpdateTx(tx, who, agentID, func(g *agent.Agent) error {
				if g.KnowledgeBaseID != nil && *g.KnowledgeBaseID == id {
					g.KnowledgeBaseID = nil
				}
				g.KnowledgeBaseIDs = slices.DeleteFunc(g.KnowledgeBaseIDs, func(base string) bool { return base == id })
				return nil
			})
			if err != nil {
				return err
			}
		}
		if err := s.bases.DeleteTx(tx, who, id); err != nil {
			return err
		}
		if err := s.Store.DeleteAllTx(tx, who.TenantID, id); err != nil {
			return err
		}
		return s.Search.Drop(tx, who.TenantID, id)
	})
}
