package knowledge

import (
	"context"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// Routes returns the operations on knowledge bases.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary string) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/knowledge-bases" + path, ID: id, Tag: "Knowledge", Summary: summary,
			Scopes: []authz.Scope{"memory:write"}, Role: authz.Developer,
		}
		if method == "GET" {
			r.Scopes, r.Role = []authz.Scope{"memory:read"}, authz.Viewer
		}
		if path != "" {
			r.Errors = []int{404}
		}
		return r
	}
	const one, documents = "/{knowledgeBaseId}", "/{knowledgeBaseId}/documents"
	create := row("POST", "", "createKnowledgeBase", "Create a knowledge base")
	create.Status = 201
	remove := row("DELETE", one, "deleteKnowledgeBase", "Delete a knowledge base with its documents")
	remove.Status, remove.Destroys = 204, true
	get := row("GET", one, "getKnowledgeBase", "Get a knowledge base")
	update := row("PUT", one, "updateKnowledgeBase", "Update the name, description or synonyms of a knowledge base")
	get.Conditional, update.Conditional, remove.Conditional = true, true, true
	list := row("GET", documents, "listKbDocuments", "List the documents of a knowledge base, newest first")
	list.Errors = append(list.Errors, 422)
	add := row("POST", documents, "ingestKbDocument", "Add a document to a knowledge base")
	add.Status = 201
	add.Doc = "Accepts text, Markdown, HTML and CSV. " +
		"The document can be searched at once by its words, and by its meaning once it is embedded."
	removeDocument := row("DELETE", documents+"/{documentId}", "deleteKbDocument", "Delete a document of a knowledge base")
	removeDocument.Status, removeDocument.Destroys = 204, true
	search := row("POST", one+"/search", "searchKnowledgeBase", "Search a knowledge base")
	search.Scopes, search.Role = []authz.Scope{"memory:read"}, authz.Viewer
	reindex := row("POST", one+"/reindex", "reindexKnowledgeBase", "Embed the chunks that the current model has not embedded")
	reindex.Errors = append(reindex.Errors, 501)
	return []route.Route{
		route.Action(row("GET", "", "listKnowledgeBases", "List knowledge bases, newest first"), s.list),
		route.Action(create, s.create),
		route.Action(get, s.get),
		route.Action(update, s.update),
		route.Action(remove, s.remove),
		route.Action(list, s.listDocuments),
		route.Action(add, s.addDocument),
		route.Action(removeDocument, s.removeDocument),
		route.Action(search, s.search),
		route.Action(reindex, s.reindex),
	}
}

type baseList struct {
	_ struct{} `json:"-" name:"KnowledgeBaseList"`

	Items          []Base `json:"items" required:"true"`
	KnowledgeBases []Base `json:"knowledge_bases" required:"true" deprecated:"true" doc:"Same as items. Deprecated."`
	Total          int    `json:"total" required:"true"`
}

func (s *Service) list(ctx context.Context, who authz.Caller, _ *struct{}) (*baseList, error) {
	all, err := s.all(ctx, who.TenantID)
	return &baseList{Items: all, KnowledgeBases: all, Total: len(all)}, err
}

type createIn struct {
	Body struct {
		_ struct{} `json:"-" name:"KnowledgeBaseCreate"`

		Name           string `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Name of the knowledge base, as people see it."`
		Description    string `json:"description" maxLength:"5000" doc:"What the knowledge base holds."`
		EmbeddingModel string `json:"embedding_model" maxLength:"200" doc:"Informational; the deployment's embedding model is used."`
		ChunkSize      int    `json:"chunk_size" minimum:"64" maximum:"65536" default:"1000" doc:"Maximum characters of a chunk."`
		ChunkOverlap   *int   `json:"chunk_overlap,omitzero" minimum:"0" doc:"Characters that a chunk repeats of the previous one, at most half of chunk_size. Default: a fifth."`

		Rerank bool `json:"rerank,omitzero" doc:"Has the deployment's rerank model order what a search found. Where it does not answer, the order is that of the search, and warnings say so."`

		Synonyms []string `json:"synonyms,omitzero" maxItems:"100" doc:"Up to 100 groups of words that stand for each other when the knowledge base is searched, such as PTO, paid time off. The 2 to 10 words of a group are separated by commas."`
	}
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (*Base, error) {
	b := s.bases.Blank()
	body := &in.Body
	b.Name, b.Description, b.EmbeddingModel, b.ChunkSize = body.Name, body.Description, body.EmbeddingModel, body.ChunkSize
	b.Synonyms, b.Rerank = body.Synonyms, body.Rerank
	if b.ChunkOverlap = b.ChunkSize / 5; body.ChunkOverlap != nil {
		b.ChunkOverlap = *body.ChunkOverlap
	}
	answer := func() any {
		shown := s.alone(b)
		return &shown
	}
	if err := s.bases.Create(txn.WithAnswer(ctx, answer), who, b); err != nil {
		return nil, err
	}
	return answer().(*Base), nil
}

type baseIn struct {
	ID string `path:"knowledgeBaseId"`
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *baseIn) (*Base, error) {
	b, err := s.bases.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return nil, err
	}
	shown, err := s.shown(ctx, b)
	return &shown, err
}

