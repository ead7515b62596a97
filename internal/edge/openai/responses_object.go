package openai

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// Response is a run in the shape of the Responses API.
type Response struct {
	ID                string             `json:"id" required:"true" doc:"The run's id."`
	Object            string             `json:"object" required:"true" enum:"response"`
	CreatedAt         int64              `json:"created_at" required:"true" doc:"Unix seconds."`
	Status            string             `json:"status" required:"true" enum:"queued,in_progress,completed,incomplete,failed,cancelled"`
	Background        bool               `json:"background"`
	CompletedAt       *int64             `json:"completed_at" doc:"Unix seconds."`
	Error             *ResponseError     `json:"error" doc:"Why the run did not complete."`
	IncompleteDetails *IncompleteDetails `json:"incomplete_details" doc:"What cut the answer off."`
	Instructions      *string            `json:"instructions"`
	MaxOutputTokens   *int               `json:"max_output_tokens"`
	Model             string             `json:"model" required:"true" doc:"As in the request."`
	Output            []OutputItem       `json:"output" required:"true"`
	Parallel          bool               `json:"parallel_tool_calls"`
	Previous          *string            `json:"previous_response_id"`
	Reasoning         schema.Nullable    `json:"reasoning"`
	Store             bool               `json:"store" doc:"Always true."`
	Temperature       *float64           `json:"temperature"`
	Text              schema.Nullable    `json:"text"`
	ToolChoice        schema.Any         `json:"tool_choice"`
	Tools             []ResponseTool     `json:"tools"`
	TopP              *float64           `json:"top_p"`
	Truncation        string             `json:"truncation" enum:"disabled"`
	Usage             *ResponseUsage     `json:"usage" doc:"Tokens of all of the run's model calls; null while it is in progress."`
	Metadata          schema.Object      `json:"metadata"`
}

// ResponseError is why a run did not complete.
type ResponseError struct {
	Code    string `json:"code" doc:"The run's error code."`
	Message string `json:"message"`
}

// IncompleteDetails is what cut an answer off.
type IncompleteDetails struct {
	Reason string `json:"reason" enum:"max_output_tokens,content_filter"`
}

// OutputItem is a message, a function_call or a reasoning item; the members of
// the other types are absent.
type OutputItem struct {
	Type      string          `json:"type" required:"true" enum:"message,function_call,reasoning,file_search_call"`
	ID        string          `json:"id" required:"true"`
	Status    string          `json:"status" enum:"in_progress,completed,incomplete"`
	Role      string          `json:"role,omitzero" enum:"assistant"`
	Content   []OutputText    `json:"content,omitzero"`
	CallID    string          `json:"call_id,omitzero"`
	Name      string          `json:"name,omitzero"`
	Arguments *string         `json:"arguments,omitzero"`
	Summary   []ThoughtOutput `json:"summary,omitzero"`
	Queries   []string        `json:"queries,omitzero" doc:"Of a file_search_call: what was searched for."`
	Results   []SearchFound   `json:"results,omitzero" doc:"Of a file_search_call, if the request includes file_search_call.results."`
}

// OutputText is the text of a message.
type OutputText struct {
	Type        string       `json:"type" enum:"output_text"`
	Text        string       `json:"text"`
	Annotations schema.Array `json:"annotations"`
	Logprobs    schema.Array `json:"logprobs"`
}

// ThoughtOutput is the text of a reasoning item.
type ThoughtOutput struct {
	Type string `json:"type" enum:"summary_text"`
	Text string `json:"text"`
}

// ResponseUsage counts the tokens of all of the run's model calls.
type ResponseUsage struct {
	InputTokens   int64        `json:"input_tokens"`
	InputDetails  InputDetail  `json:"input_tokens_details"`
	OutputTokens  int64        `json:"output_tokens"`
	OutputDetails UsageDetails `json:"output_tokens_details"`
	TotalTokens   int64        `json:"total_tokens"`
}

// InputDetail splits input_tokens.
type InputDetail struct {
	CachedTokens int64 `json:"cached_tokens" doc:"Tokens that the model's provider had in a cache."`
}

// Statuses of responses and items.
const (
	stateQueued     = "queued"
	stateInProgress = "in_progress"
	stateCompleted  = "completed"
	stateIncomplete = "incomplete"
	stateFailed     = "failed"
	stateCancelled  = "cancelled"
)

// Prefixes of item ids. The run's id follows; from the second item of a type on,
// also its number.
const (
	messagePrefix   = "msg_"
	callPrefix      = "fc_"
	reasoningPrefix = "rs_"
)

// itemRun returns the run id in an item's id.
func itemRun(id string) string {
	_, rest, _ := strings.Cut(id, "_")
	run, _, _ := strings.Cut(rest, "_")
	return run
}

// text returns the text of a message.
func (i *OutputItem) text() string {
	if len(i.Content) == 0 {
		return ""
	}
	return i.Content[0].Text
}

