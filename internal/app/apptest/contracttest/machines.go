package contracttest

import (
	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
)

// createMachines has two machines with a task each, the first of which waits for an
// approval, and one whose agent was deleted.
func (c *Company) createMachines(add func(parameter, id string)) {
	for _, name := range []string{"first", "second", "deleted"} {
		machine := c.Mark + "-" + name
		agent := c.Expect(201, "POST", "/api/v1/bridge/register", apptest.Object{
			"machine_id": machine, "capabilities": []string{c.Mark}, "working_directory": "/" + c.Mark, "version": "1", "machine_name": machine,
		})["agent_id"].(string)
		if name == "deleted" {
			c.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
			apptest.Eventually(c.T, func() bool {
				return len(c.Expect(200, "GET", "/api/v1/bridge/deleted-machines", nil)["items"].([]any)) == 1
			})
			add("machine", machine)
			continue
		}
		add("machineAgentId", agent)
		add("machineName", machine)
		task := c.StartRun(agent, c.Mark, nil)
		apptest.Eventually(c.T, func() bool { return c.Expect(200, "GET", "/api/v1/runs/"+task, nil)["waiting_for"] == "machine" })
		add("bridgeTaskId", task)
	}
	c.Expect(200, "POST", "/api/v1/bridge/tasks/"+c.IDs["bridgeTaskId"][0]+"/events", apptest.Object{
		"type": "approval_request", "approval_id": c.Mark, "tool_name": c.Mark, "timestamp": "2026-11-27T12:00:00Z",
	})
	c.Expect(200, "POST", "/api/v1/runs/"+c.IDs["bridgeTaskId"][0]+"/approve", nil)
}

// leavingMachine registers a machine and names it.
func leavingMachine(c *Company) apptest.Object {
	machine := ident.New()
	c.Expect(201, "POST", "/api/v1/bridge/register", apptest.Object{
		"machine_id": machine, "capabilities": []string{}, "working_directory": "/", "version": "1",
	})
	return apptest.Object{"machine_id": machine}
}

// approvedTask makes a task whose approval was decided, which its machine has not read.
func approvedTask(c *Company, call *Call) {
	task := c.StartRun(c.IDs["machineAgentId"][0], c.Mark, nil)
	apptest.Eventually(c.T, func() bool { return c.Expect(200, "GET", "/api/v1/runs/"+task, nil)["waiting_for"] == "machine" })
	c.Expect(200, "POST", "/api/v1/bridge/tasks/"+task+"/events", apptest.Object{
		"type": "approval_request", "approval_id": c.Mark, "tool_name": c.Mark, "timestamp": "2026-11-27T12:00:00Z",
	})
	c.Expect(200, "POST", "/api/v1/runs/"+task+"/approve", nil)
	call.Path["bridgeTaskId"] = task
	call.Query.Set("approval_id", c.Mark)
}
