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
	"agentd/internal/base/tokenize"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/textindex"
)

// Routes returns the operations on memories.
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
	list := row("GET", "", "listMemories", "List an agent's memory entries, newest first")
	list.Errors = append(list.Errors, 422)
	create := row("POST", "", "createMemory", "Create a memory entry")
	create.Status = 201
	search := row("POST", "/search", "searchMemory", "Search an agent's memory")
	search.Scopes, search.Role = []authz.Scope{"memory:read"}, authz.Viewer
	ingest := row("POST", "/ingest", "ingestMemory", "Ingest a document as memory entries")
	ingest.Status = 201
	change := row("PUT", "/{entryId}", "updateAgentMemoryEntry", "Update a memory entry")
	change.BodyOf, change.Partial = reflect.TypeFor[Change](), true
	remove := row("DELETE", "/{entryId}", "deleteMemoryEntry", "Delete a memory entry")
	remove.Status, remove.Destroys = 204, true
	put := row("PUT", "/core/{label}", "updateCoreMemoryBlock", "Write a core memory block")
	put.Doc = "Enables the block for the agent. Content over max_tokens is refused. An agent has at most 10 blocks."
	get := row("GET", "/{entryId}", "getMemoryEntry", "Read an entry.")
	block := row("GET", "/core/{label}", "getCoreMemoryBlock", "Get a core memory block")
	for _, r := range []*route.Row{&get, &change, &remove, &block, &put} {
		r.Conditional = true
	}
	return []route.Route{
		route.Action(list, s.list),
		route.Action(create, s.create),
		route.Action(search, s.search),
		route.Action(ingest, s.ingest),
		route.Action(row("POST", "/import", "importMemory", "Import memory entries"), s.importAll),
		route.Action(get, s.get),
		route.Action(change, s.change),
		route.Action(remove, s.remove),
		route.Action(row("GET", "/entities/{entity}", "getMemoriesByEntity", "List memory entries about an entity"), s.ofEntity),
		route.Action(row("GET", "/core", "listCoreMemoryBlocks", "List core memory blocks"), s.blocks),
		route.Action(block, s.block),
		route.Action(put, s.putBlock),
	}
}

type listIn struct {
	AgentID string `path:"agentId"`
	Limit   string `query:"limit" doc:"Entries per page, 1 to 200. Default: 20."`
	TopK    string `query:"top_k" page:"-" doc:"Alias of limit."`
	Cursor  string `query:"cursor"`
}

type entryList struct {
	_ struct{} `json:"-" name:"MemoryList"`

	Items    []Entry `json:"items" required:"true"`
	Memories []Entry `json:"memories" required:"true" doc:"Same as items."`
	Total    int     `json:"total" required:"true" doc:"Number of entries on all pages."`
	Cursor   *string `json:"cursor" required:"true"`
	HasMore  bool    `json:"has_more" required:"true"`
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*entryList, error) {
	if _, err := s.Agents.Get(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	scope := page.ScopeOf(who.TenantID, "memories", in)
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

// draftIn is an entry in a request.
type draftIn struct {
	_ struct{} `json:"-" name:"MemoryCreate"`

	Content        string        `json:"content" required:"true" minLength:"1" doc:"What is remembered."`
	Type           string        `json:"type" enum:"episodic,semantic,procedural,note" default:"note" doc:"episodic: an event; semantic: a fact; procedural: how something is done; note: anything else."`
	Tags           []string      `json:"tags" maxItems:"20" doc:"Words by which entries are filtered."`
	RelevanceScore *float64      `json:"relevance_score,omitzero" nullable:"true" doc:"Importance, from 0 to 1. Default: 0.5."`
	Metadata       schema.Object `json:"metadata,omitzero" doc:"Data of yours, kept with the entry."`
	EntityName     string        `json:"entity_name,omitzero" doc:"The person or thing that the entry is about."`
	EntityType     string        `json:"entity_type,omitzero" doc:"What entity_name is, such as person."`
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

		Text     string   `json:"text,omitzero" doc:"What to search for."`
		Query    string   `json:"query,omitzero" doc:"Alias of text."`
		Strategy string   `json:"strategy" enum:"hybrid,recency" default:"hybrid" doc:"hybrid: best first; recency: newest first."`
		Limit    *int     `json:"limit,omitzero" doc:"1 to 200. Default: 20."`
		TopK     *int     `json:"top_k,omitzero" doc:"Alias of limit."`
		Types    []string `json:"types" enum:"episodic,semantic,procedural,note" doc:"Only entries of these types. Default: all."`
		MinScore *float64 `json:"min_score,omitzero" minimum:"0" maximum:"1" doc:"Entries match at least as well; 0: all that match. Default: 0.2 by words, 0.3 by meaning."`
	}
}

type searchOut struct {
	_ struct{} `json:"-" name:"MemorySearchResult"`

	Memories []Entry        `json:"memories" required:"true"`
	Total    int            `json:"total" required:"true" doc:"Number of entries in this answer."`
	Mode     retrieval.Mode `json:"mode,omitzero" enum:"keyword,hybrid,recency" doc:"How entries were found: keyword is words only."`
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
	asked := Asked{Text: text, Strategy: textindex.Strategy(b.Strategy), Types: types, Limit: limit, MinScore: b.MinScore}
	entries, mode, err := s.Find(ctx, who.TenantID, in.AgentID, asked, s.read(g.Memory).halfLife)
	if err != nil {
		return nil, err
	}
	return &searchOut{Memories: entries, Total: len(entries), Mode: mode}, nil
}

type ingestIn struct {
	AgentID string `path:"agentId"`
	Body    struct {
		_ struct{} `json:"-" name:"MemoryIngest"`

		FileID    string   `json:"file_id,omitzero" format:"uuid" doc:"An uploaded file. Exactly one of content and file_id is required."`
		Content   string   `json:"content,omitzero" doc:"The text. Exactly one of content and file_id is required."`
		Filename  string   `json:"filename,omitzero" maxLength:"255" doc:"Name of the document. The extensions .html, .csv and .md determine its format."`
		Tags      []string `json:"tags" maxItems:"20" doc:"Tags of all entries that are made of it."`
		ChunkSize int      `json:"chunk_size" minimum:"100" maximum:"2000" default:"600" doc:"Maximum characters of an entry."`
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

		Entries []draftIn `json:"entries,omitzero" doc:"Entries to add."`
		Agents  []struct {
			_ struct{} `json:"-" name:"MemoryImportAgent"`

			Entries []draftIn `json:"entries,omitzero" doc:"Entries to add."`
		} `json:"agents,omitzero" doc:"Format of an export of several agents: all their entries are added to this agent."`
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

// ofEntity lists up to pageMost entries; an unknown entity has none.
func (s *Service) ofEntity(ctx context.Context, who authz.Caller, in *entityIn) (*entityList, error) {
	if _, err := s.Agents.Get(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	name := tokenize.Normalize(in.Entity)
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

	Enabled bool    `json:"enabled" required:"true" doc:"Whether core memory is enabled for the agent."`
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
		MaxTokens int     `json:"max_tokens" default:"1000" doc:"1 to 32000, about four characters each; clamped to that range."`
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
