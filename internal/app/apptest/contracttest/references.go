package contracttest

// References maps the fields of bodies and queries to the path parameter whose IDs
// they take, or to "" where the value is stored without being looked up.
var References = map[string]string{
	"agent_id":        "agentId",
	"public_agent_id": "agentId", "published_agent_ids": "agentId",
	"tenant_id": "tenantId", // one of the person's

	"session_id": "sessionId",
	"dataset_id": "datasetId",
	"run_ids":    "runId",
	"subject_id": "userId", // a member whose data is read or erased

	"baseline_eval_run_id": "evalRunId",
	"eval_run_id":          "evalRunId",

	"assign_agent_id":   "agentId",
	"fork_point_run_id": "runId",
	"parent_branch_id":  "branchId",
	"message_id":        "", // any message id that an annotation names
	"agent_ids":         "agentId",
	"session_ids":       "sessionId",

	"run_id":        "runId",
	"parent_run_id": "runId",
	"root_run_id":   "runId",
	"started_by":    "", // a type and an id, which is compared and not looked up
	// Approvals are looked for among those of the run.
	"approval_id":           "approvalId",
	"model":                 "model", // of the chat routes: an agent
	"createEmbedding model": "",      // whatever it says

	"previous_response_id": "responseId",

	"assigned_agent_ids":     "agentId",
	"server_ids":             "serverId",
	"integration_id":         "integrationId",
	"integration_ids":        "integrationId",
	"connector_id":           "", // of the program
	"program_id":             "", // of no table
	"stripe_subscription_id": "", // of Stripe
	"client_id":              "", // of an authorization server
	// Of Microsoft's directory, not of ours.
	"access.entra.tenant_id": "", "access.entra.client_id": "",
	"access.aws.access_key_id": "", // of Amazon's
	"workspace_id":             "workspaceId",
	"knowledge_base_id":        "knowledgeBaseId",
	"knowledge_base_ids":       "knowledgeBaseId",
	"mcp.servers[].id":         "", // callers choose it
	"skills[].id":              "", // callers choose it
	// They are looked up when a run uses the skill, among the company's.
	"skills[].files[].file_id": "",
	"spec_id":                  "", // of no table yet

	// Front ends choose them.
	"external_id": "", "sendUIMessages id": "", "sendUIMessages messages[].id": "",
	"runAguiAgent messages[].id": "", "runAguiAgent messages[].toolCalls[].id": "",

	// Guardrails are looked up when runs need them, among the company's.
	"guardrail_id": "",

	"actor_id": "keyId",

	"kb_ids":            "knowledgeBaseId",
	"proposer_agent_id": "agentId",
	"parent_agent_id":   "agentId",
	"root_agent_id":     "agentId",
	"founder_id":        "", // the caller

	"from_agent_id":                 "agentId",
	"spawned_agent_id":              "agentId",
	"ambassador_id":                 "", // a name, or a member of this company
	"failed_run_ids":                "runId",
	"vote_proposal_id":              "", // read only with the status voting
	"target_id":                     "", // see hidden in test/e2e/isolation/bodies_test.go
	"against_agent_id":              "agentId",
	"arbiter_agent_ids":             "agentId",
	"filed_by":                      "agentId",
	"penalties[].agent_id":          "", // see hidden in test/e2e/isolation/bodies_test.go
	"rule_ids":                      "", // only shown
	"arbiter_id":                    "", // compared with the one that is assigned
	"supervisor_agent_id":           "agentId",
	"workers[].agent_id":            "agentId",
	"swarm_config.initial_agent_id": "agentId",
	"goal_config.judge_agent_id":    "agentId",
	"strategist_agent_id":           "agentId",
	"planner_agent_id":              "agentId",
	"judge_agent_id":                "agentId",
	"available_agents[].agent_id":   "agentId",
	"assigned_agent_id":             "agentId",
	"assigned_team_id":              "teamId",

	"plan.objectives[].assigned_agent_id":       "agentId",
	"plan.objectives[].assigned_team_id":        "teamId",
	"decision_points[].branches[].objective_id": "", // of the mission in the path alone
	"decision_points[].fallback_objective_id":   "", // the same
	"team_ids":                  "teamId",
	"config.judge_agent_id":     "agentId",
	"strategic_goals[].goal_id": "", // of the initiative itself
	"thread_id":                 "", // of a team's chat, among the team's own

	"policies.validation.validator_agent_id": "agentId",
	"addTeamGraphEdge task_id":               "", // as callers name their tasks
	"spawned_by":                             "", // as callers say

	"customer_id":           "customerId",
	"product_id":            "productId",
	"storefront_product_id": "", // of systems outside, as are the next two
	"payment_price_id":      "",
	"payment_intent_id":     "",
	// Rules and checks only compare these.
	"rule_id": "", "rules[].rule_id": "", "rule.rule_id": "",
	"checkGovernance agent_id": "", "checkGovernance run_id": "",
	"founder_public_key": "", // no name of anything
	"proposal_id":        "", // kept beside a goal or an amendment

	// What will name things once there are any.
	"team_id":                    "",
	"assign_team_id":             "",
	"company_id":                 "",
	"createVectorStore file_ids": "", // refused
	"file_ids":                   "fileId",
	"vector_store_ids":           "vectorStoreId", "tools[].vector_store_ids": "vectorStoreId",
	"file_id": "fileId",

	"honours_idempotency_keys": "", // a setting

	// A limit of tokens, not a token.
	"max_tokens": "", "max_completion_tokens": "", "max_output_tokens": "", "constraints.max_context_tokens": "",
	// Names of secrets and variables that the company keeps beside: it has no
	// way to name another's.
	"api_key_ref": "", "auth.env_key": "",
	"setLlmCredential api_key": "", // a secret, not its name
	"model_ref":                "", // a name that an endpoint knows
	"continuation_token":       "", // of the run in the path alone: TestContinuationsOfOthers

	// Of a machine's own choice: another member's is as if there were none.
	"compareRuns with": "runId", "strategic_goals[].root_objective_id": "", // the platform sets it
	"plan_id": "", "captcha_token": "", "decisions[].id": "", // with a kind; each row says by itself whether it was decided
	"[].event_id": "", "[].approval_id": "", "[].input_tokens": "", "[].output_tokens": "", // of a machine's own counting
	"machine_id": "", "tool_call_id": "",
	"installed_specs[].spec_id": "",

	// Of the company's own credentials: TestTeamsWithExternalWorkers.
	"workers[].external_a2a.auth.token_ref": "",

	"token": "", // of the invite in the path, or of a mail

	// Ids that callers choose themselves.
	"callMcp id":                 "",
	"a2aJsonRpc id":              "",
	"context_id":                 "",
	"messages[].message_id":      "",
	"createSpeech model":         "", // of the catalogue
	"messages[].tool_call_id":    "",
	"messages[].tool_calls[].id": "",
}

