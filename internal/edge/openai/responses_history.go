package openai

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/kernel/model"
)

// previous returns the calls that the response a request continues left to the
// caller.
func (s *Responses) previous(ctx context.Context, tenant string, id *string) ([]model.ToolCall, error) {
	if ptr.Value(id) == "" {
		return nil, nil
	}
	before, err := s.get(ctx, tenant, *id)
	if fault.Is(err, fault.NotFound) {
		e := fault.New(fault.NotFound, "previous_response_not_found",
			"No response %q exists in this company to continue from; a response's id is the id of its run.", *id)
		e.Fields = []fault.Field{{Field: "previous_response_id", Message: e.Detail}}
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	if !before.Run.Status.Final() {
		return nil, fault.New(fault.Conflict, "INVALID_STATE_TRANSITION",
			"The response %s has not ended: its run is %s. Poll it until it has ended, then continue from it.", *id, before.Run.Status)
	}
	out, err := outputOf(&before.Run.Run)
	return out.ToolCalls, err
}

// references returns the ids of the runs whose items an input refers to.
func references(input []byte) (runs []string) {
	var items []struct {
		Type string `json:"type"`
		ID   string `json:"id"`
		Role string `json:"role"`
	}
	if len(input) == 0 || input[0] != '[' {
		return nil
	}
	_ = json.Unmarshal(input, &items) // items of another shape are refused where they are read
	for _, i := range items {
		isReference := i.Type == itemReference || i.Type == "" && i.Role == ""
		if id := itemRun(i.ID); isReference && ident.Valid(id) && !slices.Contains(runs, id) {
			runs = append(runs, id)
		}
	}
	return runs
}

// items returns a lookup by id of the items of some responses. Responses that
// have not ended have none.
func (s *Responses) items(ctx context.Context, tenant string, runs []string) (func(id string) (OutputItem, bool), error) {
	all, err := s.Chains.All(ctx, tenant, runs)
	if err != nil {
		return nil, err
	}
	byID := map[string]OutputItem{}
	for i := range all {
		r := &all[i].Run.Run
		if !r.Status.Final() {
			continue
		}
		out, err := outputOf(r)
		if err != nil {
			return nil, err
		}
		e, err := echoOf(&all[i])
		if err != nil {
			return nil, err
		}
		items, err := itemsOf(r, all[i].Steps, &out, &e)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			byID[item.ID] = item
		}
	}
	return func(id string) (OutputItem, bool) { item, ok := byID[id]; return item, ok }, nil
}
