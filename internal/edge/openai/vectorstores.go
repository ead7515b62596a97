package openai

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/content/knowledge"
	"agentd/internal/edge/httpapi"
)

// VectorStores serves OpenAI's vector stores, which are the platform's knowledge bases.
type VectorStores struct{ Bases *knowledge.Service }

// VectorStore is a knowledge base in OpenAI's shape.
type VectorStore struct {
	ID          string            `json:"id" required:"true" format:"uuid"`
	Object      string            `json:"object" required:"true" enum:"vector_store"`
	CreatedAt   int64             `json:"created_at" required:"true" doc:"Unix seconds."`
	Name        string            `json:"name" required:"true"`
	Description string            `json:"description"`
	UsageBytes  int64             `json:"usage_bytes" required:"true"`
	FileCounts  FileCounts        `json:"file_counts" required:"true"`
	Status      string            `json:"status" required:"true" enum:"completed" doc:"Always completed: a file can be searched once it was added."`
	Metadata    map[string]string `json:"metadata" required:"true"`
}

// FileCounts counts the files of a vector store.
type FileCounts struct {
	InProgress int `json:"in_progress" required:"true"`
	Completed  int `json:"completed" required:"true"`
	Failed     int `json:"failed" required:"true"`
	Cancelled  int `json:"cancelled" required:"true"`
	Total      int `json:"total" required:"true"`
}

func vectorStore(s *knowledge.VectorStore) *VectorStore {
	metadata := s.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return &VectorStore{
		ID: s.ID, Object: "vector_store", CreatedAt: s.CreatedAt.Unix(), Name: s.Name, Description: s.Description, UsageBytes: s.Bytes,
		FileCounts: FileCounts{Completed: s.DocumentCount, Total: s.DocumentCount}, Status: stateCompleted, Metadata: metadata,
	}
}

// StoreEdit is what a client says of a vector store.
type StoreEdit struct {
	Name        *string           `json:"name,omitzero" nullable:"true" maxLength:"200" doc:"Name of the vector store, as people see it."`
	Description *string           `json:"description,omitzero" nullable:"true" maxLength:"5000" doc:"What it holds."`
	Metadata    map[string]string `json:"metadata,omitzero" nullable:"true" doc:"Up to 16 texts of up to 512 characters, by names of up to 64. It replaces what there was."`

	// Ignoring it would keep what should end.
	ExpiresAfter jsontext.Value `json:"expires_after,omitzero" doc:"Not supported: a vector store is kept until it is deleted."`
}

// storeCreation is the body of a new vector store.
type storeCreation struct {
	_ struct{} `json:"-" name:"VectorStoreCreate"`

	StoreEdit

	// Ignoring it would make a store without them.
	FileIDs jsontext.Value `json:"file_ids,omitzero" doc:"Not supported: add each file to the vector store once it exists."`
}

const (
	metadataMost  = 16
	metadataName  = 64
	metadataValue = 512
)

func given(v jsontext.Value) bool { return v.Kind() != 0 && v.Kind() != 'n' && string(v) != "[]" }

func (e *StoreEdit) edit() (knowledge.VectorStoreEdit, []fault.Field) {
	var wrong []fault.Field
	if given(e.ExpiresAfter) {
		wrong = append(wrong, fault.Field{Field: "expires_after", Message: "vector stores do not expire; delete it when it is no longer needed"})
	}
	if len(e.Metadata) > metadataMost {
		wrong = append(wrong, fault.Field{Field: "metadata", Message: "expected at most 16 members"})
	}
	for name, value := range e.Metadata {
		if len(name) > metadataName || len(value) > metadataValue {
			wrong = append(wrong, fault.Field{Field: "metadata", Message: "expected names of up to 64 bytes and texts of up to 512"})
			break
		}
	}
	return knowledge.VectorStoreEdit{Name: e.Name, Description: e.Description, Metadata: e.Metadata}, wrong
}

type storeIn struct {
	ID string `path:"vectorStoreId"`
}

type storeUpdateIn struct {
	ID   string `path:"vectorStoreId"`
	Body struct {
		_ struct{} `json:"-" name:"VectorStoreUpdate"`

		StoreEdit
	}
}

// StoreDeleted says that a vector store is gone.
type StoreDeleted struct {
	_ struct{} `json:"-" name:"VectorStoreDeleted"`

	ID      string `json:"id" required:"true"`
	Object  string `json:"object" required:"true" enum:"vector_store.deleted"`
	Deleted bool   `json:"deleted" required:"true"`
}

