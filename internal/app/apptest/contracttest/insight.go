package contracttest

import (
	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
)

// measuring are the recipes of evaluations, experiments and traffic.
var measuring = map[string]recipe{
	"runEvaluation": {with: func(c *Company) apptest.Object {
		return apptest.Object{"dataset_id": c.IDs["datasetId"][0], "scorers": []string{"exact"}}
	}},
	"setAgentTraffic": {body: apptest.Object{"entries": []apptest.Object{{"version": 1, "weight": 40}, {"version": 2, "weight": 60}}}},
	"createExperiment": {with: func(c *Company) apptest.Object {
		return apptest.Object{"name": "made by a test", "dataset_id": c.IDs["datasetId"][0], "variants": []apptest.Object{
			{"version": "1"}, {"eval_run_id": c.IDs["evalRunId"][0]}}}
	}},
	"createDataset": {body: apptest.Object{"name": "made by a test", "cases": []apptest.Object{{"input": "hello"}}}},
	"createAgentScorer": {with: func(*Company) apptest.Object { // each time with another name
		return apptest.Object{"name": ident.New(), "config": apptest.Object{"type": "contains"}}
	}},
	"importDataset":    {ids: importing},
	"cancelEvaluation": {ids: underEvaluation},
}

// createEvaluations makes two of each for an agent: datasets, scorers, evaluations and
// experiments.
func (c *Company) createEvaluations(add func(parameter, id string)) {
	c.T.Helper()
	of := "/api/v1/agents/" + c.IDs["agentId"][0]
	for _, name := range []string{" first", " second"} {
		set := c.Expect(201, "POST", of+"/datasets", apptest.Object{
			"name": c.Mark + name, "cases": []apptest.Object{
				{"input": c.Mark, "expected_output": c.Mark, "tags": []string{c.Mark}}, {"input": "again " + c.Mark}},
		})["dataset_id"].(string)
		add("datasetId", set)
		add("scorerId", c.Expect(201, "POST", of+"/scorers", apptest.Object{
			"name": c.Mark + name, "config": apptest.Object{"type": "contains"}})["scorer_id"].(string))
		id := c.Expect(201, "POST", of+"/evaluations", apptest.Object{"dataset_id": set})["eval_run_id"].(string)
		add("evalRunId", id)
		add("experimentId", c.Expect(201, "POST", of+"/experiments", apptest.Object{
			"name": c.Mark + name, "dataset_id": set, "variants": []apptest.Object{{"version": "1"}, {"version": "2"}}})["experiment_id"].(string))
		apptest.Eventually(c.T, func() bool {
			return c.Expect(200, "GET", of+"/evaluations/"+id, nil)["completed_at"] != nil
		})
	}
}

// importing sends a table with one case.
func importing(_ *Company, call *Call) {
	call.Body = "input,expected_output\nhello,hello\n"
	call.Headers = append(call.Headers, "Content-Type", "application/octet-stream")
	call.Query.Set("name", "made by a test")
}

// underEvaluation names an evaluation whose only run does not end by itself.
func underEvaluation(c *Company, call *Call) {
	call.Path["agentId"] = c.IDs["agentId"][3]
	of := "/api/v1/agents/" + call.Path["agentId"]
	set := c.Expect(201, "POST", of+"/datasets", apptest.Object{"name": "hangs", "cases": []apptest.Object{{"input": "hello"}}})
	call.Path["evalRunId"] = c.Expect(201, "POST", of+"/evaluations", apptest.Object{"dataset_id": set["dataset_id"]})["eval_run_id"].(string)
}
