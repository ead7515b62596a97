package contracttest

import "agentd/internal/app/apptest"

// freshInitiative makes an initiative that is active.
func freshInitiative(c *Company, call *Call) {
	call.Path["initiativeId"] = c.Expect(201, "POST", "/api/v1/initiatives", pursuing(c))["initiative_id"].(string)
}

// pausedInitiative makes one that is paused.
func pausedInitiative(c *Company, call *Call) {
	freshInitiative(c, call)
	c.Expect(200, "POST", "/api/v1/initiatives/"+call.Path["initiativeId"]+"/pause", nil)
}

// planned is a mission of the company's first agent that waits for authorization.
func planned(c *Company) apptest.Object {
	return apptest.Object{"session_id": c.IDs["sessionId"][0], "goal": c.Mark, "plan": apptest.Object{
		"requires_authorization": true,
		"objectives":             []apptest.Object{{"title": c.Mark, "description": c.Mark}},
	}, "available_agents": []apptest.Object{{"agent_id": c.IDs["agentId"][0], "name": c.Mark}}}
}

// freshMission makes a mission that waits for authorization.
func freshMission(c *Company, call *Call) {
	call.Path["missionId"] = c.Expect(201, "POST", "/api/v1/missions", planned(c))["mission_id"].(string)
}

// endedMission makes a mission that has ended.
func endedMission(c *Company, call *Call) {
	freshMission(c, call)
	path := "/api/v1/missions/" + call.Path["missionId"]
	c.Expect(200, "POST", path+"/abort", nil)
	apptest.Eventually(c.T, func() bool { return c.Expect(200, "GET", path, nil)["completed_at"] != nil })
}

// runningMission makes a mission whose agent's model does not answer.
func runningMission(c *Company, call *Call) {
	body := planned(c)
	body["plan"] = apptest.Object{"objectives": []apptest.Object{{"title": c.Mark, "description": c.Mark}}}
	body["available_agents"] = []apptest.Object{{"agent_id": c.IDs["agentId"][3], "name": c.Mark}}
	call.Path["missionId"] = c.Expect(201, "POST", "/api/v1/missions", body)["mission_id"].(string)
}

// pausedMission makes a mission that is paused, or is about to be.
func pausedMission(c *Company, call *Call) {
	runningMission(c, call)
	c.Expect(200, "POST", "/api/v1/missions/"+call.Path["missionId"]+"/pause", nil)
}

// pursuing is an initiative whose strategist is one of the company's agents.
func pursuing(c *Company) apptest.Object {
	return apptest.Object{
		"name": "made by a test", "mission": c.Mark, "strategist_agent_id": c.IDs["agentId"][0],
		"strategic_goals": []apptest.Object{{"title": c.Mark, "kpis": []apptest.Object{}}},
		"budget":          apptest.Object{"total_usd": 10, "daily_limit_usd": 1, "alert_threshold_pct": 50},
		// By default it is due every full hour, which tests cross.
		"config": apptest.Object{"schedule": "0 0 1 1 *"},
	}
}