// Routes returns the routes of vector stores.
func (s *VectorStores) Routes() []httpapi.Raw {
	row := func(method, path, id, summary string) route.Row {
		r := route.Row{
			Method: method, Path: "/v1/vector_stores" + path, ID: id, Tag: "OpenAI-Compat", Summary: summary,
			Scopes: []authz.Scope{"memory:write"}, Role: authz.Developer, Repeats: method == "POST",
		}
		if method == "GET" {
			r.Scopes, r.Role = []authz.Scope{"memory:read"}, authz.Viewer
		}
		return r
	}
	const one = "/{vectorStoreId}"
	create := row("POST", "", "createVectorStore", "Create a vector store")
	create.Doc = "It is a knowledge base of the platform, which agents and /api/v1/knowledge-bases know too."
	search := row("POST", one+"/search", "searchVectorStore", "Search a vector store")
	search.Scopes, search.Role, search.Repeats = []authz.Scope{"memory:read"}, authz.Viewer, false
	remove := row("DELETE", one, "deleteVectorStore", "Delete a vector store; its files stay")
	remove.Destroys = true
	add := row("POST", one+"/files", "createVectorStoreFile", "Add a file to a vector store")
	add.Doc = "Text, Markdown, HTML, CSV, PDF and Word documents. The file can be searched when the answer comes. " +
		"A file that was added before is answered again."
	detach := row("DELETE", one+"/files/{fileId}", "deleteVectorStoreFile", "Remove a file from a vector store; the file stays")
	detach.Destroys = true
	return typedRoutes(
		route.Action(create, s.create),
		route.Action(row("GET", "", "listVectorStores", "List vector stores, newest first"), s.list),
		route.Action(row("GET", one, "getVectorStore", "Get a vector store"), s.get),
		route.Action(row("POST", one, "updateVectorStore", "Change the name, description or metadata of a vector store"), s.update),
		route.Action(remove, s.remove),
		route.Action(search, s.search),
		route.Action(add, s.add),
		route.Action(row("GET", one+"/files", "listVectorStoreFiles", "List the files of a vector store, newest first"), s.files),
		route.Action(row("GET", one+"/files/{fileId}", "getVectorStoreFile", "Get a file of a vector store"), s.file),
		route.Action(detach, s.detach),
	)
}

func (s *VectorStores) create(ctx context.Context, who authz.Caller, in *struct{ Body storeCreation }) (*VectorStore, error) {
	edit, wrong := in.Body.edit()
	if given(in.Body.FileIDs) {
		wrong = append(wrong, fault.Field{
			Field: "file_ids", Message: "create the vector store first, then add each file with POST /v1/vector_stores/{id}/files",
		})
	}
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	if strings.TrimSpace(ptr.Value(edit.Name)) == "" {
		unnamed := "Vector store"
		edit.Name = &unnamed
	}
	made, err := s.Bases.CreateVectorStore(ctx, who, edit, func(made *knowledge.VectorStore) any { return vectorStore(made) })
	if err != nil {
		return nil, err
	}
	return vectorStore(made), nil
}

func (s *VectorStores) list(ctx context.Context, who authz.Caller, in *struct{ PageIn }) (*ListOf[VectorStore], error) {
	n := in.limit()
	found, err := s.Bases.VectorStores(ctx, who.TenantID, in.After, n+1)
	if err != nil {
		return nil, err
	}
	shown := make([]VectorStore, len(found))
	for i := range found {
		shown[i] = *vectorStore(found[i])
	}
	return listOf(shown, n, func(v *VectorStore) string { return v.ID }), nil
}

func (s *VectorStores) get(ctx context.Context, who authz.Caller, in *storeIn) (*VectorStore, error) {
	found, err := s.Bases.VectorStore(ctx, who.TenantID, in.ID)
	if err != nil {
		return nil, noStore(err)
	}
	return vectorStore(found), nil
}

func (s *VectorStores) update(ctx context.Context, who authz.Caller, in *storeUpdateIn) (*VectorStore, error) {
	edit, wrong := in.Body.edit()
	if edit.Name != nil && strings.TrimSpace(*edit.Name) == "" {
		wrong = append(wrong, fault.Field{Field: "name", Message: "it is blank"})
	}
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	changed, err := s.Bases.UpdateVectorStore(ctx, who, in.ID, edit, func(changed *knowledge.VectorStore) any { return vectorStore(changed) })
	if err != nil {
		return nil, noStore(err)
	}
	return vectorStore(changed), nil
}

