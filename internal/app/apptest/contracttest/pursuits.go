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

// runningMission makes a mission that has more to do than it does by the time of the call.
func runningMission(c *Company, call *Call) {
	body := planned(c)
	var chain []apptest.Object
	for i := range 300 {
		one := apptest.Object{"title": c.Mark}
		if i > 0 {
			one["depends_on_indices"] = []int{i - 1}
		}
		chain = append(chain, one)
	}
	body["plan"] = apptest.Object{"objectives": chain}
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
	}
}
