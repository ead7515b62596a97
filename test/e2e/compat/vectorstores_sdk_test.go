package compat

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// uploadText uploads a file by the official client.
func uploadText(n *apptest.Server, name, text string) *openai.FileObject {
	n.T.Helper()
	made, err := openAIClient(n).Files.New(n.T.Context(), openai.FileNewParams{
		File: openai.File(strings.NewReader(text), name, "text/markdown"), Purpose: openai.FilePurposeAssistants,
	})
	if err != nil {
		n.T.Fatal(err)
	}
	return made
}

func TestFilesOfOpenAI(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	c, ctx := openAIClient(n), t.Context()
	var ids []string
	for _, name := range []string{"a.md", "b.md", "c.md"} {
		ids = append(ids, uploadText(n, name, "# "+name).ID)
	}
	got, err := c.Files.Get(ctx, ids[0])
	if err != nil || got.Filename != "a.md" || got.Bytes != 6 || got.CreatedAt == 0 {
		t.Fatalf("%+v %v", got, err)
	}
	content, err := c.Files.Content(ctx, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	defer content.Body.Close()
	if text, err := io.ReadAll(content.Body); err != nil || string(text) != "# a.md" {
		t.Errorf("%q %v", text, err)
	}
	var listed []string
	for pages := c.Files.ListAutoPaging(ctx, openai.FileListParams{Limit: openai.Int(2)}); pages.Next(); {
		listed = append(listed, pages.Current().ID)
	}
	slices.Reverse(ids)
	if diff := cmp.Diff(ids, listed); diff != "" {
		t.Errorf("the pages have others (-want +got):\n%s", diff)
	}
	if gone, err := c.Files.Delete(ctx, ids[0]); err != nil || !gone.Deleted {
		t.Errorf("%+v %v", gone, err)
	}
	_, err = c.Files.Get(ctx, ids[0])
	refused(t, err, http.StatusNotFound)
}

func refused(t *testing.T, err error, status int) *openai.Error {
	t.Helper()
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || e.StatusCode != status || e.Message == "" {
		t.Fatalf("%v is no refusal with status %d in OpenAI's envelope", err, status)
	}
	return e
}

func TestVectorStores(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	c, ctx := openAIClient(n), t.Context()
	store, err := c.VectorStores.New(ctx, openai.VectorStoreNewParams{Name: openai.String("Support"), Metadata: map[string]string{"team": "a"}})
	if err != nil || store.Name != "Support" || store.Metadata["team"] != "a" {
		t.Fatalf("%+v %v", store, err)
	}
	refunds := uploadText(n, "refunds.md", "# Refunds\n\nRefunds are issued within 14 days.")
	for range 2 { // what is there is answered again
		added, err := c.VectorStores.Files.NewAndPoll(ctx, store.ID, openai.VectorStoreFileNewParams{FileID: refunds.ID}, 10)
		if err != nil || added.ID != refunds.ID || added.Status != openai.VectorStoreFileStatusCompleted {
			t.Fatalf("%+v %v", added, err)
		}
	}
	if store, err = c.VectorStores.Get(ctx, store.ID); err != nil || store.FileCounts.Completed != 1 || store.UsageBytes == 0 {
		t.Errorf("%+v %v", store, err)
	}
	found, err := c.VectorStores.Search(ctx, store.ID, openai.VectorStoreSearchParams{
		Query: openai.VectorStoreSearchParamsQueryUnion{OfString: openai.String("how do I get a refund")},
	})
	if err != nil || len(found.Data) != 1 || found.Data[0].FileID != refunds.ID || !strings.Contains(found.Data[0].Content[0].Text, "14 days") {
		t.Errorf("%+v %v", found, err)
	}
	files, err := c.VectorStores.Files.List(ctx, store.ID, openai.VectorStoreFileListParams{})
	if err != nil || len(files.Data) != 1 || files.Data[0].ID != refunds.ID {
		t.Errorf("%+v %v", files, err)
	}
	changed, err := c.VectorStores.Update(ctx, store.ID, openai.VectorStoreUpdateParams{Name: openai.String("Help")})
	if err != nil || changed.Name != "Help" || changed.Metadata["team"] != "a" || changed.FileCounts.Completed != 1 {
		t.Errorf("%+v %v", changed, err)
	}
	if bases := n.Expect(200, "GET", "/api/v1/knowledge-bases/"+store.ID, nil); bases["name"] != "Help" || bases["document_count"] != 1.0 {
		t.Errorf("the knowledge base is %v", bases)
	}
	goneStore(t, c, store.ID, refunds.ID)
}

// goneStore removes a file from a vector store, and then the vector store.
func goneStore(t *testing.T, c *openai.Client, store, file string) {
	t.Helper()
	ctx := t.Context()
	if gone, err := c.VectorStores.Files.Delete(ctx, store, file); err != nil || !gone.Deleted {
		t.Errorf("%+v %v", gone, err)
	}
	_, err := c.VectorStores.Files.Get(ctx, store, file)
	refused(t, err, http.StatusNotFound)
	if _, err := c.Files.Get(ctx, file); err != nil {
		t.Errorf("the file itself is gone: %v", err)
	}
	if gone, err := c.VectorStores.Delete(ctx, store); err != nil || !gone.Deleted {
		t.Errorf("%+v %v", gone, err)
	}
	_, err = c.VectorStores.Get(ctx, store)
	refused(t, err, http.StatusNotFound)
}

// What a vector store cannot do is refused, and the parameter named.
func TestVectorStoresRefuse(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	c, ctx := openAIClient(n), t.Context()
	for name, params := range map[string]openai.VectorStoreNewParams{
		"files":    {FileIDs: []string{ident.New()}},
		"expiry":   {ExpiresAfter: openai.VectorStoreNewParamsExpiresAfter{Days: 1}},
		"metadata": {Metadata: map[string]string{"a": strings.Repeat("x", 513)}},
		"name":     {Name: openai.String(strings.Repeat("x", 201))},
	} {
		_, err := c.VectorStores.New(ctx, params)
		if err == nil {
			t.Errorf("%s: it is no refusal", name)
			continue
		}
		if e := refused(t, err, http.StatusUnprocessableEntity); e.Param == "" {
			t.Errorf("%s: the refusal names no parameter: %s", name, e.RawJSON())
		}
	}
}

func TestVectorStoreSearches(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	store := n.Expect(200, "POST", "/v1/vector_stores", object{"name": "Shop", "description": "What customers ask."})
	if store["description"] != "What customers ask." {
		t.Errorf("%v", store)
	}
	path := "/v1/vector_stores/" + store["id"].(string)
	for name, text := range map[string]string{"refunds.md": "Refunds are issued within 14 days.", "parcels.md": "Parcels arrive within 3 days; refunds of postage are not made."} {
		n.Expect(200, "POST", path+"/files", object{"file_id": uploadText(n, name, text).ID, "attributes": object{}})
	}
	for name, tt := range map[string]struct {
		body object
		want int
	}{
		"one text":    {object{"query": "refunds"}, 2},
		"two texts":   {object{"query": []string{"refunds", "parcels"}}, 2},
		"most":        {object{"query": "refunds", "max_num_results": 1}, 1},
		"sure":        {object{"query": "refunds of postage in winter", "ranking_options": object{"score_threshold": 0.99}}, 0},
		"no ranking":  {object{"query": "refunds", "ranking_options": nil, "filters": nil}, 2},
		"not a word":  {object{"query": "zebra"}, 0},
		"empty lists": {object{"query": "refunds", "filters": []string{}}, 2},
	} {
		if got := n.Expect(200, "POST", path+"/search", tt.body)["data"].([]any); len(got) != tt.want {
			t.Errorf("%s: %v, want %d", name, got, tt.want)
		}
	}
	for name, tt := range map[string]struct {
		path string
		body object
	}{
		"filters":       {"/search", object{"query": "x", "filters": object{"type": "eq", "key": "a", "value": "b"}}},
		"no text":       {"/search", object{"query": []string{}}},
		"a blank text":  {"/search", object{"query": []string{"x", " "}}},
		"attributes":    {"/files", object{"file_id": ident.New(), "attributes": object{"a": "b"}}},
		"a blank name":  {"", object{"name": " "}},
		"much metadata": {"", object{"metadata": many(17)}},
		"expiry":        {"", object{"expires_after": object{"anchor": "last_active_at", "days": 1}}},
	} {
		if got := n.Do("POST", path+tt.path, tt.body); got.StatusCode != 422 || !strings.Contains(string(got.Body), `"param":"`) {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.Body)
		}
	}
	if changed := n.Expect(200, "POST", path, object{"description": "Else.", "metadata": object{"a": "b"}}); changed["description"] != "Else." || changed["name"] != "Shop" {
		t.Errorf("%v", changed)
	}
	if got := n.Do("POST", path+"/files", object{"file_id": ident.New()}); got.StatusCode != 404 {
		t.Errorf("a file that is not there: %d %s", got.StatusCode, got.Body)
	}
}

