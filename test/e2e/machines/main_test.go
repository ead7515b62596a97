// Package machines tests machines that carry the runs of agents, on a whole server: over HTTP, over WebSockets, and with the program that ships.
package machines

import (
	"maps"
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object

const api = "/api/v1/bridge"

// at is the time of events, which the platform only compares.
const at = "2026-11-27T12:00:00Z"

// register makes a machine and returns its agent.
func register(n *apptest.Server, machine string, fields object) string {
	n.T.Helper()
	body := object{"machine_id": machine, "capabilities": []string{"read_file"}, "working_directory": "/w", "version": "1"}
	maps.Copy(body, fields)
	return n.Expect(201, "POST", api+"/register", body)["agent_id"].(string)
}

// push reports events and returns the receipt.
func push(n *apptest.Server, task string, events ...object) object {
	n.T.Helper()
	for _, e := range events {
		if e["timestamp"] == nil {
			e["timestamp"] = at
		}
	}
	return n.Expect(200, "POST", api+"/tasks/"+task+"/events", events)
}

// onMachine starts a run of a machine's agent and waits until the machine has it.
func onMachine(n *apptest.Server, agent, message string, fields object) string {
	n.T.Helper()
	id := n.StartRun(agent, message, fields)
	apptest.Eventually(n.T, func() bool { return n.Expect(200, "GET", "/api/v1/runs/"+id, nil)["waiting_for"] == "machine" })
	return id
}