func (s *VectorStores) remove(ctx context.Context, who authz.Caller, in *storeIn) (*StoreDeleted, error) {
	return &StoreDeleted{ID: in.ID, Object: "vector_store.deleted", Deleted: true}, noStore(s.Bases.Delete(ctx, who, in.ID))
}

// noStore renames what is not found: the client knows no knowledge bases.
func noStore(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.NewNotFound("vector store")
	}
	return err
}

// noFile renames what is not found in a vector store.
func noFile(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.NewNotFound("file in this vector store")
	}
	return err
}

// StoreFile is a document of a knowledge base in OpenAI's shape.
type StoreFile struct {
	_ struct{} `json:"-" name:"VectorStoreFile"`

	ID            string        `json:"id" required:"true" doc:"The id of the file; of documents that were added otherwise, the document's."`
	Object        string        `json:"object" required:"true" enum:"vector_store.file"`
	CreatedAt     int64         `json:"created_at" required:"true" doc:"Unix seconds."`
	VectorStoreID string        `json:"vector_store_id" required:"true" format:"uuid"`
	UsageBytes    int64         `json:"usage_bytes" required:"true"`
	Status        string        `json:"status" required:"true" enum:"completed"`
	LastError     *schema.Any   `json:"last_error" required:"true" doc:"Always null: what cannot be read is refused."`
	Attributes    schema.Object `json:"attributes" required:"true" doc:"Always empty."`
}

func storeFile(d *knowledge.Document) *StoreFile {
	return &StoreFile{
		ID: d.ID, Object: "vector_store.file", CreatedAt: d.CreatedAt.Unix(), VectorStoreID: d.KBID, UsageBytes: d.SizeBytes,
		Status: stateCompleted, Attributes: schema.Object("{}"),
	}
}

type storeFileIn struct {
	StoreID string `path:"vectorStoreId"`
	FileID  string `path:"fileId"`
}

type storeFilesIn struct {
	PageIn

	StoreID string `path:"vectorStoreId"`
}

type storeAddIn struct {
	StoreID string `path:"vectorStoreId"`
	Body    struct {
		_ struct{} `json:"-" name:"VectorStoreFileCreate"`

		FileID string `json:"file_id" required:"true" format:"uuid" doc:"An uploaded file."`
		// Chunks are made by structure, and attributes would promise filters.
		Attributes jsontext.Value `json:"attributes,omitzero" doc:"Not supported, unless it is empty: searches have no filters."`
	}
}

func (s *VectorStores) add(ctx context.Context, who authz.Caller, in *storeAddIn) (*StoreFile, error) {
	if given(in.Body.Attributes) && strings.Join(strings.Fields(string(in.Body.Attributes)), "") != "{}" {
		return nil, fault.BadFields(fault.Field{Field: "attributes", Message: "attributes are not kept: searches have no filters"})
	}
	if err := s.Bases.Exists(ctx, who.TenantID, in.StoreID); err != nil {
		return nil, noStore(err)
	}
	d, err := s.Bases.AddFile(ctx, who, in.StoreID, in.Body.FileID, func(d *knowledge.Document) any { return storeFile(d) })
	if err != nil {
		return nil, err
	}
	return storeFile(d), nil
}

func (s *VectorStores) files(ctx context.Context, who authz.Caller, in *storeFilesIn) (*ListOf[StoreFile], error) {
	if err := s.Bases.Exists(ctx, who.TenantID, in.StoreID); err != nil {
		return nil, noStore(err)
	}
	n := in.limit()
	found, err := s.Bases.Documents(ctx, who.TenantID, in.StoreID, in.After, n+1)
	if err != nil {
		return nil, err
	}
	shown := make([]StoreFile, len(found))
	for i := range found {
		shown[i] = *storeFile(&found[i])
	}
	return listOf(shown, n, func(f *StoreFile) string { return f.ID }), nil
}

func (s *VectorStores) file(ctx context.Context, who authz.Caller, in *storeFileIn) (*StoreFile, error) {
	d, err := s.Bases.Document(ctx, who.TenantID, in.StoreID, in.FileID)
	if err != nil {
		return nil, noFile(err)
	}
	return storeFile(d), nil
}

// StoreFileDeleted says that a file was removed from a vector store.
type StoreFileDeleted struct {
	_ struct{} `json:"-" name:"VectorStoreFileDeleted"`

	ID      string `json:"id" required:"true"`
	Object  string `json:"object" required:"true" enum:"vector_store.file.deleted"`
	Deleted bool   `json:"deleted" required:"true"`
}