func many(n int) object {
	all := object{}
	for i := range n {
		all[strings.Repeat("k", i+1)] = "v"
	}
	return all
}

// A response searches the vector stores that its request names, and shows what it found.
func TestFileSearch(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		chat := r.Chat()
		if chat.Messages[len(chat.Messages)-1].Role == "tool" {
			return modeltest.Answer{Text: "Within 14 days."}
		}
		if !slices.ContainsFunc(chat.Tools, func(o modeltest.ChatTool) bool { return o.Function.Name == "knowledge_search" }) {
			return modeltest.Answer{Text: "I cannot search."}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "s1", Name: "knowledge_search", Arguments: `{"query":"refunds"}`}}}
	}))
	n := apptest.Start(t, sim)
	c, ctx, agent := openAIClient(n), t.Context(), n.CreateAgent(nil)
	store, err := c.VectorStores.New(ctx, openai.VectorStoreNewParams{Name: openai.String("Support")})
	if err != nil {
		t.Fatal(err)
	}
	refunds := uploadText(n, "refunds.md", "Refunds are issued within 14 days.")
	if _, err := c.VectorStores.Files.New(ctx, store.ID, openai.VectorStoreFileNewParams{FileID: refunds.ID}); err != nil {
		t.Fatal(err)
	}
	params := responding(agent, "How do I get a refund?")
	params.Tools = []responses.ToolUnionParam{{OfFileSearch: &responses.FileSearchToolParam{VectorStoreIDs: []string{store.ID}}}}
	params.Include = []responses.ResponseIncludable{responses.ResponseIncludableFileSearchCallResults}

	whole := createResponse(n, params)
	check := func(how string, got *responses.Response) {
		t.Helper()
		if len(got.Output) != 2 || got.OutputText() != "Within 14 days." {
			t.Fatalf("%s: %s", how, got.RawJSON())
		}
		call := got.Output[0].AsFileSearchCall()
		if call.Queries[0] != "refunds" || len(call.Results) != 1 || call.Results[0].FileID != refunds.ID || call.Results[0].Filename != "refunds.md" ||
			!strings.Contains(call.Results[0].Text, "14 days") {
			t.Errorf("%s: %s", how, call.RawJSON())
		}
	}
	check("whole", whole)
	read, err := c.Responses.Get(ctx, whole.ID, responses.ResponseGetParams{})
	if err != nil {
		t.Fatal(err)
	}
	check("read", read)
	streamed, events := streamResponse(n, params)
	check("streamed", streamed)
	if !slices.ContainsFunc(events, func(e responses.ResponseStreamEventUnion) bool {
		return e.Type == "response.file_search_call.completed"
	}) {
		t.Error("the stream does not tell of the search")
	}
	params.Include = nil
	if got := createResponse(n, params).Output[0].AsFileSearchCall(); len(got.Results) != 0 || got.Queries[0] != "refunds" {
		t.Errorf("results are shown that nobody asked for: %s", got.RawJSON())
	}

	params.Tools[0].OfFileSearch.VectorStoreIDs = []string{ident.New()}
	_, err = c.Responses.New(ctx, params)
	refused(t, err, http.StatusNotFound)
	params.Tools[0].OfFileSearch.VectorStoreIDs = nil
	_, err = c.Responses.New(ctx, params)
	refused(t, err, http.StatusUnprocessableEntity)
	if got := n.Do("POST", "/v1/responses", object{"model": agent, "input": "x", "tools": []object{
		{"type": "file_search", "vector_store_ids": []string{store.ID}, "filters": object{"type": "eq"}}}}); got.StatusCode != 422 {
		t.Errorf("filters: %d %s", got.StatusCode, got.Body)
	}
	blind := n.WithKey(string(n.Admin().CreateKey(n.TenantID(), authz.Developer, "runs:create").RawKey))
	params.Tools[0].OfFileSearch.VectorStoreIDs = []string{store.ID}
	_, err = openAIClient(blind).Responses.New(ctx, params)
	refused(t, err, http.StatusForbidden)
}