func messageItem(id, status, text string) OutputItem {
	return OutputItem{Type: itemMessage, ID: id, Status: status, Role: string(model.Assistant),
		Content: []OutputText{{Type: "output_text", Text: text}}}
}

func thoughtItem(id, status, text string) OutputItem {
	return OutputItem{Type: itemReasoning, ID: id, Status: status, Summary: []ThoughtOutput{{"summary_text", text}}}
}

func callItem(id string, c *model.ToolCall) OutputItem {
	return OutputItem{Type: itemCall, ID: id, Status: stateCompleted, CallID: c.ID, Name: c.Name, Arguments: &c.Arguments}
}

// echo is the part of a request that its response repeats.
type echo struct {
	echoedParams
	previous string
	tools    []run.CallerTool
	stores   []string // of the tool file_search
	metadata schema.Object
}

// composer returns a composer of the items of a response.
func (e *echo) composer(runID string, observer itemObserver) composer {
	return composer{run: runID, items: []OutputItem{}, observer: observer, searches: newSearches(e.stores, e.ShowResults)}
}

// newResponse returns the response of a run, without output.
func newResponse(r *run.Run, e *echo) *Response {
	out := &Response{
		ID: r.RunID, Object: "response", CreatedAt: r.CreatedAt.Unix(), Status: stateInProgress, Background: e.Background,
		Instructions: e.Instructions, MaxOutputTokens: e.MaxTokens, Model: e.Model, Output: []OutputItem{},
		Parallel: e.Parallel == nil || *e.Parallel, Reasoning: e.Reasoning, Store: true, Temperature: e.Temperature, Text: e.Text,
		ToolChoice: schema.Any(e.ToolChoice), Tools: []ResponseTool{}, TopP: e.TopP, Truncation: "disabled", Metadata: e.metadata,
	}
	if e.previous != "" {
		out.Previous = &e.previous
	}
	if e.ToolChoice.Kind() == 0 || e.ToolChoice.Kind() == 'n' {
		out.ToolChoice = schema.Any(`"auto"`)
	}
	if len(e.Text) == 0 || jsontext.Value(e.Text).Kind() == 'n' {
		out.Text = schema.Nullable(`{"format":{"type":"text"}}`)
	}
	if len(e.Reasoning) == 0 || jsontext.Value(e.Reasoning).Kind() == 'n' {
		out.Reasoning = schema.Nullable(`{"effort":null,"summary":null}`)
	}
	for _, t := range e.tools {
		out.Tools = append(out.Tools, ResponseTool{
			Type: functionTool, Name: t.Name, Description: &t.Description, Parameters: t.Parameters, Strict: &t.Strict,
		})
	}
	if e.stores != nil {
		out.Tools = append(out.Tools, ResponseTool{Type: searchTool, VectorStoreIDs: e.stores})
	}
	if r.Status == run.Queued {
		out.Status = stateQueued
	}
	return out
}

// setResult adds the result of a run that has ended, without its items.
func (o *Response) setResult(r *run.Run, out *run.Output) {
	m := &r.Metrics
	o.Usage = &ResponseUsage{
		InputTokens: m.InputTokens, InputDetails: InputDetail{m.CachedTokens},
		OutputTokens: m.OutputTokens, OutputDetails: UsageDetails{m.ThinkingTokens},
		TotalTokens: m.InputTokens + m.OutputTokens,
	}
	if r.CompletedAt != nil {
		at := r.CompletedAt.Unix()
		o.CompletedAt = &at
	}
	switch r.Status {
	case run.Completed:
		o.Status = stateCompleted
		if reason := cutOff[out.FinishReason]; reason != "" {
			o.Status, o.IncompleteDetails = stateIncomplete, &IncompleteDetails{reason}
		}
		return
	case run.Cancelled:
		o.Status = stateCancelled
	default:
		o.Status = stateFailed
	}
	failure := failureOf(r)
	o.Error = &ResponseError{Code: failure.Code, Message: failure.Message}
}

// cutOff is why an answer is incomplete, by the model's finish reason.
var cutOff = map[string]string{model.FinishLength: "max_output_tokens", model.FinishFilter: "content_filter"}

func outputOf(r *run.Run) (out run.Output, err error) {
	if len(r.Output) > 0 {
		err = json.Unmarshal(r.Output, &out)
	}
	return out, err
}

// clientMetadata returns the metadata of the request that started a run.
func clientMetadata(r *run.Run) schema.Object {
	var meta struct {
		Client jsontext.Value `json:"client_metadata"`
	}
	_ = json.Unmarshal(r.Metadata, &meta) // agentd wrote it
	return objectOf(meta.Client)
}

// objectOf returns nil for null.
func objectOf(v jsontext.Value) schema.Object {
	if v.Kind() != '{' {
		return nil
	}
	return schema.Object(v)
}
