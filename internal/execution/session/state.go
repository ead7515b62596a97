package session

import (
	"bytes"
	"context"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/tool"
)

// SetState is the name of the built-in tool that changes the state that a page shares with
// its agent.
const SetState = "set_state"

// Bounds of the state of a session.
const (
	MaxState      = 256 << 10 // bytes
	maxStateDepth = 64
	shownState    = 4 << 10 // bytes that the model is shown after a change
)

// CheckState returns a state in its compact form. Errors: Invalid.
func CheckState(field string, state jsontext.Value) (jsontext.Value, error) {
	state = state.Clone()
	if err := state.Compact(); err != nil {
		return nil, fault.BadFields(fault.Field{Field: field, Message: "it is not valid JSON"})
	}
	switch {
	case len(state) > MaxState:
		return nil, fault.BadFields(fault.Field{Field: field, Message: "it is longer than 256 KiB"})
	case nesting(state) > maxStateDepth:
		return nil, fault.BadFields(fault.Field{Field: field, Message: "it nests deeper than 64"})
	}
	return state, nil
}

// nesting returns how deep a valid JSON value nests.
func nesting(v jsontext.Value) (deepest int) {
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, dec.StackDepth())
	}
}

// StateTool is the tool set_state. It changes what is there only: a run whose page sent no
// state has none.
func StateTool(store ClientStore, writer txn.Writer) tool.Tool {
	return tool.Tool{
		Name: SetState,
		Description: "Changes the state that you share with the page of the user by a JSON Patch (RFC 6902). " +
			"All operations are applied, or none.",
		Parameters: jsontext.Value(`{"type":"object","properties":{"patch":{"type":"array","minItems":1,"maxItems":200,` +
			`"description":"The operations, in order","items":{"type":"object","properties":{` +
			`"op":{"enum":["add","remove","replace","move","copy","test"]},` +
			`"path":{"type":"string","maxLength":1000,"description":"A JSON Pointer, for example /todos/0/done"},` +
			`"from":{"type":"string","maxLength":1000},"value":{}},"required":["op","path"]}}},` +
			`"required":["patch"],"additionalProperties":false}`),
		Idempotent: true,
		Run: func(ctx context.Context, call tool.Call) (tool.Result, error) {
			var result tool.Result
			err := writer.Write(ctx, func(tx txn.Tx) (err error) {
				result, err = setState(tx, store, &call)
				return err
			})
			return result, err
		},
	}
}

func setState(tx txn.Tx, store ClientStore, call *tool.Call) (tool.Result, error) {
	none := tool.Failure("There is no state: the page of the user sent none.")
	if call.SessionID == "" {
		return none, nil
	}
	state, step, err := store.GetStateTx(tx, call.TenantID, call.SessionID)
	switch {
	case err != nil:
		return tool.Result{}, err
	case state == nil:
		return none, nil
	case step == call.StepID: // the call is repeated after a crash
		return changed(state), nil
	}
	next, problem := ApplyPatch(state, call.Arguments)
	if problem != "" {
		return tool.Failure(problem), nil
	}
	return changed(next), store.PutStateTx(tx, call.TenantID, call.SessionID, next, call.StepID)
}

func changed(state jsontext.Value) tool.Result {
	if len(state) > shownState {
		return tool.Result{Output: "The state was changed."}
	}
	return tool.Result{Output: "The state is now " + string(state)}
}

// ApplyPatch returns a state with the patch of a call's arguments applied, or why it
// cannot be.
func ApplyPatch(state jsontext.Value, arguments string) (next jsontext.Value, problem string) {
	var args struct {
		Patch jsontext.Value `json:"patch"`
	}
	if err := json.Unmarshal([]byte(arguments), &args); err != nil {
		return nil, "The arguments are not valid JSON."
	}
	patch, err := jsonpatch.DecodePatch(args.Patch)
	if err != nil {
		return nil, "The patch is not a list of operations of RFC 6902."
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = MaxState
	options.SupportNegativeIndices = false
	changed, err := patch.ApplyWithOptions(state, options)
	if err != nil {
		return nil, "The patch does not apply, and nothing was changed: " + strings.TrimSuffix(err.Error(), ".") + "."
	}
	if next, err = CheckState("state", changed); err != nil {
		return nil, "The patch was not applied: the state would be too large. It has at most 256 KiB and nests at most 64 deep."
	}
	return next, ""
}