type updateIn struct {
	ID   string `path:"knowledgeBaseId"`
	Body struct {
		_ struct{} `json:"-" name:"KnowledgeBaseUpdate"`

		Name        *string `json:"name,omitzero" minLength:"1" maxLength:"200" doc:"Name of the knowledge base, as people see it."`
		Description *string `json:"description,omitzero" maxLength:"5000" doc:"What the knowledge base holds."`

		Rerank *bool `json:"rerank,omitzero" doc:"Has the deployment's rerank model order what a search found."`

		Synonyms *[]string `json:"synonyms,omitzero" maxItems:"100" doc:"Up to 100 groups of words that stand for each other when the knowledge base is searched, such as PTO, paid time off. The 2 to 10 words of a group are separated by commas. Replaces all; an empty list removes them."`
	}
}

// match checks the request's If-Match against a base.
func match(tx txn.Tx, b *base) error {
	return route.Match(tx.Context(), &Base{
		Name: b.Name, Description: b.Description, Synonyms: append([]string{}, b.Synonyms...), Rerank: b.Rerank,
	})
}

func (s *Service) update(ctx context.Context, who authz.Caller, in *updateIn) (*Base, error) {
	b, err := s.bases.Update(ctx, who, in.ID, func(tx txn.Tx, b *base) error {
		if err := match(tx, b); err != nil {
			return err
		}
		if in.Body.Name != nil {
			b.Name = *in.Body.Name
		}
		if in.Body.Description != nil {
			b.Description = *in.Body.Description
		}
		if in.Body.Rerank != nil {
			b.Rerank = *in.Body.Rerank
		}
		if in.Body.Synonyms != nil {
			b.Synonyms = *in.Body.Synonyms
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	shown, err := s.shown(ctx, b)
	return &shown, err
}

func (s *Service) remove(ctx context.Context, who authz.Caller, in *baseIn) (struct{}, error) {
	return struct{}{}, s.Delete(ctx, who, in.ID)
}

type documentsIn struct {
	ID     string `path:"knowledgeBaseId"`
	Limit  string `query:"limit" doc:"Documents per page, 1 to 500. Default: all."`
	Cursor string `query:"cursor"`
}

// documentList has paging fields only if the caller requested a page.
type documentList struct {
	_ struct{} `json:"-" name:"KnowledgeDocumentList"`

	Documents []Document `json:"documents" required:"true"`
	Total     int        `json:"total" required:"true" doc:"Number of documents on all pages."`
	HasMore   *bool      `json:"has_more,omitzero"`
	Cursor    string     `json:"cursor,omitzero"`
}

func (s *Service) listDocuments(ctx context.Context, who authz.Caller, in *documentsIn) (*documentList, error) {
	b, err := s.bases.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return nil, err
	}
	out := &documentList{Total: b.DocumentCount}
	if in.Limit == "" && in.Cursor == "" {
		out.Documents, err = s.Documents(ctx, who.TenantID, in.ID, "", 0)
		return out, err
	}
	scope := page.ScopeOf(who.TenantID, "kb_documents", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := page.Limit(in.Limit, documentsMost, documentsMost)
	docs, err := s.Documents(ctx, who.TenantID, in.ID, after, limit+1)
	if err != nil {
		return nil, err
	}
	more := len(docs) > limit
	if out.HasMore = &more; more {
		docs = docs[:limit]
		out.Cursor = s.Cursors.Seal(scope, docs[limit-1].ID)
	}
	out.Documents = docs
	return out, nil
}

type addIn struct {
	ID   string `path:"knowledgeBaseId"`
	Body struct {
		_ struct{} `json:"-" name:"KnowledgeDocumentCreate"`

		Content  *string `json:"content,omitzero" doc:"The text. Exactly one of content and file_id is required."`
		FileID   *string `json:"file_id,omitzero" format:"uuid" doc:"An uploaded file."`
		Filename string  `json:"filename,omitzero" maxLength:"255" doc:"Name of the document. The extensions .html, .csv and .md determine its format."`
	}
}

func (s *Service) addDocument(ctx context.Context, who authz.Caller, in *addIn) (*Added, error) {
	return s.Add(ctx, who, in.ID, Upload{Content: in.Body.Content, FileID: in.Body.FileID, Filename: in.Body.Filename})
}

type documentIn struct {
	ID         string `path:"knowledgeBaseId"`
	DocumentID string `path:"documentId"`
}

func (s *Service) removeDocument(ctx context.Context, who authz.Caller, in *documentIn) (struct{}, error) {
	return struct{}{}, s.Remove(ctx, who, in.ID, in.DocumentID)
}

type searchIn struct {
	ID   string `path:"knowledgeBaseId"`
	Body struct {
		_ struct{} `json:"-" name:"KnowledgeSearch"`

		Query string `json:"query" required:"true" minLength:"1" doc:"What to search for."`
		Limit int    `json:"limit" default:"10" doc:"1 to 100. Default: 10."`

		MinScore *float64 `json:"min_score,omitzero" minimum:"0" maximum:"1" doc:"Results have at least this score; 0: all that matches. Default: 0.2 by words, 0.3 by meaning."`

		Neighbours int `json:"neighbours,omitzero" minimum:"0" maximum:"3" doc:"How many chunks before and after each result are returned with it. Default: 0."`
	}
}

func (s *Service) search(ctx context.Context, who authz.Caller, in *searchIn) (*Answer, error) {
	if strings.TrimSpace(in.Body.Query) == "" {
		return nil, fault.BadFields(fault.Field{Field: "query", Message: "it is blank"})
	}
	return s.Find(ctx, who.TenantID, in.ID, Question{
		Text: in.Body.Query, Limit: min(max(in.Body.Limit, 1), searchMost), MinScore: in.Body.MinScore, Neighbours: in.Body.Neighbours,
	})
}

func (s *Service) reindex(ctx context.Context, who authz.Caller, in *baseIn) (*Reindexed, error) {
	return s.Reindex(ctx, who.TenantID, in.ID)
}
