// Command generated calls twelve operations with the client that oapi-codegen
// generates.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/google/uuid"

	"generated/api"
)

func main() {
	ctx := context.Background()
	c, err := api.NewClientWithResponses(os.Getenv("AGENTD_URL"), api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("AGENTD_KEY"))
		return nil
	}))
	must(err)

	health, err := c.GetHealthWithResponse(ctx)
	must(err)
	want(health.JSON200 != nil, health.Body)
	me, err := c.GetMeWithResponse(ctx, nil)
	must(err)
	want(me.JSON200 != nil, me.Body)

	// A field with a default may be left out of a request.
	created, err := c.CreateAgentWithResponse(ctx, nil, api.AgentCreate{Name: "generated", Schedule: &api.AgentSchedule{Cron: "0 0 29 2 *"}})
	must(err)
	want(created.JSON201 != nil, created.Body)
	id := created.JSON201.AgentId
	agent, err := c.GetAgentWithResponse(ctx, id, nil)
	must(err)
	want(agent.JSON200 != nil && agent.JSON200.Name == "generated", agent.Body)
	// What was read can be sent as it is.
	same, err := c.UpdateAgentWithResponse(ctx, id, nil, api.AgentUpdate{Name: &agent.JSON200.Name, Schedule: agent.JSON200.Schedule})
	must(err)
	want(same.JSON200 != nil && same.JSON200.Schedule.Cron == "0 0 29 2 *", same.Body)
	agents, err := c.ListAgentsWithResponse(ctx, nil)
	must(err)
	want(agents.JSON200 != nil && len(agents.JSON200.Items) > 0, agents.Body)

	run, err := c.CreateRunWithResponse(ctx, nil, api.CreateRunBody{AgentId: id, Input: &map[string]any{"message": "Hello"}})
	must(err)
	want(run.JSON202 != nil, run.Body)
	follow(ctx, c, run.JSON202.RunId)
	ended, err := c.GetRunWithResponse(ctx, run.JSON202.RunId)
	must(err)
	want(ended.JSON200 != nil && ended.JSON200.Status == api.RunStatusCompleted, ended.Body)
	runs, err := c.ListRunsWithResponse(ctx, &api.ListRunsParams{Status: &[]api.ListRunsParamsStatus{"completed", "failed"}})
	must(err)
	want(runs.JSON200 != nil && len(runs.JSON200.Items) > 0, runs.Body)
	steps, err := c.ListRunStepsWithResponse(ctx, run.JSON202.RunId, nil)
	must(err)
	want(steps.JSON200 != nil && len(steps.JSON200.Steps) > 0, steps.Body)
	deleted, err := c.DeleteAgentWithResponse(ctx, id, nil)
	must(err)
	want(deleted.StatusCode() == http.StatusOK || deleted.StatusCode() == http.StatusNoContent, deleted.Body)

	missing, err := c.GetRunWithResponse(ctx, uuid.New())
	must(err)
	want(missing.ApplicationproblemJSON404 != nil && missing.ApplicationproblemJSON404.Code == "NOT_FOUND", missing.Body)
	fmt.Println("12 operations")
}

// follow reads a run's events to the last one.
func follow(ctx context.Context, c *api.ClientWithResponses, run uuid.UUID) {
	res, err := c.StreamRunEvents(ctx, run, nil)
	must(err)
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: {")
		if !ok {
			continue
		}
		var event api.RunEvent
		must(json.Unmarshal([]byte("{"+data), &event))
		value, err := event.ValueByDiscriminator()
		must(err)
		if done, ok := value.(api.RunEventDone); ok {
			want(done.Status == api.RunEventDoneStatusCompleted, []byte(data))
			return
		}
	}
	log.Fatal("the stream ended without done")
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func want(ok bool, body []byte) {
	if !ok {
		log.Panicf("unexpected: %s", body)
	}
}
