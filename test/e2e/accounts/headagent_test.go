package accounts

import (
	"slices"
	"testing"

	"agentd/internal/app/apptest"
)

// Every proposed agent can be created as it is, has tools that exist, and takes a run; a
// company whose plan is too small is shown what it would get, and gets none of it.
func TestHeadAgentTemplate(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	const path = "/api/v1/me/head-agent-template"
	got := n.Expect(200, "GET", path, nil)
	if got["plan"] != "self_hosted" || got["recommended"] != "standard" {
		t.Errorf("%v", got)
	}
	texts := func(v any) (all []string) {
		for _, one := range v.([]any) {
			all = append(all, one.(string))
		}
		return all
	}
	known := map[string]bool{}
	for _, one := range n.Expect(200, "GET", "/api/v1/admin/tools", nil)["tools"].([]any) {
		known[one.(object)["name"].(string)] = true
	}
	counts := []float64{}
	for _, one := range got["tiers"].([]any) {
		offer := one.(object)
		specs, ids := offer["install_specs"].([]any), texts(offer["tier"].(object)["spec_ids"])
		if offer["available"] != true || len(specs) != len(ids) {
			t.Errorf("%v", offer)
		}
		asked := []string{}
		all := map[string]bool{}
		for i, spec := range specs {
			body := spec.(object)
			made := n.Expect(201, "POST", "/api/v1/agents", body)
			if body["spec_id"] != ids[i] || made["metadata"].(object)["spec_id"] != ids[i] || made["name"] != body["name"] {
				t.Errorf("%v became %v", body, made)
			}
			tools := texts(made["built_in_tools"])
			if !slices.Equal(tools, texts(body["built_in_tools"])) || len(tools) == 0 {
				t.Errorf("%s has the tools %v", ids[i], tools)
			}
			for _, name := range tools {
				if all[name] = true; !known[name] {
					t.Errorf("there is no tool %s", name)
				}
			}
			asked = append(asked, texts(made["approval_required_tools"])...)
			if made["prompts"].(object)["system"] == "" {
				t.Errorf("%s has no instructions", ids[i])
			}
		}
		if offer["total_tool_count"] != float64(len(all)) {
			t.Errorf("%v tools, want %d", offer["total_tool_count"], len(all))
		}
		auto := texts(offer["auto_approve_tools"])
		if len(auto)+len(asked) != len(all) || slices.ContainsFunc(auto, func(name string) bool { return slices.Contains(asked, name) || !all[name] }) {
			t.Errorf("%v need no approval, %v do", auto, asked)
		}
		counts = append(counts, offer["total_tool_count"].(float64))
	}
	if len(counts) != 3 || !slices.IsSorted(counts) {
		t.Errorf("tools of the tiers: %v", counts)
	}

	n.Expect(200, "PUT", "/api/v1/admin/config/plans", object{"plans": object{
		"free": object{"name": "Free", "limits": object{}}, "pro": object{"name": "Pro", "limits": object{}},
	}})
	_, small := n.CreateTenant(object{"name": "Small", "plan": "free"})
	got = small.Expect(200, "GET", path, nil)
	if got["plan"] != "free" || got["recommended"] != "basic" {
		t.Errorf("%v", got)
	}
	for i, one := range got["tiers"].([]any) {
		offer := one.(object)
		if first := i == 0; offer["available"] != first || (len(offer["install_specs"].([]any)) > 0) != first || offer["total_tool_count"] != counts[i] {
			t.Errorf("%v", offer)
		}
	}
	_, large := n.CreateTenant(object{"name": "Large", "plan": "pro"})
	if got = large.Expect(200, "GET", path, nil); got["tiers"].([]any)[2].(object)["available"] != true {
		t.Errorf("%v", got)
	}
}
