package cli

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/internal/client"
)

type evalRunCommand struct {
	remote
	agentArgument
	Dataset     string   `arg:"" help:"Dataset of the agent, by its id or its exact name."`
	Version     int      `name:"agent-version" placeholder:"N" help:"Version of the agent. Default: the newest."`
	Scorer      []string `placeholder:"NAME" help:"Scorers: those of the agent by name, and exact, contains, numeric, tool_calls, embedding. Default: all of the agent."`
	Baseline    string   `placeholder:"ID" help:"Evaluation to compare with. Default: the newest of another version."`
	MaxDrop     *float64 `name:"max-drop" placeholder:"SHARE" help:"By how much the pass rate and mean scores may fall against the baseline. Default: 0.05."`
	MinPassRate float64  `name:"min-pass-rate" placeholder:"SHARE" help:"Fail where a smaller share of the cases passes, such as 0.9."`
	Concurrency int      `placeholder:"N" help:"Cases that run at a time, 1 to 64. Default: 16."`
	MaxCost     float64  `name:"max-cost" placeholder:"USD" help:"US dollars that the runs may spend together."`
	Sandbox     bool     `help:"The runs call only tools that change nothing."`
	Rollback    bool     `help:"Roll the agent back if there is a regression."`
	JUnit       string   `name:"junit" placeholder:"FILE" help:"Write the results as JUnit XML, which CI systems show."`
	Detach      bool     `short:"d" help:"Do not wait: print the id of the evaluation and end."`
}

// pollEvaluation is how often an evaluation is looked at.
const pollEvaluation = time.Second

// Run implements the command. It fails where the evaluation did not complete, there is a
// regression, or too few cases pass.
func (cmd *evalRunCommand) Run(s *server) error {
	path, err := s.evalPath(cmd.Agent, "evaluations")
	if err != nil {
		return err
	}
	set, err := s.datasetID(cmd.Agent, cmd.Dataset)
	if err != nil {
		return err
	}
	started, err := call[evaluation](s, http.MethodPost, path, cmd.body(set))
	switch {
	case err != nil:
		return err
	case cmd.Detach && cmd.JSON:
		return s.printJSON(started.Raw)
	case cmd.Detach:
		s.say("%s", started.Value.EvalRunID)
		s.note("Look at it:  %s eval show %s %s", s.deps.Program, quote(cmd.Agent), started.Value.EvalRunID)
		return nil
	}
	one := client.Path(path, started.Value.EvalRunID)
	doc, err := awaitEvaluation(s, one)
	if err != nil {
		return err
	}
	if err := s.reportEvaluation(cmd.Agent, one, doc, cmd.JUnit); err != nil {
		return err
	}
	return cmd.verdict(&doc.Value)
}

func (cmd *evalRunCommand) body(set string) map[string]any {
	body := map[string]any{"dataset_id": set, "sandbox": cmd.Sandbox, "auto_rollback_on_regression": cmd.Rollback}
	for name, value := range map[string]struct {
		set bool
		as  any
	}{
		"agent_version": {cmd.Version > 0, strconv.Itoa(cmd.Version)}, "scorers": {cmd.Scorer != nil, cmd.Scorer},
		"baseline_eval_run_id": {cmd.Baseline != "", cmd.Baseline}, "max_drop": {cmd.MaxDrop != nil, cmd.MaxDrop},
		"concurrency": {cmd.Concurrency > 0, cmd.Concurrency}, "max_cost_usd": {cmd.MaxCost > 0, cmd.MaxCost},
	} {
		if value.set {
			body[name] = value.as
		}
	}
	return body
}

// awaitEvaluation waits until an evaluation has ended.
func awaitEvaluation(s *server, path string) (doc client.Doc[evaluation], err error) {
	var shown *progress
	seen := 0
	for {
		if doc, err = get[evaluation](s, path); err != nil {
			return doc, err
		}
		if shown == nil {
			shown = s.newProgress(doc.Value.TotalCases)
			defer shown.end()
		}
		for ; seen < doc.Value.EndedCases; seen++ {
			shown.step("case " + strconv.Itoa(seen+1))
		}
		if doc.Value.CompletedAt != nil {
			return doc, nil
		}
		select {
		case <-s.Done():
			return doc, detached{fmt.Sprintf("The evaluation %s goes on.", doc.Value.EvalRunID)}
		case <-time.After(pollEvaluation):
		}
	}
}

// verdict returns why the command fails; nil: it does not.
func (cmd *evalRunCommand) verdict(e *evaluation) error {
	switch sum := e.Summary; {
	case e.Status != "completed" || sum == nil:
		return fmt.Errorf("the evaluation ended as %s: %s", e.Status, e.Error)
	case sum.Regressed:
		return fmt.Errorf("there is a regression: %s", strings.Join(sum.Regression.Reasons, " "))
	case sum.PassRate < cmd.MinPassRate:
		return fmt.Errorf("%.3f of the cases pass, and --min-pass-rate asks for %.3f", sum.PassRate, cmd.MinPassRate)
	}
	return nil
}

// The elements of JUnit XML, as most CI systems read it.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitProblem `xml:"failure,omitempty"`
		Error   *junitProblem `xml:"error,omitempty"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
	}
)

// junitReport returns the results of an evaluation as JUnit XML: a case is a test, and a
// regression one more.
func junitReport(agent string, e *evaluation, results []evalResult) ([]byte, error) {
	suite := junitSuite{Name: agent, Tests: len(results)}
	total := 0.0
	for i := range results {
		r := &results[i]
		c := junitCase{Name: r.CaseID, Class: agent + "." + e.DatasetID, Time: seconds(r.DurationMS), Out: clean(r.Output)}
		total += r.DurationMS
		switch {
		case r.Error != "":
			c.Error, suite.Errors = &junitProblem{r.Error}, suite.Errors+1
		case !r.Passed:
			c.Failure, suite.Failures = &junitProblem{r.why()}, suite.Failures+1
		}
		suite.Cases = append(suite.Cases, c)
	}
	if sum := e.Summary; sum != nil && sum.Regressed {
		suite.Tests, suite.Failures = suite.Tests+1, suite.Failures+1
		suite.Cases = append(suite.Cases, junitCase{
			Name: "no regression", Class: agent + "." + e.DatasetID, Time: "0", Failure: &junitProblem{strings.Join(sum.Regression.Reasons, " ")},
		})
	}
	if e.Error != "" {
		suite.Tests, suite.Errors = suite.Tests+1, suite.Errors+1
		suite.Cases = append(suite.Cases, junitCase{
			Name: "completed", Class: agent + "." + e.DatasetID, Time: "0", Error: &junitProblem{e.Error},
		})
	}
	suite.Time = seconds(total)
	text, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{suite}}, "", "  ")
	return append([]byte(xml.Header), append(text, '\n')...), err
}

func seconds(ms float64) string { return strconv.FormatFloat(ms/1000, 'f', 3, 64) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
