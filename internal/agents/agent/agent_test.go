package agent_test

import (
	"errors"
	"strings"
	"testing"

	"agentd/internal/agents/agent"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

var options = agent.Options{
	Tools: []string{"calculator", "current_time"},
	CheckURL: func(url string) error {
		if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
			return errors.New("expected an http or https address")
		}
		return nil
	},
}

func build(deps resource.Deps) *resource.Versioned[agent.Agent] {
	return agent.New(deps, options).Versioned()
}

var samples = resourcetest.Samples{
	Minimal: `{"name":"Ada"}`,
	Defaults: map[string]string{
		"name": `"Ada"`, "description": `""`, "version": `"1"`, "status": `"active"`, "prompts": `{}`,
		"model": `{"provider":"custom","model_ref":"builtin/echo","capabilities":{}}`, "fallback_model": `null`,
		"execution_mode": `"async"`, "context_window_size": `20`, "context_strategy": `"compaction"`, "worker_reuse": `false`,
		"skills": `[]`, "built_in_tools": `[]`, "mcp": `{}`, "policies": `{}`, "metadata": `{}`,
		"resource_limits": `null`, "model_retry": `null`, "memory": `null`, "core_memory": `null`, "schedule": `null`, "workspace_id": `null`,
		"visibility": `"private"`, "auto_approve_tools": `[]`, "tool_overrides": `[]`, "knowledge_base_ids": `[]`, "specs": `[]`,
		"public_config": `null`, "access_control": `null`, "command_relationships": `null`, "autonomy": `null`, "bridge": `null`,
	},
	Full: `{"name":"Agent %d","description":"d",
		"model":{"provider":"openai_compat","model_ref":"m","endpoint_url":"https://example.com/v1","api_key_ref":"k","capabilities":{"vision":true}},
		"fallback_model":{"provider":"openai_compat","model_ref":"f","capabilities":{}},"model_retry":{"max_elapsed_ms":0,"max_attempts":1000},
		"prompts":{"system":"s","developer":"dev"},"mcp":{"servers":[{"id":"1"}]},"policies":{"approval_timeout_ms":1000},
		"skills":[{"id":"x","any":[1,2]}],"thinking":{"mode":"fixed","effort":3},"outcome":{"criteria":[{"name":"short"}]},"effort_policy":{"plan":"low"},
		"resource_limits":{"max_steps":0,"max_cost_usd":1.5},"memory":{"enabled":true,"types":["note"]},"core_memory":{"enabled":true,"blocks":[{"label":"human"}]},
		"guardrails":{"input":[],"built_in":["pii"]},"approval_required_tools":["calculator"],"built_in_tools":["calculator","current_time"],
		"image_generation":{"model":"i"},"knowledge_base_id":"kb","execution_mode":"worker","worker_reuse":true,
		"schedule":{"cron":"* * * * *","enabled":true},"a2a":{"enabled":true},"risk_classification":{"level":"minimal"},
		"workspace_id":"w","context_strategy":"sliding_window","context_window_size":5,"metadata":{"a":1,"b":{"c":2}},
		"visibility":"tenant","auto_approve_tools":["calculator"],"tool_overrides":[{"tool_name":"pay","trust_level":"never_allow"}],
		"knowledge_base_ids":["kb","kc"],"public_config":{"enabled":true,"greeting":"Hello"},"autonomy":{"level":"full_auto"},
		"access_control":{"clearance":2,"compartments":["x"]},"command_relationships":{"opcon":"o"},"specs":[{"spec_id":"s","mine":1}],
		"bridge":{"machines":1},"model_settings":{"temperature":0.5,"seed":1}}`,
	Refused: []resourcetest.Refused{
		{Body: `{}`, Fields: []string{"name"}},
		{Body: `{"name":"  "}`, Fields: []string{"name"}},
		{Body: `{"name":"` + strings.Repeat("x", 201) + `"}`, Fields: []string{"name"}},
		{
			Body: `{"name":7,"model":{"provider":"other","endpoint_url":"x"},"prompts":{"system":1},"mcp":[],"skills":[1],
				"resource_limits":{"max_steps":-1,"max_duration_ms":1.5},"execution_mode":"elsewhere","context_window_size":0,
				"built_in_tools":["calculator","rm"],"metadata":"x","memory":7,"schedule":{"enabled":true},"worker_reuse":"no"}`,
			Fields: []string{
				"name", "model.provider", "model.model_ref", "model.endpoint_url", "prompts.system", "mcp", "skills[0]",
				"resource_limits.max_steps", "resource_limits.max_duration_ms", "execution_mode", "context_window_size",
				"built_in_tools[1]", "metadata", "memory", "schedule.cron", "worker_reuse",
			},
		},
		{
			Body: `{"name":"a","model":{"provider":"custom","model_ref":"m","endpoint_url":"ftp://example.com"},
				"fallback_model":{"provider":"custom","model_ref":"m","endpoint_url":"file:///etc/passwd"},"schedule":{"cron":""}}`,
			Fields: []string{"model.endpoint_url", "fallback_model.endpoint_url", "schedule.cron"},
		},
		{
			Body: `{"name":"a","thinking":{"mode":"sometimes","budget_tokens":0},
				"effort_policy":{"plan":"huge","act":1,"evaluate":""},"image_generation":{"provider":1,"model":[]}}`,
			Fields: []string{
				"thinking.mode", "thinking.budget_tokens", "effort_policy.plan", "effort_policy.act", "effort_policy.evaluate",
				"image_generation.provider", "image_generation.model",
			},
		},
		{
			Body: `{"name":"a","model_retry":{"max_elapsed_ms":86400001,"max_attempts":0}}`, Fields: []string{"model_retry.max_elapsed_ms", "model_retry.max_attempts"},
		},
		{
			Body: `{"name":"a","model_retry":{"max_elapsed_ms":-1,"max_attempts":1001}}`, Fields: []string{"model_retry.max_elapsed_ms", "model_retry.max_attempts"},
		},
		{Body: `{"name":"a","model_retry":{"max_elapsed_ms":"1","max_attempts":1.5}}`, Fields: []string{"model_retry.max_elapsed_ms", "model_retry.max_attempts"}},
		{
			Body: `{"name":"a","model_settings":{"temperature":3,"top_p":-1,"max_output_tokens":0,"seed":"x","stop":["a","b","c","d","e"],
				"presence_penalty":-3,"reasoning_effort":"huge","prompt_cache":"on"}}`,
			Fields: []string{
				"model_settings.temperature", "model_settings.top_p", "model_settings.max_output_tokens", "model_settings.seed", "model_settings.stop",
				"model_settings.presence_penalty", "model_settings.reasoning_effort", "model_settings.prompt_cache",
			},
		},
		{Body: `{"name":"a","model_settings":{"response_format":{"type":"xml"}}}`, Fields: []string{"model_settings.response_format"}},
		{
			Body:   `{"name":"a","model_settings":{"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"what"}}}}}`,
			Fields: []string{"model_settings.response_format"},
		},
		{Body: `{"name":"a","thinking":{"effort":101}}`, Fields: []string{"thinking.effort"}},
		{Body: `{"name":"a","thinking":{"effort":"most"}}`, Fields: []string{"thinking.effort"}},
		{Body: `{"name":"a","thinking":{"effort":true,"budget_tokens":1}}`, Fields: []string{"thinking.effort"}},
		{
			Body: `{"name":"a","memory":{"enabled":"yes","types":["dreams"],"retrieval_strategy":"best","decay_half_life_days":0},
				"core_memory":{"blocks":[{},{"label":"a b"}]},"guardrails":{"built_in":["x"],"input":[{"guardrail_id":"1"}]},
				"policies":{"approval_timeout_ms":0,"cancel_on_disconnect":1,"tool_approvals":[{"tool_name":"pay","approval":"maybe"}]},
				"mcp":{"servers":[{"args":"x","egress_allowlist":[{}]}],"allowed_tools":"all"},
				"schedule":{"cron":"","on_failure":"panic"},"a2a":{"enabled":"yes"},"risk_classification":{"level":"none"}}`,
			Fields: []string{
				"memory.enabled", "memory.types[0]", "memory.retrieval_strategy", "memory.decay_half_life_days",
				"core_memory.blocks[0].label", "core_memory.blocks[1].label", "guardrails.built_in[0]", "guardrails.input[0].guardrail_id",
				"policies.approval_timeout_ms", "policies.cancel_on_disconnect", "policies.tool_approvals[0].approval",
				"mcp.servers[0].args", "mcp.servers[0].egress_allowlist[0].host_pattern", "mcp.allowed_tools",
				"schedule.cron", "schedule.on_failure", "a2a.enabled", "risk_classification.level",
			},
		},
		{
			Body: `{"name":"a","visibility":"everyone","auto_approve_tools":[1],"knowledge_base_ids":"kb","public_config":{},
				"autonomy":{"level":"some"},"access_control":{"clearance":5},"tool_overrides":[{"tool_name":"","trust_level":"maybe"}],
				"command_relationships":{"coordinates_with":"x"},"specs":[{}],"bridge":[]}`,
			Fields: []string{
				"visibility", "auto_approve_tools[0]", "knowledge_base_ids", "public_config.enabled", "autonomy.level",
				"access_control.clearance", "tool_overrides[0].tool_name", "tool_overrides[0].trust_level",
				"command_relationships.coordinates_with", "specs[0].spec_id", "bridge",
			},
		},
		{
			Body: `{"name":"a","tool_overrides":[{"tool_name":"pay","trust_level":"ask_first"},{"tool_name":"pay","trust_level":"never_allow"}],
				"policies":{"tool_approvals":[{"tool_name":"pay","approval":"when","condition":"arguments."},{"tool_name":"a","approval":"never","condition":"true"}]}}`,
			Fields: []string{"tool_overrides[1].tool_name", "policies.tool_approvals[0].condition", "policies.tool_approvals[1].condition"},
		},
	},
	Changes: []resourcetest.Changed{
		{Patch: `{"name":"New"}`, Want: map[string]string{"name": `"New"`}},
		{Patch: `{"resource_limits":{"max_steps":9}}`, Want: map[string]string{"resource_limits": `{"max_steps":9,"max_cost_usd":1.5}`}},
		{Patch: `{"resource_limits":{"max_cost_usd":null}}`, Want: map[string]string{"resource_limits": `{"max_steps":0}`}},
		{Patch: `{"resource_limits":null}`, Want: map[string]string{"resource_limits": `null`}},
		{Patch: `{"model_retry":{"max_elapsed_ms":86400000}}`, Want: map[string]string{"model_retry": `{"max_elapsed_ms":86400000,"max_attempts":1000}`}},
		{Patch: `{"metadata":{"b":{"d":3},"a":null}}`, Want: map[string]string{"metadata": `{"b":{"d":3}}`}},
		{Patch: `{"memory":{"enabled":false}}`, Want: map[string]string{"memory": `{"enabled":false,"types":["note"]}`}},
		{Patch: `{"core_memory":{"enabled":false}}`, Want: map[string]string{"core_memory": `{"blocks":[{"label":"human"}],"enabled":false}`}},
		{Patch: `{"schedule":{"enabled":false}}`, Want: map[string]string{"schedule": `{"cron":"* * * * *","enabled":false}`}},
		{Patch: `{"prompts":{"system":"only"}}`, Want: map[string]string{"prompts": `{"system":"only"}`}},
		{
			Patch: `{"thinking":{"mode":null,"effort":0,"mine":[1]},"effort_policy":{"act":null}}`,
			Want:  map[string]string{"thinking": `{"mode":null,"effort":0,"mine":[1]}`, "effort_policy": `{"act":null}`},
		},
		{Patch: `{"image_generation":{"provider":"acme"}}`, Want: map[string]string{"image_generation": `{"model":"i","provider":"acme"}`}},
		{Patch: `{"visibility":"team"}`, Want: map[string]string{"visibility": `"tenant"`}},
		{Patch: `{"visibility":null}`, Want: map[string]string{"visibility": `"private"`}},
		{Patch: `{"public_config":{"enabled":false}}`, Want: map[string]string{"public_config": `{"enabled":false,"greeting":"Hello"}`}},
		{Patch: `{"access_control":{"clearance":4}}`, Want: map[string]string{"access_control": `{"clearance":4,"compartments":["x"]}`}},
		{Patch: `{"command_relationships":{"opcon":null}}`, Want: map[string]string{"command_relationships": `{}`}},
		{Patch: `{"policies":{}}`, Want: map[string]string{"policies": `{}`}},
		{
			Patch: `{"model":null,"fallback_model":null,"execution_mode":null}`,
			Want: map[string]string{
				"model": `{"provider":"custom","model_ref":"builtin/echo","capabilities":{}}`, "fallback_model": `null`, "execution_mode": `"async"`,
			},
		},
		{
			Patch: `{"model":{"provider":"custom","model_ref":"builtin/echo"}}`,
			Want:  map[string]string{"model": `{"provider":"custom","model_ref":"builtin/echo","capabilities":{}}`},
		},
		{Patch: `{"built_in_tools":[],"skills":[]}`, Want: map[string]string{"built_in_tools": `[]`, "skills": `[]`}},
	},
}

func TestKind(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		resourcetest.Versioned(t, resourcesql.New(db), db, build, samples)
	})
}
