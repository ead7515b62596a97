package memory

import (
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/content/doctext"
	"agentd/internal/kernel/model"
)

// Limits of core blocks.
const (
	maxBlocks       = 10
	maxBlockTokens  = 32_000
	declaredTokens  = 500 // default max_tokens of a declared block
	enabledCoreText = "Core memory enabled"
)

var label = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// Block is a short text that is always part of the agent's prompt.
type Block struct {
	_ struct{} `json:"-" name:"CoreMemoryBlock"`

	BlockID   string     `json:"block_id" format:"uuid" required:"true"`
	AgentID   string     `json:"agent_id" required:"true"`
	TenantID  string     `json:"tenant_id" required:"true"`
	Label     string     `json:"label" required:"true"`
	Content   string     `json:"content" required:"true"`
	MaxTokens int        `json:"max_tokens" required:"true"`
	UpdatedAt *time.Time `json:"updated_at" required:"true" doc:"Null for a block that was declared and not yet written."`
}

// Editable implements route.Editable.
func (b *Block) Editable() any {
	if b == nil {
		return nil
	}
	return struct {
		Content   string
		MaxTokens int
	}{b.Content, b.MaxTokens}
}

// core is the decoded part of an agent's core_memory field.
type core struct {
	enabled bool
	blocks  []Block // as declared
}

func readCore(raw []byte) core {
	members := object(raw)
	var c core
	var blocks []jsontext.Value
	read(members, "enabled", &c.enabled)
	read(members, "blocks", &blocks)
	for _, raw := range blocks {
		block := object(raw)
		b := Block{MaxTokens: declaredTokens}
		read(block, "label", &b.Label)
		if !read(block, "content", &b.Content) {
			read(block, "initial_content", &b.Content)
		}
		read(block, "max_tokens", &b.MaxTokens)
		b.MaxTokens = min(max(b.MaxTokens, 1), maxBlockTokens)
		if label.MatchString(b.Label) && !c.has(b.Label) {
			c.blocks = append(c.blocks, b)
		}
	}
	return c
}

func (c core) has(name string) bool {
	return slices.ContainsFunc(c.blocks, func(b Block) bool { return b.Label == name })
}

// blockID returns the same id for a block whether it is stored yet or not.
func blockID(agentID, label string) string {
	sum := sha256.Sum256([]byte(agentID + "/" + label))
	return ident.Derived([16]byte(sum[:16]))
}

// join returns the stored blocks, and those that are only declared, ordered by
// label.
func (c core) join(tenant, agentID string, stored []Block) []Block {
	all := slices.Clone(stored)
	for _, b := range c.blocks {
		if !slices.ContainsFunc(stored, func(s Block) bool { return s.Label == b.Label }) {
			all = append(all, b)
		}
	}
	for i := range all {
		all[i].BlockID, all[i].AgentID, all[i].TenantID = blockID(agentID, all[i].Label), agentID, tenant
	}
	slices.SortFunc(all, func(a, b Block) int {
		if a.Label < b.Label {
			return -1
		}
		return 1
	})
	return all
}

// Blocks returns an agent's core blocks, and whether core memory is enabled.
func (s *Service) Blocks(ctx context.Context, tenant, agentID string) (enabled bool, blocks []Block, err error) {
	g, err := s.Agents.Get(ctx, tenant, agentID)
	if err != nil {
		return false, nil, err
	}
	stored, err := s.Store.ListBlocks(ctx, tenant, agentID)
	c := readCore(g.CoreMemory)
	return c.enabled, c.join(tenant, agentID, stored), err
}

// Block returns a core block. Errors: fault.NotFound.
func (s *Service) Block(ctx context.Context, tenant, agentID, name string) (*Block, error) {
	_, blocks, err := s.Blocks(ctx, tenant, agentID)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		if b.Label == name {
			return &b, nil
		}
	}
	return nil, fault.NewNotFound("core memory block")
}

// PutBlock replaces a core block and makes the agent use it: core_memory is enabled
// and declares the label. Content over max_tokens is refused, not truncated.
func (s *Service) PutBlock(ctx context.Context, who authz.Caller, agentID, name, content string, maxTokens int) (*Block, error) {
	var wrong []fault.Field
	if !label.MatchString(name) {
		wrong = append(wrong, fault.Field{Field: "label", Message: "a label has 1 to 64 letters, digits and . _ -"})
	}
	content = doctext.Clean(content)
	if n := model.EstimateTokens(content); n > maxTokens {
		wrong = append(wrong, fault.Field{Field: "content", Message: fmt.Sprintf("it has about %d tokens, and max_tokens is %d", n, maxTokens)})
	}
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	now := s.Clock.Now()
	b := Block{
		BlockID: blockID(agentID, name), AgentID: agentID, TenantID: who.TenantID,
		Label: name, Content: content, MaxTokens: maxTokens, UpdatedAt: &now,
	}
	return &b, s.Writer.Write(ctx, func(tx txn.Tx) error {
		g, err := s.Agents.Store().GetTx(tx, who.TenantID, agentID)
		if err != nil {
			return err
		}
		stored, err := s.Store.ListBlocksTx(tx, who.TenantID, agentID)
		if err != nil {
			return err
		}
		c := readCore(g.CoreMemory)
		there := c.join(who.TenantID, agentID, stored)
		var current *Block
		if i := slices.IndexFunc(there, func(t Block) bool { return t.Label == name }); i >= 0 {
			current = &there[i]
		}
		if err := route.Match(tx.Context(), current); err != nil {
			return err
		}
		if len(there) >= maxBlocks && current == nil {
			return fault.New(fault.Invalid, "COUNT_LIMIT_REACHED", "The agent has %d core memory blocks, which is the limit.", maxBlocks)
		}
		if err := s.Store.PutBlockTx(tx, who.TenantID, agentID, b); err != nil {
			return err
		}
		if c.enabled && c.has(name) {
			return nil
		}
		_, err = s.Agents.Store().UpdateTx(tx, who, agentID, func(g *agent.Agent) error {
			g.Changelog = enabledCoreText
			g.CoreMemory, err = declare(g.CoreMemory, name, maxTokens)
			return err
		})
		return err
	})
}

// declare adds a label to a core_memory field and enables it.
func declare(raw []byte, name string, maxTokens int) ([]byte, error) {
	members := object(raw)
	if members == nil {
		members = map[string]jsontext.Value{}
	}
	if !readCore(raw).has(name) {
		var blocks []jsontext.Value
		read(members, "blocks", &blocks)
		block, err := json.Marshal(map[string]any{"label": name, "max_tokens": maxTokens}, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		if members["blocks"], err = json.Marshal(append(blocks, block)); err != nil {
			return nil, err
		}
	}
	members["enabled"] = jsontext.Value("true")
	return json.Marshal(members, json.Deterministic(true))
}
