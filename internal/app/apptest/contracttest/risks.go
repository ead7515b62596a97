package contracttest

import "agentd/internal/app/apptest"

// assessed names the agent that is classified; the first one is changed by others.
func assessed(c *Company, call *Call) { call.Path["agentId"] = c.IDs["agentId"][1] }

func impact(c *Company) apptest.Object {
	return apptest.Object{
		"rights_assessed": []apptest.Object{{"right": "privacy", "impact": "low", "justification": c.Mark}},
		"mitigations":     "made by a test", "assessor": "made by a test", "next_review": "2030-01-01T00:00:00Z",
	}
}

// assess classifies an agent, and assesses its impact.
func (c *Company) assess(agent string) {
	c.T.Helper()
	c.Expect(200, "PATCH", "/api/v1/agents/"+agent+"/risk-classification",
		apptest.Object{"level": "limited", "justification": c.Mark, "assessor": c.Mark, "review_due_at": "2030-01-01T00:00:00Z"})
	c.Expect(200, "POST", "/api/v1/agents/"+agent+"/fria", impact(c))
}

// complaint is a case against the company's first agent.
func complaint(c *Company) apptest.Object {
	return apptest.Object{"against_agent_id": c.IDs["agentId"][0], "reason": c.Mark}
}
