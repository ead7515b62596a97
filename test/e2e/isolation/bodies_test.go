package isolation

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest/contracttest"
)

// idField is a place in a body that names a thing, or may.
type idField struct {
	path string // resource_limits.x, messages[].tool_call_id
	name string // its last part
	list bool   // of ids
}

// naming are names of fields that name things.
var naming = regexp.MustCompile(`(^|_)(ids?|uuids?|refs?|tokens?|keys?|by)$`)

// idFieldsOf lists the fields of the body that may name things, however deep.
func idFieldsOf(o *contracttest.Operation) []idField {
	found := map[string]idField{}
	o.WalkFields(o.BodySchema, "", 0, func(path, name string, s *contracttest.Schema) {
		s = o.Resolve(s)
		list := s.Items != nil
		if naming.MatchString(name) || s.Format == "uuid" || list && o.Resolve(s.Items).Format == "uuid" {
			found[path] = idField{path, name, list}
		}
	})
	return slices.SortedFunc(maps.Values(found), func(a, b idField) int { return strings.Compare(a.path, b.path) })
}

// freeFieldsOf lists the fields of the body that take any JSON: what names
// things in there no schema tells.
func freeFieldsOf(o *contracttest.Operation) []string {
	found := map[string]bool{}
	o.WalkFields(o.BodySchema, "", 0, func(path, _ string, s *contracttest.Schema) {
		s = o.Resolve(s)
		if s.More == true || s.Type == nil && s.AnyOf == nil && s.Properties == nil {
			found[path] = true
		}
	})
	return slices.Sorted(maps.Keys(found))
}

// bodies puts the other company's ids into the body.
func (in intruder) bodies() {
	for _, field := range idFieldsOf(in.op) {
		target, known := in.reference(field)
		if !known {
			in.Errorf("%s: no test knows what the field %s of its body names: add it to References in internal/app/apptest/contracttest/recipes.go", in.op, field.path)
		}
		status := 404
		if field.list { // a list that is wrong in one place
			status = 422
		}
		if unusual := absences[in.op.ID+" "+field.path]; unusual != 0 {
			status = unusual
		}
		in.body(field, target, status)
	}
	for _, field := range freeFieldsOf(in.op) {
		if plainFree[field] == "" && plainFree[in.op.ID+" "+field] == "" && hidden[in.op.ID] == nil {
			in.Errorf("%s: the field %s of its body takes any JSON: say in plainFree (test/e2e/isolation/bodies_test.go) why nothing in it names a thing, "+
				"or add what does to hidden", in.op, field)
		}
	}
	for _, ref := range hidden[in.op.ID] {
		for _, id := range in.theirs.IDs[ref.target] {
			k := in.mine.OwnCall(in.op)
			in.absent(k, id, ref.status, func(id string) { k.Body = ref.body(in.mine, id) })
		}
	}
}

// reference says what a field names: by operation and path, by path, by name.
func (in intruder) reference(field idField) (target string, known bool) {
	for _, name := range []string{in.op.ID + " " + field.path, field.path, field.name} {
		if target, known = contracttest.References[name]; known {
			return target, true
		}
	}
	return "", false
}

// body puts the other company's ids into one field.
func (in intruder) body(field idField, target string, status int) {
	k := in.mine.OwnCall(in.op)
	base, _ := k.Body.(object)
	for _, id := range in.theirs.IDs[target] {
		got := in.absent(k, id, status, func(id string) {
			k.Body = alone(in.op.ID, field.path, contracttest.WithField(base, field.path, listed(field.list, id)))
		})
		if status == 200 && strings.Contains(string(got.Body), in.theirs.Mark) {
			in.Errorf("%s: %s", in.op, got.Body)
		}
		if own := in.mine.IDs[target]; field.list && status >= 400 { // among one's own
			in.absent(k, id, status, func(id string) {
				k.Body = alone(in.op.ID, field.path, contracttest.WithField(base, field.path, []any{own[0], id}))
			})
		}
	}
}

func listed(list bool, id string) any {
	if list {
		return []any{id}
	}
	return id
}

// alone takes away the fields that exclude another.
func alone(op, path string, body object) object {
	for _, name := range exclusive[op+" "+path] {
		delete(body, name)
	}
	return body
}

// absences are what operations answer to a body that names what is not there,
// where that is neither 404 nor, in a list, 422.
var absences = map[string]int{
	"createTask agent_ids":             404,
	"updateTenant published_agent_ids": 404, "patchTenant published_agent_ids": 404,
	"bridgeRegister parent_agent_id":    422,                                                 // as an agent that is no machine's
	"completeIntegrationOAuth agent_id": 400, "completeIntegrationOAuth integration_id": 400, // no state is known here
	"bridgeDeregister agent_id":      200, // who is not there has left
	"sendSessionMessage file_ids":    404,
	"bulkDeleteSessions session_ids": 200, // the others are deleted; it stands among the failed
}

// exclusive are the fields that a body must not have beside another.
var exclusive = map[string][]string{
	"createTask agent_ids": {"agent_id"},
}

