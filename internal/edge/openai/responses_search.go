package openai

import (
	"context"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// The tool file_search of the Responses API is the built-in tool that searches knowledge
// bases, with bases that the request names.
const (
	searchTool     = "file_search"
	builtInSearch  = "knowledge_search"
	itemSearch     = "file_search_call"
	searchPrefix   = "fs_"
	includeResults = "file_search_call.results"
	maxStores      = 10
)

// addSearch adds the vector stores of a tool of the type file_search.
func (r *ResponseRequest) addSearch(at string, t *ResponseTool, o *run.Options, p *inputReader) {
	if given(t.Filters) {
		p.addError(at+".filters", "files have no attributes to filter by")
	}
	for _, id := range t.VectorStoreIDs {
		if !slices.Contains(o.KnowledgeBases, id) {
			o.KnowledgeBases = append(o.KnowledgeBases, id)
		}
	}
	if len(t.VectorStoreIDs) == 0 || len(o.KnowledgeBases) > maxStores {
		p.addError(at+".vector_store_ids", "expected 1 to "+strconv.Itoa(maxStores)+" vector stores")
	}
	o.Grants = []string{builtInSearch}
}

// checkStores refuses vector stores that the caller does not have or may not search.
func (s *Responses) checkStores(ctx context.Context, who authz.Caller, o *run.Options) error {
	if len(o.KnowledgeBases) == 0 {
		return nil
	}
	if err := who.Check(authz.Viewer, "memory:read"); err != nil {
		return err
	}
	for _, id := range o.KnowledgeBases {
		if err := s.Stores.Exists(ctx, who.TenantID, id); fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "", "No vector store %q exists in this company.", id)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// SearchFound is a passage that a search found.
type SearchFound struct {
	_ struct{} `json:"-" name:"ResponseSearchResult"`

	FileID     string        `json:"file_id"`
	Filename   string        `json:"filename"`
	Score      float64       `json:"score"`
	Text       string        `json:"text"`
	Attributes schema.Object `json:"attributes"`
}

// searches makes the items of searches, for a response that asked for them.
type searches struct {
	on      bool
	results bool // they are shown
	queries map[string]string
	count   int
}

func newSearches(stores []string, results bool) searches {
	return searches{on: len(stores) > 0, results: results, queries: map[string]string{}}
}

// observeSearch notes the arguments and results of searches among the events of a run.
func (c *composer) observeSearch(e event.Event) {
	var call struct {
		ID        string         `json:"tool_call_id"`
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
		Output    string         `json:"output"`
	}
	if !c.searches.on || json.Unmarshal(e.Data, &call) != nil || call.Name != builtInSearch {
		return
	}
	if e.Name == "tool.call" {
		c.searches.queries[call.ID] = string(call.Arguments)
		return
	}
	c.addSearch(c.searches.queries[call.ID], call.Output)
}

// addSearch adds the item of a search, from its arguments and the tool's output.
func (c *composer) addSearch(arguments, output string) {
	var asked struct {
		Query string `json:"query"`
	}
	var found struct {
		Results []struct {
			DocumentID string  `json:"document_id"`
			Source     string  `json:"source"`
			Text       string  `json:"text"`
			Score      float64 `json:"score"`
		} `json:"results"`
	}
	_ = json.Unmarshal([]byte(arguments), &asked) // what the model wrote may be no JSON
	_ = json.Unmarshal([]byte(output), &found)    // a failure is a sentence
	item := OutputItem{Type: itemSearch, ID: c.nextID(searchPrefix, &c.searches.count), Status: stateCompleted, Queries: []string{asked.Query}}
	if c.searches.results {
		item.Results = []SearchFound{}
		for _, r := range found.Results {
			item.Results = append(item.Results, SearchFound{
				FileID: r.DocumentID, Filename: r.Source, Score: r.Score, Text: r.Text, Attributes: schema.Object("{}"),
			})
		}
	}
	c.close(stateIncomplete)
	c.items = append(c.items, item)
	c.before = stepStart{len(c.items), c.messages, c.thoughts}
	if c.observer != nil {
		c.observer.itemOpened(len(c.items)-1, &item)
		c.observer.itemClosed(len(c.items)-1, &item)
	}
}

// searchOf adds the item of a step that is a search.
func (c *composer) searchOf(s *run.Step) error {
	var in run.ToolInput
	if err := json.Unmarshal(s.Input, &in); err != nil || in.Name != builtInSearch || len(s.Output) == 0 {
		return err
	}
	var out run.ToolOutput
	if err := json.Unmarshal(s.Output, &out); err != nil {
		return err
	}
	c.addSearch(in.Arguments, out.Content)
	return nil
}
