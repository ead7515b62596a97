// Ten operations with the client that hey-api generates, and one type of
// openapi-typescript's. It is compiled strictly, so that the types are a test too.
import assert from "node:assert/strict";
import * as api from "./client/index";
import type { components } from "./types";

const auth = () => process.env.AGENTD_KEY ?? "";
const client = (await import("./client/client.gen")).client;
client.setConfig({ baseUrl: process.env.AGENTD_URL ?? "", auth });

const must = <T>(answer: { data?: T; error?: unknown }): T => {
  assert.ok(answer.data !== undefined, JSON.stringify(answer.error));
  return answer.data;
};

must(await api.getHealth());
must(await api.getMe());

// A field with a default may be left out of a request.
const whole: components["schemas"]["AgentCreate"] = { name: "typed", schedule: { cron: "0 0 29 2 *" } };
const agent = must(await api.createAgent({ body: whole })) as api.Agent;
const read: components["schemas"]["Agent"] = must(await api.getAgent({ path: { agentId: agent.agent_id } }));
assert.equal(read.name, "typed");
// What was read can be sent as it is.
const again: components["schemas"]["AgentUpdate"] = read;
const same = must(await api.updateAgent({ path: { agentId: agent.agent_id }, body: agent })) as api.Agent;
assert.equal(same.schedule?.cron, again.schedule?.cron);
const agents = must(await api.listAgents({ query: { limit: 5 } }));
assert.ok(agents.items.some((a) => a.agent_id === agent.agent_id));

const run = must(await api.createRun({ body: { agent_id: agent.agent_id, input: { message: "Hello" } } })) as api.Run;
const { stream } = await api.streamRunEvents({ path: { runId: run.run_id } });
let text = "";
let status = "";
for await (const event of stream) {
  if (typeof event === "string") continue; // [DONE]
  const e: api.RunEvent = event;
  if (e.event === "llm.chunk") text += e.text;
  if (e.event === "done") {
    status = e.status;
    break; // the client would reconnect otherwise
  }
}
assert.equal(status, "completed");
assert.ok(text.length > 0);

const ended = must(await api.getRun({ path: { runId: run.run_id } }));
assert.equal(ended.status, "completed");
assert.ok(must(await api.listRuns({ query: { status: ["completed", "failed"] } })).items.length > 0);
assert.ok(must(await api.listRunSteps({ path: { runId: run.run_id } })).steps.length > 0);
must(await api.deleteAgent({ path: { agentId: agent.agent_id } }));

const missing = await api.getRun({ path: { runId: crypto.randomUUID() } });
assert.equal(missing.error?.code, "NOT_FOUND");
console.log("12 operations");
