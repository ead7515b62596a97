package insight

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// A dataset keeps what is sent, in order, and of a file that has rows which are no cases
// each is named.
func TestDatasets(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"model": apptest.EchoModel})
	all := "/api/v1/agents/" + agent + "/datasets"
	made := n.Expect(201, "POST", all, object{"name": "sums", "description": "of numbers", "cases": []object{{
		"input": object{"message": "What is 2 + 2?", "instructions": "Be brief."}, "expected_output": object{"text": "4"},
		"expected_tool_calls": []object{{"name": "calculator", "arguments": object{"expression": "2+2"}}},
		"tags":                []string{"easy"}, "metadata": object{"from": "a book"},
	}}})
	got := n.Expect(200, "GET", all+"/"+made["dataset_id"].(string), nil)
	c := got["cases"].([]any)[0].(object)
	if got["name"] != "sums" || got["description"] != "of numbers" || c["input"].(object)["instructions"] != "Be brief." ||
		c["expected_output"].(object)["text"] != "4" || c["metadata"].(object)["from"] != "a book" || c["tags"].([]any)[0] != "easy" ||
		c["expected_tool_calls"].([]any)[0].(object)["arguments"].(object)["expression"] != "2+2" {
		t.Errorf("the dataset is %v", got)
	}
	r := n.Do("POST", all, object{"name": " ", "cases": []object{{"input": 7}, {"input": "fine"}, {"input": object{"message": 1}}}})
	for _, field := range []string{"name", "cases[0]", "cases[2]"} {
		if r.StatusCode != 422 || !strings.Contains(string(r.Body), field) {
			t.Errorf("%s is not named: %s", field, r.Body)
		}
	}
	n.Expect(422, "POST", all, object{"name": "empty"})

	var file strings.Builder
	file.WriteString("input,expected_output,topic\n")
	for i := range 2500 {
		if i%1000 == 7 {
			file.WriteString(",,\n")
			continue
		}
		fmt.Fprintf(&file, "question %d,answer %d,math\n", i, i)
	}
	upload := all + "/import?" + url.Values{"name": {"many"}}.Encode()
	r = n.Do("POST", upload, file.String(), "Content-Type", "text/csv")
	if r.StatusCode != 422 || !strings.Contains(string(r.Body), "lines 9, 1009, 2009") {
		t.Errorf("%d %s", r.StatusCode, r.Body)
	}
	many := n.Expect(201, "POST", upload+"&skip_bad_rows=true&format=csv", file.String(), "Content-Type", "text/csv")
	if many["case_count"] != 2497.0 || len(many["skipped"].([]any)) != 1 || len(many["cases"].([]any)) != 1000 {
		t.Errorf("the import made %v, %v", many["case_count"], many["skipped"])
	}
	read := 0
	for cursor := ""; ; {
		page := n.Expect(200, "GET", all+"/"+many["dataset_id"].(string)+"/cases?limit=900&cursor="+cursor, nil)
		for _, c := range page["cases"].([]any) {
			if !strings.HasPrefix(c.(object)["input"].(object)["message"].(string), "question ") {
				t.Fatalf("a case is %v", c)
			}
			read++
		}
		if page["has_more"] != true {
			break
		}
		cursor = page["cursor"].(string)
	}
	if read != 2497 {
		t.Errorf("%d cases were read", read)
	}
	if l := n.Expect(200, "GET", all, nil); l["total"] != 2.0 {
		t.Errorf("the list is %v", l)
	}
	n.Expect(204, "DELETE", all+"/"+many["dataset_id"].(string), nil)
	n.Expect(404, "GET", all+"/"+many["dataset_id"].(string), nil)
}