func (s *VectorStores) detach(ctx context.Context, who authz.Caller, in *storeFileIn) (*StoreFileDeleted, error) {
	return &StoreFileDeleted{ID: in.FileID, Object: "vector_store.file.deleted", Deleted: true},
		noFile(s.Bases.Remove(ctx, who, in.StoreID, in.FileID))
}

type storeSearchIn struct {
	ID   string `path:"vectorStoreId"`
	Body struct {
		_ struct{} `json:"-" name:"VectorStoreSearch"`

		Query   jsontext.Value `json:"query" required:"true" doc:"A text, or up to 10 texts."`
		Most    *int           `json:"max_num_results,omitzero" minimum:"1" maximum:"50" doc:"Default: 10."`
		Ranking *struct {
			_ struct{} `json:"-" name:"VectorStoreRanking"`

			Threshold *float64 `json:"score_threshold,omitzero" minimum:"0" maximum:"1" doc:"Results have at least this score; 0: all that matches."`
		} `json:"ranking_options" doc:"score_threshold is used; rankers are not."`
		// Ignoring it would find what should be left out.
		Filters jsontext.Value `json:"filters,omitzero" doc:"Not supported: files have no attributes."`
	}
}

const (
	searchResults = 10
	searchQueries = 10
)

// StoreSearch is the result of a search.
type StoreSearch struct {
	_ struct{} `json:"-" name:"VectorStoreSearchPage"`

	Object      string        `json:"object" required:"true" enum:"vector_store.search_results.page"`
	SearchQuery []string      `json:"search_query" required:"true"`
	Data        []StoreResult `json:"data" required:"true"`
	HasMore     bool          `json:"has_more" required:"true"`
	NextPage    *string       `json:"next_page" required:"true"`
}

// StoreResult is a passage that was found.
type StoreResult struct {
	_ struct{} `json:"-" name:"VectorStoreSearchResult"`

	FileID     string        `json:"file_id" required:"true"`
	Filename   string        `json:"filename" required:"true"`
	Score      float64       `json:"score" required:"true" doc:"How sure the result is, from 0 to 1."`
	Attributes schema.Object `json:"attributes" required:"true"`
	Content    []StoreText   `json:"content" required:"true"`
}

// StoreText is the text of a passage.
type StoreText struct {
	_ struct{} `json:"-" name:"VectorStoreText"`

	Type string `json:"type" required:"true" enum:"text"`
	Text string `json:"text" required:"true"`
}

func (s *VectorStores) search(ctx context.Context, who authz.Caller, in *storeSearchIn) (*StoreSearch, error) {
	queries, wrong := queriesOf(in.Body.Query)
	if given(in.Body.Filters) {
		wrong = append(wrong, fault.Field{Field: "filters", Message: "files have no attributes to filter by"})
	}
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	question := knowledge.Question{Limit: searchResults}
	if in.Body.Most != nil {
		question.Limit = *in.Body.Most
	}
	if in.Body.Ranking != nil {
		question.MinScore = in.Body.Ranking.Threshold
	}
	out := &StoreSearch{Object: "vector_store.search_results.page", SearchQuery: queries, Data: []StoreResult{}}
	known := map[string]bool{}
	for _, question.Text = range queries {
		answer, err := s.Bases.Find(ctx, who.TenantID, in.ID, question)
		if err != nil {
			return nil, noStore(err)
		}
		for i := range answer.Results {
			r := &answer.Results[i]
			if key := r.DocumentID + r.Text; !known[key] {
				known[key] = true
				out.Data = append(out.Data, StoreResult{
					FileID: r.DocumentID, Filename: r.Source, Score: r.Score, Attributes: schema.Object("{}"),
					Content: []StoreText{{Type: "text", Text: r.Text}},
				})
			}
		}
	}
	slices.SortStableFunc(out.Data, func(a, b StoreResult) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	out.Data = out.Data[:min(len(out.Data), question.Limit)]
	return out, nil
}

// queriesOf reads a text, or a list of texts.
func queriesOf(v jsontext.Value) (queries []string, wrong []fault.Field) {
	if v.Kind() == '"' {
		queries = []string{unquote(v)}
	} else if err := json.Unmarshal(v, &queries); err != nil || len(queries) == 0 || len(queries) > searchQueries {
		return nil, []fault.Field{{Field: "query", Message: "expected a text, or 1 to " + strconv.Itoa(searchQueries) + " texts"}}
	}
	for i, q := range queries {
		if strings.TrimSpace(q) == "" {
			wrong = append(wrong, fault.Field{Field: "query[" + strconv.Itoa(i) + "]", Message: "it is blank"})
		}
	}
	return queries, wrong
}
