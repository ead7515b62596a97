package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"agentd/internal/base/text"
	"agentd/internal/client"
)

// dataset is what is shown of a dataset.
type dataset struct {
	DatasetID string    `json:"dataset_id"`
	Name      string    `json:"name"`
	CaseCount int       `json:"case_count"`
	Skipped   []string  `json:"skipped"`
	CreatedAt time.Time `json:"created_at"`
}

// evaluation is what is shown of an evaluation.
type evaluation struct {
	EvalRunID    string       `json:"eval_run_id"`
	DatasetID    string       `json:"dataset_id"`
	AgentVersion string       `json:"agent_version"`
	Status       string       `json:"status"`
	Error        string       `json:"error"`
	TotalCases   int          `json:"total_cases"`
	EndedCases   int          `json:"ended_cases"`
	Summary      *evalSummary `json:"summary"`
	CreatedAt    time.Time    `json:"created_at"`
	CompletedAt  *time.Time   `json:"completed_at"`
}

type evalSummary struct {
	TotalCases   int                     `json:"total_cases"`
	Passed       int                     `json:"passed"`
	Failed       int                     `json:"failed"`
	Errored      int                     `json:"errored"`
	PassRate     float64                 `json:"pass_rate"`
	PassInterval evalInterval            `json:"pass_rate_interval"`
	AvgScores    map[string]float64      `json:"avg_scores"`
	Intervals    map[string]evalInterval `json:"score_intervals"`
	AvgDuration  float64                 `json:"avg_duration_ms"`
	TotalTokens  int64                   `json:"total_tokens"`
	TotalCostUSD float64                 `json:"total_cost_usd"`
	Regressed    bool                    `json:"regression_detected"`
	Regression   *struct {
		Baseline     string   `json:"baseline_eval_run_id"`
		BaselineRate float64  `json:"baseline_pass_rate"`
		PassRate     float64  `json:"pass_rate"`
		P            float64  `json:"p_value"`
		Reasons      []string `json:"reasons"`
		RolledBackTo string   `json:"rolled_back_to_version"`
	} `json:"regression"`
}

type evalInterval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// evalResult is the result of one case.
type evalResult struct {
	CaseID     string             `json:"case_id"`
	RunID      string             `json:"run_id"`
	Scores     map[string]float64 `json:"scores"`
	Reasons    map[string]string  `json:"reasons"`
	Passed     bool               `json:"passed"`
	Error      string             `json:"error"`
	Output     string             `json:"output"`
	DurationMS float64            `json:"duration_ms"`
}

// evalPath returns the path of an agent's things in the API, or of what is below them.
func (s *server) evalPath(agent string, below ...string) (string, error) {
	id, err := s.agentID(agent)
	return client.Path(client.AgentsPath, append([]string{id}, below...)...), err
}

// datasetID returns the id of a dataset of an agent, by its id or its exact name.
func (s *server) datasetID(agent, name string) (string, error) {
	all, err := s.datasets(agent)
	if err != nil {
		return "", err
	}
	var ids, names []string
	for _, d := range all.Value.Datasets {
		names = append(names, d.Name)
		if d.DatasetID == name || d.Name == name {
			ids = append(ids, d.DatasetID)
		}
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("the agent has no dataset with the name %q%s\nThey are listed by:  %s eval datasets %s",
			name, meant(name, names), s.deps.Program, quote(agent))
	case 1:
	default:
		s.note("%d datasets have the name %q; the newest is taken.", len(ids), name)
	}
	return ids[len(ids)-1], nil
}

// datasetList is the datasets of an agent.
type datasetList struct {
	Datasets []dataset `json:"datasets"`
}

func (s *server) datasets(agent string) (client.Doc[datasetList], error) {
	path, err := s.evalPath(agent, "datasets")
	if err != nil {
		return client.Doc[datasetList]{}, err
	}
	return get[datasetList](s, path)
}

type evalDatasetsCommand struct {
	remote
	agentArgument
}

