package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

type runsFollowCommand struct {
	remote
	runArgument
}

// Run implements the command. It fails unless the run completes.
func (cmd *runsFollowCommand) Run(s *server) error { return s.watchRun(cmd.ID) }

type runsRespondCommand struct {
	remote
	runArgument
	Answer []string `arg:"" optional:"" help:"Answer to the run's question; - is the standard input."`
	File   string   `placeholder:"FILE" help:"File with the answer; - is the standard input."`
}

// Run implements the command.
func (cmd *runsRespondCommand) Run(s *server) error {
	answer, err := s.text("<answer>", cmd.Answer, cmd.File)
	if err != nil {
		return err
	}
	return s.send(http.MethodPost, client.Path(client.RunsPath, cmd.ID, "respond"), map[string]string{"response": answer},
		"Answered run %s.", cmd.ID)
}

// approval is how a tool call is approved.
type approval struct {
	Arguments string `placeholder:"JSON" help:"Call the tool with these arguments instead of those that the model wrote."`
	Response  string `placeholder:"TEXT" help:"Tell the model this too, beside the result."`
}

func (a approval) body(id string) (map[string]any, error) {
	body := map[string]any{}
	if id != "" {
		body["approval_id"] = id
	}
	if a.Arguments != "" {
		arguments := jsontext.Value(a.Arguments)
		if !arguments.IsValid() || arguments.Kind() != '{' {
			return nil, usageError("--arguments must be a JSON object, as '{\"path\": \"a.txt\"}'; it is %q", a.Arguments)
		}
		body["arguments"] = arguments
	}
	if a.Response != "" {
		body["response"] = a.Response
	}
	return body, nil
}

// rejection is how a tool call is rejected.
type rejection struct {
	Reason   string `placeholder:"TEXT" help:"Why."`
	Continue bool   `help:"Tell the model and let the run continue. Otherwise the run ends as rejected."`
}

func (r rejection) body(id string) map[string]any {
	body := map[string]any{"reason": r.Reason, "continue": r.Continue}
	if id != "" {
		body["approval_id"] = id
	}
	return body
}

type runsApproveCommand struct {
	remote
	runArgument
	Approval string `placeholder:"ID" help:"Which approval, where the run waits for several."`
	approval
}

// Run implements the command.
func (cmd *runsApproveCommand) Run(s *server) error {
	body, err := cmd.body(cmd.Approval)
	if err != nil {
		return err
	}
	return s.send(http.MethodPost, client.Path(client.RunsPath, cmd.ID, "approve"), body, "Approved; run %s continues.", cmd.ID)
}

type runsRejectCommand struct {
	remote
	runArgument
	Approval string `placeholder:"ID" help:"Which approval, where the run waits for several."`
	rejection
}

// Run implements the command.
func (cmd *runsRejectCommand) Run(s *server) error {
	path := client.Path(client.RunsPath, cmd.ID, "reject")
	return s.send(http.MethodPost, path, cmd.body(cmd.Approval), "Rejected the call of run %s.", cmd.ID)
}

// inboxApproval is an approval as the inbox lists it.
type inboxApproval struct {
	client.Approval
	RunID       string    `json:"run_id"`
	AgentID     string    `json:"agent_id"`
	Status      string    `json:"status"`
	RequestedAt time.Time `json:"requested_at"`
	ExpiresAt   time.Time `json:"expires_at"`
}

const approvalsPath = "/api/v1/approvals"

type approvalsListCommand struct {
	listing
	Status string `default:"pending" placeholder:"STATUS" help:"Which: pending, approved, rejected, expired, cancelled or all."`
}

// Run implements the command.
func (cmd *approvalsListCommand) Run(s *server) error {
	status := strings.TrimPrefix(cmd.Status, "all")
	return list[inboxApproval]{
		path: approvalsPath, query: query("status", status), limit: cmd.Limit,
		empty:   "Nothing waits for an approval.",
		heading: []string{"APPROVAL", "~AGENT", "TOOL", "STATUS", "REQUESTED", "~ARGUMENTS"},
		row: func(a inboxApproval) []string {
			return []string{a.ApprovalID, s.agentName(a.AgentID), a.ToolName, a.Status, formatTime(s.now(), a.RequestedAt), brief(a.Arguments)}
		},
	}.show(s)
}

// approvalArgument is what the commands have that decide one approval.
type approvalArgument struct {
	ID string `arg:"" name:"approval" help:"Id of the approval, as approvals list shows it."`
}

// run returns the path of the run that waits for the approval.
func (a approvalArgument) run(s *server) (string, error) {
	doc, err := get[inboxApproval](s, client.Path(approvalsPath, a.ID))
	return client.Path(client.RunsPath, doc.Value.RunID), err
}

type approvalsApproveCommand struct {
	remote
	approvalArgument
	approval
}

// Run implements the command.
func (cmd *approvalsApproveCommand) Run(s *server) error {
	body, err := cmd.body(cmd.ID)
	if err != nil {
		return err
	}
	run, err := cmd.run(s)
	if err != nil {
		return err
	}
	return s.send(http.MethodPost, run+"/approve", body, "Approved %s.", cmd.ID)
}

type approvalsRejectCommand struct {
	remote
	approvalArgument
	rejection
}

// Run implements the command.
func (cmd *approvalsRejectCommand) Run(s *server) error {
	run, err := cmd.run(s)
	if err != nil {
		return err
	}
	return s.send(http.MethodPost, run+"/reject", cmd.body(cmd.ID), "Rejected %s.", cmd.ID)
}

type runsTreeCommand struct {
	remote
	runArgument
}

// maxTree bounds the runs that are read for a tree.
const maxTree = 5000

// Run implements the command: the run, and the runs that it started with other
// agents, down to the last.
func (cmd *runsTreeCommand) Run(s *server) error {
	root, err := get[client.Run](s, client.Path(client.RunsPath, cmd.ID))
	if err != nil {
		return err
	}
	eldest := cmp.Or(root.Value.RootRunID, root.Value.RunID)
	children := map[string][]client.Doc[client.Run]{}
	for run, err := range client.List[client.Run](s, s.Client, client.RunsPath, url.Values{"root_run_id": {eldest}}, maxTree) {
		if err != nil {
			return err
		}
		children[run.Value.ParentRunID] = append(children[run.Value.ParentRunID], run)
	}
	if cmd.JSON {
		return s.printAny(branchOf(root, children))
	}
	s.printTree(root.Value, children, "", "")
	return nil
}

// branch is a run with those that it started, as JSON.
type branch struct {
	Run      jsontext.Value `json:"run"`
	Children []branch       `json:"children"`
}

func branchOf(run client.Doc[client.Run], children map[string][]client.Doc[client.Run]) branch {
	b := branch{Run: run.Raw, Children: []branch{}}
	below := children[run.Value.RunID]
	for _, child := range slices.Backward(below) { // oldest first
		b.Children = append(b.Children, branchOf(child, children))
	}
	return b
}

func (s *server) printTree(r client.Run, children map[string][]client.Doc[client.Run], first, rest string) {
	message := cutWidth(oneLine(r.Message()), 60)
	fmt.Fprintf(s.stdout, "%s%s  %s  %s  %s  %s\n", first, r.RunID, oneLine(s.agentName(r.AgentID)), r.Status, elapsed(s.now(), r), message)
	below := children[r.RunID]
	for i := range below {
		child := below[len(below)-1-i].Value // oldest first
		if i == len(below)-1 {
			s.printTree(child, children, rest+"└─ ", rest+"   ")
		} else {
			s.printTree(child, children, rest+"├─ ", rest+"│  ")
		}
	}
}