// plainFree are the fields of any JSON in which nothing names a thing of the
// platform, and why. By path, or by operation and path.
var plainFree = map[string]string{
	"[].metrics": "numbers of a machine", "context": "for the model to read", "stats": "numbers of a machine", "properties": "counted by name alone",
	"confirm":            "true, or the id of the person once more",
	"runAguiAgent state": "for the model to read", "runAguiAgent resume[].payload": "an answer to what the caller's own run waits for",
	"sendUIMessages tools": "of the page", "decisions[].arguments": "of a tool, whose own checks hold",
	"createVectorStore expires_after": "refused", "updateVectorStore expires_after": "refused", "createVectorStore file_ids": "refused",
	"searchVectorStore filters": "refused", "searchVectorStore query": "words", "createVectorStoreFile attributes": "refused", "tools[].filters": "refused",
	"importAdminConfig sections":  "settings of the whole service, which names nothing of a company",
	"createMessage cache_control": "whether it is an object is all that counts", "tools[].cache_control": "as cache_control",
	"sanction": "only null counts", "messages[].parts[].data": "for the model to read",
	"metadata": "kept as it comes", "entries[].metadata": "kept as it comes", "agents[].entries[].metadata": "kept as it comes",
	"pricing":  "prices, and whatever else the owner likes to say",
	"settings": "kept as it comes", "branding": "kept as it comes", "social_links": "kept as it comes",
	"addresses[]": "kept as it comes", "course_structure": "kept as it comes", "variants[]": "kept as it comes", "options[]": "kept as it comes", "bridge": "kept as it comes", "specs[].permissions_granted[]": "kept as it comes",
	"a2a.agent_card": "kept as it comes", "policies.abac": "kept as it comes", "policies.rbac": "kept as it comes",
	"policies.rate_limits": "kept as it comes",
	"model.capabilities":   "what a model can do", "thinking.effort": "of models", "memory.extraction_model": "a model",
	"extra":  "settings of a connector",
	"config": "what a guardrail looks for, or settings of a connector", "guardrails.input[].config_override": "what a guardrail looks for",
	"guardrails.output[].config_override": "what a guardrail looks for", "guardrails.tool[].config_override": "what a guardrail looks for",
	"schedule.input": "what the model is told", "cases[].input": "what the model is told; files in it are looked for when a run begins",
	"cases[].expected_output": "compared", "cases[].expected_tool_calls[].arguments": "compared", "cases[].metadata": "kept as it comes",
	"config.schema": "a schema for the answer",
	"input":         "what the model is told, and whatever else the caller likes to keep", "evidence": "for those who read the case", "design": "for those who decide on the request",
	"diff":               "checked, and carried out by nothing",
	"arguments":          "of a tool that the agent has; see TestToolsOfIntruders",
	"messages[].content": "what the model is told", "stop": "texts", "stream_options": "a switch", "tool_choice": "a name in the same body",
	"tools[].function.parameters": "a schema for the model", "tools[].parameters": "a schema for the model",
	"output_config": "a schema for the answer", "output_format": "a schema for the answer", "thread": "refused, or a word",
	"text": "a schema for the answer", "reasoning": "a switch", "conversation": "refused", "prompt": "refused",
	"system": "what the model is told", "tools[].input_schema": "a schema for the model",
}

// hidden are references in JSON whose schema does not tell of them, by
// operation: the whole body with an id in it.
var hidden = map[string][]struct {
	target string
	status int
	body   func(mine *contracttest.Company, id string) any
}{
	"callMcp": {{"agentId", 200, func(_ *contracttest.Company, id string) any {
		return object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{"name": id, "arguments": object{"message": "x"}}}
	}}},
	"a2aJsonRpc": {{"taskId", 200, func(_ *contracttest.Company, id string) any {
		return object{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": object{"id": id}}
	}}, {"agentId", 200, func(_ *contracttest.Company, id string) any {
		return object{"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", "params": object{"agent_id": id}}
	}}},
	"createVotingProposal": {{"agentId", 404, func(_ *contracttest.Company, id string) any {
		return object{"title": "x", "proposal_type": "agent_termination", "payload": object{"agent_id": id}}
	}}},
	"ambassadorVeto": {
		{"agentId", 404, vetoOf("agent")}, {"proposalId", 404, vetoOf("proposal")}, {"caseId", 404, vetoOf("case")},
		{"approvalId", 404, vetoOf("action")},
	},
	"issueArbiterRuling": {{"agentId", 404, func(_ *contracttest.Company, id string) any {
		return object{"decision": "upheld", "penalties": []object{{"type": "warning", "agent_id": id}}}
	}}},
	"createChatCompletion": {
		{"agentId", 404, func(_ *contracttest.Company, id string) any { return chatWith(id) }},
		{"agentId", 404, func(_ *contracttest.Company, id string) any { return chatWith("agent/" + id) }},
	},
	"createResponse": {
		{"agentId", 404, func(_ *contracttest.Company, id string) any { return object{"model": "agent/" + id, "input": "x"} }},
		{"responseId", 422, func(mine *contracttest.Company, id string) any {
			return object{"model": mine.IDs["agentId"][0], "input": []object{{"type": "item_reference", "id": "msg_" + id}}}
		}},
	},
}

func vetoOf(kind string) func(*contracttest.Company, string) any {
	return func(_ *contracttest.Company, id string) any {
		return object{"target_type": kind, "target_id": id, "reason": "x"}
	}
}

func chatWith(model string) object {
	return object{"model": model, "messages": []object{{"role": "user", "content": "x"}}}
}

func TestWith(t *testing.T) {
	t.Parallel()
	body := object{"a": 1, "list": []any{object{"x": 1, "id": "old"}}, "deep": object{"y": 2}}
	for path, want := range map[string]object{
		"a":         {"a": "!", "list": body["list"], "deep": body["deep"]},
		"new":       {"a": 1, "list": body["list"], "deep": body["deep"], "new": "!"},
		"deep.id":   {"a": 1, "list": body["list"], "deep": object{"y": 2, "id": "!"}},
		"list[].id": {"a": 1, "list": []any{object{"x": 1, "id": "!"}}, "deep": body["deep"]},
		"no[].p.q":  {"a": 1, "list": body["list"], "deep": body["deep"], "no": []any{object{"p": object{"q": "!"}}}},
		"list[]":    {"a": 1, "list": []any{"!"}, "deep": body["deep"]},
	} {
		if diff := cmp.Diff(want, contracttest.WithField(body, path, "!")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}