// Run implements the command.
func (cmd *evalDatasetsCommand) Run(s *server) error {
	all, err := s.datasets(cmd.Agent)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(all.Raw)
	}
	if len(all.Value.Datasets) == 0 {
		s.note("The agent has no datasets. Import one:  %s eval import %s FILE", s.deps.Program, quote(cmd.Agent))
		return nil
	}
	var rows [][]string
	for _, d := range all.Value.Datasets {
		rows = append(rows, []string{d.Name, strconv.Itoa(d.CaseCount), formatTime(s.now(), d.CreatedAt), d.DatasetID})
	}
	return s.table([]string{"~NAME", "CASES", "CREATED", "DATASET"}, rows)
}

type evalImportCommand struct {
	remote
	agentArgument
	File        string `arg:"" help:"Cases: JSON lines with input, expected_output, expected_tool_calls, tags and metadata, or comma-separated values whose first row names these columns. - is the standard input."`
	Name        string `placeholder:"NAME" help:"What the dataset is called. Default: the name of the file."`
	SkipBadRows bool   `name:"skip-bad-rows" help:"Leave rows out that are no cases, and name them. Default: nothing is imported."`
}

// Run implements the command.
func (cmd *evalImportCommand) Run(s *server) error {
	path, err := s.evalPath(cmd.Agent, "datasets", "import")
	if err != nil {
		return err
	}
	raw, err := s.readFile(cmd.File)
	if err != nil {
		return err
	}
	q := query("name", cmp.Or(cmd.Name, filepath.Base(cmd.File)))
	if cmd.SkipBadRows {
		q.Set("skip_bad_rows", "true")
	}
	ctx, cancel := context.WithTimeout(s, uploadTime)
	defer cancel()
	file := client.File{Name: filepath.Base(cmd.File), Type: "application/octet-stream", Size: int64(len(raw)), Content: bytes.NewReader(raw)}
	var made client.Doc[dataset]
	if err := s.Upload(ctx, path+"?"+q.Encode(), file, &made); err != nil {
		return err
	}
	return showDataset(s, &made)
}

// showDataset says what was made.
func showDataset(s *server, made *client.Doc[dataset]) error {
	for _, row := range made.Value.Skipped {
		s.note("Left out: %s", row)
	}
	if s.json {
		return s.printJSON(made.Raw)
	}
	s.say("Created dataset %s with %s (%s).", oneLine(made.Value.Name), plural(made.Value.CaseCount, "case"), made.Value.DatasetID)
	return nil
}

type evalCollectCommand struct {
	remote
	agentArgument
	Name      string `arg:"" help:"What the dataset is called."`
	Runs      int    `default:"100" help:"Of how many completed runs cases are made, the newest ones; 1 to 1,000."`
	ToolCalls bool   `name:"tool-calls" help:"The tool calls of the runs are expected too."`
}

// Run implements the command.
func (cmd *evalCollectCommand) Run(s *server) error {
	path, err := s.evalPath(cmd.Agent, "datasets")
	if err != nil {
		return err
	}
	made, err := call[dataset](s, http.MethodPost, path, map[string]any{
		"name": cmd.Name, "from_runs": map[string]any{"limit": cmd.Runs, "with_tool_calls": cmd.ToolCalls},
	})
	if err != nil {
		return err
	}
	return showDataset(s, &made)
}

type evalListCommand struct {
	listing
	agentArgument
}

// Run implements the command.
func (cmd *evalListCommand) Run(s *server) error {
	path, err := s.evalPath(cmd.Agent, "evaluations")
	if err != nil {
		return err
	}
	return list[evaluation]{
		path: path, limit: cmd.Limit,
		empty:   "The agent was not evaluated yet. Evaluate it:  " + s.deps.Program + " eval run " + quote(cmd.Agent) + " DATASET",
		heading: []string{"EVALUATION", "VERSION", "STATUS", "PASSED", "CREATED", "~RESULT"},
		row: func(e evaluation) []string {
			passed, result := "", text.Truncate(oneLine(e.Error), 60)
			if e.Summary != nil {
				passed = fmt.Sprintf("%d/%d", e.Summary.Passed, e.Summary.TotalCases)
				if e.Summary.Regressed {
					result = "regression"
				}
			}
			return []string{e.EvalRunID, e.AgentVersion, e.Status, passed, formatTime(s.now(), e.CreatedAt), result}
		},
	}.show(s)
}

type evalShowCommand struct {
	remote
	agentArgument
	Evaluation string `arg:"" help:"Id of the evaluation."`
	JUnit      string `name:"junit" placeholder:"FILE" help:"Write the results as JUnit XML."`
}