// PlainParameters are parameters of paths that are no ids: they only mean
// something beside one.
var PlainParameters = map[string]bool{
	"versionNum": true, "machine": true, "label": true, "entity": true, "provider": true,
	"planId":  true, // of the deployment
	"slug":    true, // of a profile that everybody sees
	"version": true, // a number, of which every agent has its own
	"shareId": true, // the link authorizes its reader
}

// Unconditional lists the parameters of operations that answer the same whether
// or not the resource exists, with their status.
var Unconditional = map[string]int{
	"resumeUIStream chatId": 204,                                                                                // nothing runs
	"compareRuns with":      404, "dataSubjectAccess subject_id": 404, "getBridgeTaskApproval approval_id": 404, // they name one thing
	"bridgePoll agent_id": 404, "getBridgeAgentSpecs agent_id": 404,
	"unassignWorkspace agent_id":  404, // a query parameter that is no filter
	"getAgentObligations agentId": 200, "getAgentViolations agentId": 200,
	"listAuditEntriesOfTarget targetId": 200, "deleteWebhook webhookId": 200, "deleteSensor sensorId": 200,
	"deleteMemoryEntry entryId": 204, "updateBridgeAgentCapability agentId": 200, "markNotificationRead notificationId": 200, "deleteNotification notificationId": 200,
}