// A response is deleted, and its input is listed.
func TestResponsesAreDeleted(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer { return modeltest.Answer{Text: "Yes."} })))
	c, ctx := openAIClient(n), t.Context()
	params := responding(n.CreateAgent(nil), "")
	params.Input = inputOf(
		responses.ResponseInputItemParamOfMessage("Be brief.", responses.EasyInputMessageRoleDeveloper),
		responses.ResponseInputItemParamOfMessage("First?", responses.EasyInputMessageRoleUser),
		responses.ResponseInputItemParamOfMessage("Sure.", responses.EasyInputMessageRoleAssistant),
		responses.ResponseInputItemParamOfMessage("Second?", responses.EasyInputMessageRoleUser))
	made := createResponse(n, params)
	var said []string
	pages := c.Responses.InputItems.ListAutoPaging(ctx, made.ID, responses.InputItemListParams{Limit: openai.Int(3), Order: responses.InputItemListParamsOrderAsc})
	for pages.Next() {
		m := pages.Current()
		said = append(said, m.Role+": "+textOfItem(t, m.RawJSON()))
	}
	want := []string{"developer: Be brief.", "user: First?", "assistant: Sure.", "user: Second?"}
	if diff := cmp.Diff(want, said); diff != "" || pages.Err() != nil {
		t.Errorf("%v (-want +got):\n%s", pages.Err(), diff)
	}
	if err := c.Responses.Delete(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	_, err := c.Responses.Get(ctx, made.ID, responses.ResponseGetParams{})
	refused(t, err, http.StatusNotFound)
	refused(t, c.Responses.Delete(ctx, made.ID), http.StatusNotFound)
	n.Expect(200, "GET", "/api/v1/runs/"+made.ID, nil)
}

// textOfItem returns the text of an item, whichever part it is in.
func textOfItem(t *testing.T, item string) string {
	t.Helper()
	var got struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := json.Unmarshal([]byte(item), &got); err != nil || len(got.Content) != 1 {
		t.Fatalf("%v: %s", err, item)
	}
	return got.Content[0].Text
}
