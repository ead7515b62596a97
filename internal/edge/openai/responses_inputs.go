package openai

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// ResponseDeleted says that a response is gone.
type ResponseDeleted struct {
	ID      string `json:"id" required:"true"`
	Object  string `json:"object" required:"true" enum:"response"`
	Deleted bool   `json:"deleted" required:"true"`
}

// Delete serves DELETE /v1/responses/{responseId}.
func (s *Responses) Delete(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	in, err := httpapi.Params[responseParams](r)
	if err != nil {
		return err
	}
	a, _, err := s.stored(r.Context(), who.TenantID, in.ID)
	if err != nil {
		return err
	}
	if !a.stream.Run.Status.Final() {
		return fault.New(fault.Conflict, "INVALID_STATE_TRANSITION",
			"The response %s has not ended: cancel it first, with POST /v1/responses/%s/cancel.", in.ID, in.ID)
	}
	if err := s.Chains.Delete(r.Context(), who, in.ID); err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, ResponseDeleted{ID: in.ID, Object: "response", Deleted: true})
}

// InputItem is an item of a response's input; the members of other types are absent.
type InputItem struct {
	_ struct{} `json:"-" name:"ResponseInputItem"`

	Type      string           `json:"type" required:"true" enum:"message,function_call,function_call_output"`
	ID        string           `json:"id" required:"true"`
	Status    string           `json:"status,omitzero" enum:"completed"`
	Role      string           `json:"role,omitzero" enum:"user,assistant,system,developer"`
	Content   []jsontext.Value `json:"content,omitzero" doc:"Parts: input_text, input_image, input_file, input_audio, output_text."`
	CallID    string           `json:"call_id,omitzero"`
	Name      string           `json:"name,omitzero"`
	Arguments *string          `json:"arguments,omitzero"`
	Output    *string          `json:"output,omitzero"`
}

// inputsIn are the parameters of listing a response's input.
type inputsIn struct {
	ID    string `path:"responseId" format:"any"`
	Limit *int   `query:"limit" minimum:"1" maximum:"100" doc:"Items per page. Default: 20."`
	After string `query:"after" maxLength:"128" doc:"The last id of the previous page."`
	Order string `query:"order" enum:"asc,desc" doc:"desc, the default, is the newest first."`
}

// Inputs serves GET /v1/responses/{responseId}/input_items.
func (s *Responses) Inputs(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	in, err := httpapi.Params[inputsIn](r)
	if err != nil {
		return err
	}
	_, got, err := s.stored(r.Context(), who.TenantID, in.ID)
	if err != nil {
		return err
	}
	items := inputItems(&got.Run, got.Standing)
	if in.Order != "asc" {
		slices.Reverse(items)
	}
	if in.After != "" {
		at := slices.IndexFunc(items, func(i InputItem) bool { return i.ID == in.After })
		if at < 0 {
			return fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter after is the id of no input item of this response.")
		}
		items = items[at+1:]
	}
	n := listPage
	if in.Limit != nil {
		n = *in.Limit
	}
	return httpapi.JSON(w, http.StatusOK, listOf(items, n, func(i *InputItem) string { return i.ID }))
}

// inputItems returns the input of a response as items, in their order. What its request
// left out, such as reasoning, is not kept.
func inputItems(r *run.Record, standing string) []InputItem {
	items := []InputItem{}
	add := func(i InputItem) {
		i.ID, i.Status = "in_"+strconv.Itoa(len(items))+"_"+r.RunID, stateCompleted
		items = append(items, i)
	}
	in := r.ParsedInput()
	if standing != "" {
		add(InputItem{Type: itemMessage, Role: "developer", Content: textParts("input_text", standing)})
	}
	for _, m := range in.History {
		addInput(add, &m)
	}
	if in.Message != "" || len(in.Parts) > 0 {
		addInput(add, &model.Message{Role: model.User, Text: in.Message, Parts: in.Parts})
	}
	return items
}

// addInput adds the items that a message of the conversation came from.
func addInput(add func(InputItem), m *model.Message) {
	if m.Role == model.Tool {
		add(InputItem{Type: itemOutput, CallID: m.ToolCallID, Output: &m.Text})
		return
	}
	kind := "input_text"
	if m.Role == model.Assistant {
		kind = "output_text"
	}
	content := textParts(kind, m.Text)
	for _, part := range m.Parts {
		content = append(content, shownPart(part))
	}
	if len(content) > 0 {
		add(InputItem{Type: itemMessage, Role: string(m.Role), Content: content})
	}
	for _, c := range m.ToolCalls {
		add(InputItem{Type: itemCall, CallID: c.ID, Name: c.Name, Arguments: &c.Arguments})
	}
}

func textParts(kind, text string) []jsontext.Value {
	if text == "" {
		return nil
	}
	return []jsontext.Value{mustMarshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{kind, text})}
}

// shownPart returns a part in the form of the Responses API, from that of chat
// completions, in which runs keep it.
func shownPart(part jsontext.Value) jsontext.Value {
	var p struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image struct {
			URL    string `json:"url"`
			Detail string `json:"detail"`
		} `json:"image_url"`
		File  jsontext.Value `json:"file"`
		Audio jsontext.Value `json:"input_audio"`
	}
	if json.Unmarshal(part, &p) != nil {
		return part
	}
	switch p.Type {
	case "text":
		return textParts("input_text", p.Text)[0]
	case "image_url":
		return mustMarshal(struct {
			Type   string `json:"type"`
			URL    string `json:"image_url"`
			Detail string `json:"detail,omitzero"`
		}{"input_image", p.Image.URL, p.Image.Detail})
	case "file":
		var f map[string]jsontext.Value
		if json.Unmarshal(p.File, &f) == nil {
			f["type"] = jsontext.Value(`"input_file"`)
			return mustMarshal(f)
		}
	}
	return part
}
