package cli

import (
	"fmt"
	"net/http"
)

// modelTest is what the server found about a model.
type modelTest struct {
	Usable bool `json:"usable"`
	Checks []struct {
		Check  string `json:"check"`
		Status string `json:"status"`
		Detail string `json:"detail"`
	} `json:"checks"`
}

type modelsTestCommand struct {
	remote
	Model string `arg:"" name:"model" help:"Model, as PROVIDER/NAME or a name that the default provider knows."`
}

// Run implements the command. It fails if the model cannot be used.
func (cmd *modelsTestCommand) Run(s *server) error {
	tested, err := call[modelTest](s, http.MethodPost, "/api/v1/llm/models/test", map[string]string{"model": cmd.Model})
	if err != nil {
		return err
	}
	if cmd.JSON {
		if err := s.printJSON(tested.Raw); err != nil {
			return err
		}
	} else {
		for _, c := range tested.Value.Checks {
			s.say("%-8s %-18s %s", oneLine(c.Status), oneLine(c.Check), oneLine(c.Detail))
		}
	}
	if !tested.Value.Usable {
		return fmt.Errorf("the model %s cannot be used; what failed stands above", quote(cmd.Model))
	}
	return nil
}