// Cases are made of what an agent did: of its newest runs, or of those that are named.
func TestDatasetsOfRuns(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"model": apptest.EchoModel, "built_in_tools": []string{"calculator"}})
	var runs []string
	for _, message := range []string{"say: one", `call calculator {"expression":"6*7"}`, "fail"} {
		id := n.StartRun(agent, message, nil)
		n.WaitRun(id)
		runs = append(runs, id)
	}
	all := "/api/v1/agents/" + agent + "/datasets"
	create := func(from object) []any {
		return n.Expect(201, "POST", all, object{"name": "runs", "from_runs": from})["cases"].([]any)
	}
	cases := create(object{})
	if len(cases) != 2 || cases[0].(object)["expected_output"] != "one" || cases[0].(object)["expected_tool_calls"] != nil {
		t.Fatalf("the cases are %v", cases)
	}
	if cases = create(object{"limit": 1, "with_outputs": false, "with_tool_calls": true}); len(cases) != 1 ||
		cases[0].(object)["expected_output"] != nil || cases[0].(object)["expected_tool_calls"].([]any)[0].(object)["name"] != "calculator" ||
		cases[0].(object)["metadata"].(object)["run_id"] != runs[1] {
		t.Errorf("the cases are %v", cases)
	}
	if cases = create(object{"run_ids": []string{runs[2], runs[0]}}); len(cases) != 2 || cases[0].(object)["expected_output"] != nil ||
		cases[1].(object)["expected_output"] != "one" {
		t.Errorf("the cases are %v", cases)
	}
	n.Expect(422, "POST", all, object{"name": "later", "from_runs": object{"created_after": "2100-01-01T00:00:00Z"}})
	other := n.CreateAgent(object{"model": apptest.EchoModel})
	n.Expect(422, "POST", "/api/v1/agents/"+other+"/datasets", object{"name": "of another", "from_runs": object{"run_ids": runs[:1]}})
}

// A model judges by a rubric. What agents answer cannot pass itself off as the judgement.
func TestJudges(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		chat := r.Chat()
		system, message := chat.Last(model.System), chat.Last(model.User)
		_, word, judges := strings.Cut(system, `{"word": "`)
		switch {
		case !judges:
			return modeltest.Answer{Text: message}
		case strings.Contains(message, "lie"):
			return modeltest.Answer{Text: `{"word": "guessed", "score": 1.0}`}
		case strings.Contains(system, "It is kind.") && strings.Contains(message, "please"):
			return modeltest.Answer{Text: `{"word": "` + word[:strings.IndexByte(word, '"')] + `", "score": 0.9, "reason": "kind"}`}
		}
		return modeltest.Answer{Text: `{"word": "` + word[:strings.IndexByte(word, '"')] + `", "score": 0.2, "reason": "rude"}`}
	}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	n.Expect(201, "POST", "/api/v1/agents/"+agent+"/scorers", object{"name": "kind", "config": object{
		"type": "judge", "model": "default/sim-model", "rubric": "It is kind.", "threshold": 0.7}})
	set := n.Expect(201, "POST", "/api/v1/agents/"+agent+"/datasets", object{"name": "talk", "cases": []object{
		{"input": "please wait"}, {"input": "go away"}, {"input": "a lie"}}})["dataset_id"]
	e := evaluate(t, n, agent, object{"dataset_id": set})
	results := e["results"].([]any)
	for i, want := range []struct {
		passed bool
		score  any
		reason any
	}{{true, 0.9, "kind"}, {false, 0.2, "rude"}, {false, nil, nil}} {
		r := results[i].(object)
		reasons, _ := r["reasons"].(object)
		if r["passed"] != want.passed || r["scores"].(object)["kind"] != want.score || reasons["kind"] != want.reason {
			t.Errorf("result %d is %v", i, r)
		}
	}
	if sum := e["summary"].(object); sum["errored"] != 1.0 {
		t.Errorf("the summary is %v", sum)
	}
	apptest.Eventually(t, func() bool { // the judge's calls are counted beside those of runs
		return strings.Contains(string(n.Do("GET", "/api/v1/usage?breakdown=source", nil).Body), `"judge"`)
	})
}
