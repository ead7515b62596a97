package memory

import (
	"cmp"
	"context"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/textindex"
)

// Routes lists the operations on memories.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary string) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/agents/{agentId}/memory" + path, ID: id, Tag: "Memory", Summary: summary,
			Scopes: []authz.Scope{"memory:write"}, Role: authz.Developer, Errors: []int{404},
		}
		if method == "GET" {
			r.Scopes, r.Role = []authz.Scope{"memory:read"}, authz.Viewer
		}
		return r
	}
	list := row("GET", "", "listMemories", "List what an agent remembers, newest first.")
	list.Errors = append(list.Errors, 422)
	create := row("POST", "", "createMemory", "Have an agent remember something.")
	create.Status = 201
	search := row("POST", "/search", "searchMemory", "Search what an agent remembers.")
	search.Scopes, search.Role = []authz.Scope{"memory:read"}, authz.Viewer
	ingest := row("POST", "/ingest", "ingestMemory", "Have an agent remember a document, cut into entries.")
	ingest.Status = 201
	change := row("PUT", "/{entryId}", "updateAgentMemoryEntry", "Change an entry; what is not sent stays.")
	change.BodyOf, change.Partial = reflect.TypeFor[Change](), true
	remove := row("DELETE", "/{entryId}", "deleteMemoryEntry", "Forget an entry, whether it is there or not.")
	remove.Status = 204
	put := row("PUT", "/core/{label}", "updateCoreMemoryBlock", "Write a core block, and have the agent use it.")
	put.Doc = "A content over max_tokens is refused. An agent has at most 10 blocks."
	return []route.Route{
		route.Action(list, s.list),
		route.Action(create, s.create),
		route.Action(search, s.search),
		route.Action(ingest, s.ingest),
		route.Action(row("POST", "/import", "importMemory", "Add exported entries that are not known yet."), s.importAll),
		route.Action(row("GET", "/{entryId}", "getMemoryEntry", "Read an entry."), s.get),
		route.Action(change, s.change),
		route.Action(remove, s.remove),
		route.Action(row("GET", "/entities/{entity}", "getMemoriesByEntity", "List what an agent remembers of somebody or something."), s.ofEntity),
		route.Action(row("GET", "/core", "listCoreMemoryBlocks", "List an agent's core blocks."), s.blocks),
		route.Action(row("GET", "/core/{label}", "getCoreMemoryBlock", "Read a core block."), s.block),
		route.Action(put, s.putBlock),
	}
}

type listIn struct {
	AgentID string `path:"agentId"`
	Limit   string `query:"limit" doc:"Entries per page, 1 to 200; 20 if it is left out."`
	TopK    string `query:"top_k" doc:"The same as limit, under another name."`
	Cursor  string `query:"cursor"`
}