// Run implements the command.
func (cmd *evalShowCommand) Run(s *server) error {
	path, err := s.evalPath(cmd.Agent, "evaluations", cmd.Evaluation)
	if err != nil {
		return err
	}
	doc, err := get[evaluation](s, path)
	if err != nil {
		return err
	}
	return s.reportEvaluation(cmd.Agent, path, doc, cmd.JUnit)
}

type evalCancelCommand struct {
	remote
	agentArgument
	Evaluation string `arg:"" help:"Id of the evaluation."`
}

// Run implements the command.
func (cmd *evalCancelCommand) Run(s *server) error {
	path, err := s.evalPath(cmd.Agent, "evaluations", cmd.Evaluation)
	if err != nil {
		return err
	}
	err = s.send(http.MethodPost, path+"/cancel", nil, "Cancelled evaluation %s.", cmd.Evaluation)
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusConflict {
		s.note("Evaluation %s had ended.", cmd.Evaluation)
		return nil
	}
	return err
}

// reportEvaluation prints an evaluation, and writes its results to a file if one is named.
func (s *server) reportEvaluation(agent, path string, doc client.Doc[evaluation], junit string) error {
	e := doc.Value
	var results []evalResult
	for r, err := range client.List[evalResult](s, s.Client, path+"/results", nil, 0) {
		if err != nil {
			return err
		}
		results = append(results, r.Value)
	}
	if junit != "" {
		report, err := junitReport(agent, &e, results)
		if err != nil {
			return err
		}
		if err := os.WriteFile(junit, report, 0o644); err != nil { //nolint:gosec // CI services read the report as another user
			return err
		}
	}
	if s.json {
		return s.printJSON(doc.Raw)
	}
	var rows [][]string
	for i := range results {
		if r := &results[i]; !r.Passed {
			rows = append(rows, []string{r.CaseID, text.Truncate(oneLine(r.why()), 100), r.RunID})
		}
	}
	if rows != nil {
		if err := s.table([]string{"CASE", "~NOT PASSED BECAUSE", "RUN"}, rows); err != nil {
			return err
		}
		s.say("")
	}
	e.show(s)
	return nil
}

// why returns why a case did not pass.
func (r *evalResult) why() string {
	if r.Error != "" {
		return r.Error
	}
	var all string
	for _, name := range sortedKeys(r.Scores) {
		if r.Scores[name] < 1 {
			all += fmt.Sprintf("%s %.3g. %s ", name, r.Scores[name], r.Reasons[name])
		}
	}
	return all
}

func (e *evaluation) show(s *server) {
	pairs := []string{"Evaluation", e.EvalRunID, "Version", e.AgentVersion, "Status", e.Status}
	if e.Error != "" {
		pairs = append(pairs, "Error", e.Error)
	}
	if sum := e.Summary; sum != nil {
		pairs = append(pairs,
			"Passed", fmt.Sprintf("%d of %d: %.3f (95 %%: %.3f to %.3f)",
				sum.Passed, sum.TotalCases, sum.PassRate, sum.PassInterval.Low, sum.PassInterval.High),
			"Failed", strconv.Itoa(sum.Failed), "Errored", strconv.Itoa(sum.Errored))
		for _, name := range sortedKeys(sum.AvgScores) {
			in := sum.Intervals[name]
			pairs = append(pairs, "Mean "+name, fmt.Sprintf("%.3f (95 %%: %.3f to %.3f)", sum.AvgScores[name], in.Low, in.High))
		}
		pairs = append(pairs, "Mean duration", fmt.Sprintf("%.0f ms", sum.AvgDuration), "Tokens", strconv.FormatInt(sum.TotalTokens, 10),
			"Cost", fmt.Sprintf("$%.4f", sum.TotalCostUSD))
		if r := sum.Regression; r != nil {
			pairs = append(pairs, "Baseline", fmt.Sprintf("%s: %.3f before, %.3f now (p = %.4f)", r.Baseline, r.BaselineRate, r.PassRate, r.P))
			for _, reason := range r.Reasons {
				pairs = append(pairs, "Regression", reason)
			}
			if r.RolledBackTo != "" {
				pairs = append(pairs, "Rolled back to", "version "+r.RolledBackTo)
			}
		}
	}
	s.fields(pairs...)
}
