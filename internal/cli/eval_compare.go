package cli

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"agentd/internal/client"
)

// experiment is what is shown of an experiment.
type experiment struct {
	ExperimentID string `json:"experiment_id"`
	Name         string `json:"name"`
	Status       string `json:"status"`
	Comparison   *struct {
		Variants []struct {
			EvalRunID string       `json:"eval_run_id"`
			Version   string       `json:"version"`
			Summary   *evalSummary `json:"summary"`
			Against   *struct {
				PassRate float64 `json:"pass_rate_change"`
				P        float64 `json:"p_value"`
			} `json:"against_baseline"`
		} `json:"variants"`
		Winner     string `json:"winner_eval_run_id"`
		Conclusion string `json:"conclusion"`
	} `json:"comparison"`
}

type evalCompareCommand struct {
	remote
	agentArgument
	Dataset     string   `arg:"" help:"Dataset of the agent, by its id or its exact name."`
	Versions    []int    `placeholder:"N,N" help:"Versions of the agent; the first one is the baseline of the others."`
	Models      []string `placeholder:"PROVIDER/MODEL" help:"Models in place of the agent's, each with its newest version."`
	Scorer      []string `placeholder:"NAME" help:"Scorers; see eval run."`
	Concurrency int      `placeholder:"N" help:"Cases that run at a time in each variant, 1 to 64. Default: 16."`
	Name        string   `placeholder:"NAME" help:"What the experiment is called. Default: what is compared."`
}

// Run implements the command.
func (cmd *evalCompareCommand) Run(s *server) error {
	path, err := s.evalPath(cmd.Agent, "experiments")
	if err != nil {
		return err
	}
	set, err := s.datasetID(cmd.Agent, cmd.Dataset)
	if err != nil {
		return err
	}
	body, err := cmd.body(set)
	if err != nil {
		return err
	}
	made, err := call[experiment](s, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	for one := client.Path(path, made.Value.ExperimentID); made.Value.Status != "completed"; {
		select {
		case <-s.Done():
			return detached{fmt.Sprintf("The experiment %s goes on.", made.Value.ExperimentID)}
		case <-time.After(pollEvaluation):
		}
		if made, err = get[experiment](s, one); err != nil {
			return err
		}
	}
	if cmd.JSON {
		return s.printJSON(made.Raw)
	}
	return made.Value.show(s)
}

func (cmd *evalCompareCommand) body(set string) (map[string]any, error) {
	var variants []map[string]any
	var names []string
	for _, n := range cmd.Versions {
		variants, names = append(variants, map[string]any{"version": strconv.Itoa(n)}), append(names, "version "+strconv.Itoa(n))
	}
	for _, m := range cmd.Models {
		provider, ref, ok := strings.Cut(m, "/")
		if !ok {
			return nil, usageError("--models %s is not a provider and a model, such as openai-compat/gpt-5-mini", m)
		}
		variants = append(variants, map[string]any{"model": map[string]string{"provider": provider, "model_ref": ref}})
		names = append(names, m)
	}
	if len(variants) < 2 {
		return nil, usageError("name at least two of --versions and --models to compare, such as --versions 1,2")
	}
	body := map[string]any{"name": cmd.Name, "dataset_id": set, "variants": variants}
	if cmd.Name == "" {
		body["name"] = strings.Join(names, ", ")
	}
	if cmd.Scorer != nil {
		body["scorers"] = cmd.Scorer
	}
	if cmd.Concurrency > 0 {
		body["concurrency"] = cmd.Concurrency
	}
	return body, nil
}

func (e *experiment) show(s *server) error {
	var rows [][]string
	for _, v := range e.Comparison.Variants {
		row := []string{v.Version, "", "", "", "", v.EvalRunID}
		if sum := v.Summary; sum != nil {
			row[1], row[2] = fmt.Sprintf("%.3f", sum.PassRate), fmt.Sprintf("%.0f ms", sum.AvgDuration)
		}
		if v.Against != nil {
			row[3], row[4] = fmt.Sprintf("%+.3f", v.Against.PassRate), fmt.Sprintf("%.4f", v.Against.P)
		}
		rows = append(rows, row)
	}
	if err := s.table([]string{"VERSION", "PASS RATE", "DURATION", "CHANGE", "P", "EVALUATION"}, rows); err != nil {
		return err
	}
	s.say("\n%s", e.Comparison.Conclusion)
	return nil
}