type entryList struct {
	_ struct{} `json:"-" name:"MemoryList"`

	Items    []Entry `json:"items" required:"true"`
	Memories []Entry `json:"memories" required:"true" doc:"The same as items."`
	Total    int     `json:"total" required:"true" doc:"How many there are on all pages."`
	Cursor   *string `json:"cursor" required:"true"`
	HasMore  bool    `json:"has_more" required:"true"`
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*entryList, error) {
	if _, err := s.Agents.Get(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	scope := page.Scope{Tenant: who.TenantID, List: "memories", Filter: []string{in.AgentID}}
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := page.Limit(cmp.Or(in.Limit, in.TopK), pageSize, pageMost)
	entries, err := s.Store.List(ctx, who.TenantID, in.AgentID, "", after, limit+1)
	if err != nil {
		return nil, err
	}
	out := &entryList{}
	if len(entries) > limit {
		entries = entries[:limit]
		next := s.Cursors.Seal(scope, entries[limit-1].EntryID)
		out.Cursor, out.HasMore = &next, true
	}
	out.Items, out.Memories = entries, entries
	out.Total, err = s.Store.Count(ctx, who.TenantID, in.AgentID, "")
	return out, err
}

type createIn struct {
	AgentID string `path:"agentId"`
	Body    draftIn
}

// draftIn is an entry as callers send it.
type draftIn struct {
	_ struct{} `json:"-" name:"MemoryCreate"`

	Content        string        `json:"content" required:"true" minLength:"1"`
	Type           string        `json:"type" enum:"episodic,semantic,procedural,note" default:"note"`
	Tags           []string      `json:"tags" maxItems:"20"`
	RelevanceScore *float64      `json:"relevance_score,omitzero" nullable:"true" doc:"How much it matters, from 0 to 1; 0.5 if it is left out."`
	Metadata       schema.Object `json:"metadata,omitzero"`
	EntityName     string        `json:"entity_name,omitzero" doc:"Who or what it is about."`
	EntityType     string        `json:"entity_type,omitzero"`
}

func (in *draftIn) draft() Draft {
	return Draft{
		Content: in.Content, Type: in.Type, Tags: in.Tags, Relevance: in.RelevanceScore, Metadata: in.Metadata,
		EntityName: in.EntityName, EntityType: in.EntityType,
	}
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (*Entry, error) {
	d := in.Body.draft()
	if err := tooLarge(d.Content); err != nil {
		return nil, err
	}
	if wrong := d.check(""); wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	added, err := s.insert(ctx, who.TenantID, in.AgentID, []Draft{d}, insertion{answer: func(added []Stored) any { return &added[0].Entry }})
	if err != nil {
		return nil, err
	}
	return &added[0].Entry, nil
}

type searchIn struct {
	AgentID string `path:"agentId"`
	Body    struct {
		_ struct{} `json:"-" name:"MemorySearch"`

		Text     string   `json:"text,omitzero" doc:"What to look for."`
		Query    string   `json:"query,omitzero" doc:"The same, under another name."`
		Strategy string   `json:"strategy" enum:"hybrid,recency" default:"hybrid" doc:"hybrid: best first; recency: what matches, newest first."`
		Limit    *int     `json:"limit,omitzero" doc:"1 to 200; 20 if it is left out."`
		TopK     *int     `json:"top_k,omitzero" doc:"The same as limit, under another name."`
		Types    []string `json:"types" enum:"episodic,semantic,procedural,note" doc:"Only entries of these types; of all if it is left out."`
	}
}

type searchOut struct {
	_ struct{} `json:"-" name:"MemorySearchResult"`

	Memories []Entry        `json:"memories" required:"true"`
	Total    int            `json:"total" required:"true" doc:"How many are in this answer."`
	Mode     retrieval.Mode `json:"mode,omitzero" enum:"keyword,hybrid,recency" doc:"By what they were found: keyword is words alone."`
}

func (s *Service) search(ctx context.Context, who authz.Caller, in *searchIn) (*searchOut, error) {
	g, err := s.Agents.Get(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	text := cmp.Or(b.Text, b.Query)
	if text == "" {
		return nil, fault.BadFields(fault.Field{Field: "text", Message: "is required"})
	}
	limit := pageSize
	if n := cmp.Or(b.Limit, b.TopK); n != nil {
		limit = min(max(*n, 1), pageMost)
	}
	var types []string
	if len(b.Types) > 0 {
		types = b.Types
	}
	entries, mode, err := s.Find(ctx, who.TenantID, in.AgentID,
		Asked{Text: text, Strategy: textindex.Strategy(b.Strategy), Types: types, Limit: limit}, readSettings(g.Memory).halfLife)
	if err != nil {
		return nil, err
	}
	return &searchOut{Memories: entries, Total: len(entries), Mode: mode}, nil
}

type ingestIn struct {
	AgentID string `path:"agentId"`
	Body    struct {
		_ struct{} `json:"-" name:"MemoryIngest"`

		FileID    string   `json:"file_id,omitzero" format:"uuid" doc:"An uploaded file; or else content."`
		Content   string   `json:"content,omitzero"`
		Filename  string   `json:"filename,omitzero" maxLength:"255" doc:"What the document is called; .html, .csv and .md are read as what they are."`
		Tags      []string `json:"tags" maxItems:"20"`
		ChunkSize int      `json:"chunk_size" minimum:"100" maximum:"2000" default:"600" doc:"Characters of an entry, at most."`
	}
}

func (s *Service) ingest(ctx context.Context, who authz.Caller, in *ingestIn) (*Ingested, error) {
	if _, err := s.Agents.Get(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	b := &in.Body
	if (b.FileID == "") == (b.Content == "") {
		return nil, fault.BadFields(fault.Field{Field: "content", Message: "send either content or file_id"})
	}
	return s.Ingest(ctx, who.TenantID, in.AgentID, Document{
		Content: b.Content, FileID: b.FileID, Filename: b.Filename, Tags: b.Tags, ChunkSize: b.ChunkSize,
	})
}

type importIn struct {
	AgentID string `path:"agentId"`
	Body    struct {
		_ struct{} `json:"-" name:"MemoryImport"`

		Entries []draftIn `json:"entries,omitzero"`
		Agents  []struct {
			_ struct{} `json:"-" name:"MemoryImportAgent"`

			Entries []draftIn `json:"entries,omitzero"`
		} `json:"agents,omitzero" doc:"The form of an export of several agents: all their entries become this agent's."`
	}
}

func (s *Service) importAll(ctx context.Context, who authz.Caller, in *importIn) (*Imported, error) {
	if _, err := s.Agents.Get(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	var drafts []Draft
	add := func(entries []draftIn) {
		for i := range entries {
			drafts = append(drafts, entries[i].draft())
		}
	}
	add(in.Body.Entries)
	for _, a := range in.Body.Agents {
		add(a.Entries)
	}
	return s.Import(ctx, who.TenantID, in.AgentID, drafts)
}

type entryIn struct {
	AgentID string `path:"agentId"`
	EntryID string `path:"entryId"`
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *entryIn) (*Entry, error) {
	if _, err := s.Agents.Get(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, who.TenantID, in.AgentID, in.EntryID)
}

type changeIn struct {
	AgentID string `path:"agentId"`
	EntryID string `path:"entryId"`
	Body    jsontext.Value
}

func (s *Service) change(ctx context.Context, who authz.Caller, in *changeIn) (*Entry, error) {
	if _, err := s.Store.Get(ctx, who.TenantID, in.AgentID, in.EntryID); err != nil {
		return nil, err
	}
	c, err := readChange(in.Body)
	if err != nil {
		return nil, err
	}
	return s.Update(ctx, who.TenantID, in.AgentID, in.EntryID, c)
}

func (s *Service) remove(ctx context.Context, who authz.Caller, in *entryIn) (struct{}, error) {
	if _, err := s.Agents.Get(ctx, who.TenantID, in.AgentID); err != nil {
		return struct{}{}, err
	}
	_, err := s.Store.Get(ctx, who.TenantID, in.AgentID, in.EntryID)
	if fault.Is(err, fault.NotFound) {
		return struct{}{}, nil
	}
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, s.Delete(ctx, who.TenantID, in.AgentID, in.EntryID)
}

type entityIn struct {
	AgentID string `path:"agentId"`
	Entity  string `path:"entity"`
}

type entityList struct {
	_ struct{} `json:"-" name:"MemoryEntityList"`

	Items []Entry `json:"items" required:"true"`
	Total int     `json:"total" required:"true"`
}

// ofEntity lists up to pageMost entries; an entity that nobody has heard of has
// none.
func (s *Service) ofEntity(ctx context.Context, who authz.Caller, in *entityIn) (*entityList, error) {
	if _, err := s.Agents.Get(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	name := textindex.Normalize(in.Entity)
	if name == "" {
		return &entityList{}, nil
	}
	entries, err := s.Store.List(ctx, who.TenantID, in.AgentID, name, "", pageMost)
	if err != nil {
		return nil, err
	}
	total, err := s.Store.Count(ctx, who.TenantID, in.AgentID, name)
	return &entityList{Items: entries, Total: total}, err
}

type agentIn struct {
	AgentID string `path:"agentId"`
}

type blockList struct {
	_ struct{} `json:"-" name:"CoreMemoryBlockList"`

	Enabled bool    `json:"enabled" required:"true" doc:"Whether the agent has them in mind."`
	Blocks  []Block `json:"blocks" required:"true"`
	Total   int     `json:"total" required:"true"`
}

func (s *Service) blocks(ctx context.Context, who authz.Caller, in *agentIn) (*blockList, error) {
	enabled, blocks, err := s.Blocks(ctx, who.TenantID, in.AgentID)
	return &blockList{Enabled: enabled, Blocks: blocks, Total: len(blocks)}, err
}

type blockIn struct {
	AgentID string `path:"agentId"`
	Label   string `path:"label"`
}

func (s *Service) block(ctx context.Context, who authz.Caller, in *blockIn) (*Block, error) {
	return s.Block(ctx, who.TenantID, in.AgentID, in.Label)
}

type putBlockIn struct {
	AgentID string `path:"agentId"`
	Label   string `path:"label"`
	Body    struct {
		_ struct{} `json:"-" name:"CoreMemoryBlockWrite"`

		Content   *string `json:"content,omitzero" doc:"Required."`
		MaxTokens int     `json:"max_tokens" default:"1000" doc:"1 to 32000, about four characters each; clamped."`
	}
}

func (s *Service) putBlock(ctx context.Context, who authz.Caller, in *putBlockIn) (*Block, error) {
	if _, err := s.Agents.Get(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	if in.Body.Content == nil {
		return nil, fault.New(fault.Malformed, "MISSING_FIELD", "The field content is missing; it may be empty.")
	}
	return s.PutBlock(ctx, who, in.AgentID, in.Label, *in.Body.Content, min(max(in.Body.MaxTokens, 1), maxBlockTokens))
}
