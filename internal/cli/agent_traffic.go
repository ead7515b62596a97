package cli

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"agentd/internal/client"
)

// traffic is how the runs of an agent are divided among its versions.
type traffic struct {
	Entries []trafficEntry `json:"entries"`
	Rollout *struct {
		Candidate int    `json:"candidate_version"`
		Outcome   string `json:"outcome"`
		Reason    string `json:"reason"`
	} `json:"rollout"`
}

type trafficEntry struct {
	Version int     `json:"version"`
	Weight  float64 `json:"weight"`
}

// trafficResults are what the versions did.
type trafficResults struct {
	Versions []struct {
		Version     int      `json:"version"`
		Weight      float64  `json:"weight"`
		Runs        int      `json:"runs"`
		SuccessRate float64  `json:"success_rate"`
		AvgDuration float64  `json:"avg_duration_ms"`
		P           *float64 `json:"p_value"`
	} `json:"versions"`
}

type agentTrafficCommand struct {
	remote
	agentArgument
	Split     []string `placeholder:"VERSION=PERCENT" help:"Divide new runs among these versions, such as 3=90,4=10. Left out: show how they are divided and what the versions did."`
	Candidate int      `placeholder:"N" help:"With --split of two versions: decide by their results whether this one stays."`
	MinRuns   int      `name:"min-runs" default:"100" help:"How many runs of each version that decision needs, 20 to 5,000."`
	Metric    string   `default:"success_rate" enum:"success_rate,duration_ms,cost_usd" help:"What the decision compares: ${enum}."`
	Promote   string   `default:"not_worse" enum:"better,not_worse,manual" help:"When the candidate gets all runs: ${enum}."`
	Clear     bool     `help:"Have all runs use the newest version again."`
}

// Run implements the command.
func (cmd *agentTrafficCommand) Run(s *server) error {
	id, err := s.agentID(cmd.Agent)
	if err != nil {
		return err
	}
	path := client.Path(client.AgentsPath, id, "traffic")
	switch {
	case cmd.Clear && cmd.Split != nil:
		return usageError("--clear and --split exclude each other")
	case cmd.Clear:
		return s.send(http.MethodDelete, path, nil, "All new runs use the newest version.")
	case cmd.Split == nil:
		return cmd.show(s, path)
	}
	entries, err := entriesOf(cmd.Split)
	if err != nil {
		return err
	}
	body := map[string]any{"entries": entries}
	if cmd.Candidate > 0 {
		body["rollout"] = map[string]any{
			"candidate_version": cmd.Candidate, "min_runs": cmd.MinRuns, "metric": cmd.Metric, "promote": cmd.Promote,
		}
	}
	return s.send(http.MethodPut, path, body, "New runs are divided: %s.", strings.Join(cmd.Split, ", "))
}

// entriesOf reads VERSION=PERCENT.
func entriesOf(split []string) (entries []trafficEntry, err error) {
	for _, part := range split {
		number, percent, _ := strings.Cut(part, "=")
		version, err := strconv.Atoi(number)
		weight, badWeight := strconv.ParseFloat(percent, 64)
		if err != nil || badWeight != nil {
			return nil, usageError("--split %s is not VERSION=PERCENT, such as 3=90", part)
		}
		entries = append(entries, trafficEntry{version, weight})
	}
	return entries, nil
}

func (cmd *agentTrafficCommand) show(s *server, path string) error {
	now, err := get[traffic](s, path)
	if err != nil {
		return err
	}
	results, err := get[trafficResults](s, path+"/results")
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(results.Raw)
	}
	if len(now.Value.Entries) == 0 {
		s.note("All new runs use the newest version. Divide them:  %s agent traffic %s --split 1=90,2=10", s.deps.Program, quote(cmd.Agent))
	}
	var rows [][]string
	for _, v := range results.Value.Versions {
		p := ""
		if v.P != nil {
			p = fmt.Sprintf("%.4f", *v.P)
		}
		rows = append(rows, []string{
			strconv.Itoa(v.Version), fmt.Sprintf("%g %%", v.Weight), strconv.Itoa(v.Runs), fmt.Sprintf("%.3f", v.SuccessRate),
			fmt.Sprintf("%.0f ms", v.AvgDuration), p,
		})
	}
	if rows != nil {
		if err := s.table([]string{"VERSION", "SHARE", "RUNS", "SUCCESS", "DURATION", "P"}, rows); err != nil {
			return err
		}
	}
	if r := now.Value.Rollout; r != nil && r.Outcome != "" {
		s.say("\n%s: %s", r.Outcome, r.Reason)
	}
	return nil
}
