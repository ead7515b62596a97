package commandline

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// gatekeeper is an agent whose sums need an approval.
const gatekeeper = "name: gatekeeper\nbuilt_in_tools: [calculator]\napproval_required_tools: [calculator]\n"

// waits returns the id of a run that was started and waits for a person.
func (s shell) waits(t *testing.T, n *apptest.Server, agent, message string) string {
	t.Helper()
	id := strings.TrimSpace(s.run(0, append(words("run --detach "+agent), message), "agentd runs follow "))
	until(t, "a run that waits", func() bool {
		status := n.Expect(200, "GET", "/api/v1/runs/"+id, nil)["status"]
		return status == "awaiting_approval" || status == "paused"
	})
	return id
}

func TestApprovalsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	s := newShell(t, n)
	s.typing(gatekeeper).run(0, words("agent apply -f - --yes"))
	s.run(0, words("approvals list"), "Nothing waits for an approval.")

	id := s.waits(t, n, "gatekeeper", "What is 6*7?")
	s.run(0, words("runs show "+id), "awaiting_approval", "approval of calculator")
	list := s.run(0, words("approvals list"), "gatekeeper", "calculator", "pending")
	approval := strings.Fields(strings.Split(list, "\n")[1])[0]
	s.run(2, words("approvals approve "+approval+" --arguments 42"), "--arguments must be a JSON object")
	s.run(0, words("approvals approve "+approval), "Approved "+approval)
	s.run(0, words("runs follow "+id), "→ calculator", "The calculator answered: 42")
	s.run(1, words("approvals approve "+approval), "Error: ")
	s.run(0, words("approvals list --status all --json"), `"status": "approved"`)

	id = s.waits(t, n, "gatekeeper", "What is 6*7?")
	s.run(0, words("runs approve "+id), "run "+id+" continues")
	id = s.waits(t, n, "gatekeeper", "What is 1+1?")
	s.run(0, words("runs reject "+id+" --reason no --continue"), "Rejected the call")
	s.run(0, words("runs follow "+id+" --json"), `"event":"approval.resolved"`, `"event":"done"`)
	id = s.waits(t, n, "gatekeeper", "What is 2+2?")
	s.run(0, words("runs reject "+id+" --reason no"))
	s.run(1, words("runs follow "+id), "ended as rejected")
}

func TestMessagesFromStandardInput(t *testing.T) {
	t.Parallel()
	s := newShell(t, apptest.Start(t, nil))
	s.run(0, words("agent create --name calc --tool calculator"))
	s.run(0, words("run calc What is 6*7?"), "The calculator answered: 42")
	s.typing("What is 6*8?\n").run(0, words("run calc -"), "answered: 48")
	s.typing("What is\n6*9?").run(0, words("run calc --file -"), "answered: 54")
	s.typing("").run(1, words("run calc -"), "is empty")
	s.run(2, words("run calc"), "the argument <message> is missing", "Try: agentd run --help")
	s.run(2, words("run calc hello --file x"), "<message> and --file are two texts")
	s.run(1, words("run calc --file nowhere.txt"), "nowhere.txt")
}

func TestQuestionsAndTrees(t *testing.T) {
	t.Parallel()
	call := func(name, arguments string) modeltest.Answer {
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "c1", Name: name, Arguments: arguments}}}
	}
	var worker string
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		chat := r.Chat()
		switch asked := chat.Last(model.User); {
		case chat.Messages[len(chat.Messages)-1].Role == string(model.Tool):
			return modeltest.Answer{Text: "Thank you: " + chat.Last(model.Tool)}
		case asked == "ask":
			return call("ask_user", `{"question":"Which one?"}`)
		case asked == "delegate":
			return call("delegate_to_agent", `{"agent_id":"`+worker+`","message":"work"}`)
		}
		return modeltest.Answer{Text: "done"}
	}))
	n := apptest.Start(t, sim)
	s := newShell(t, n)
	s.run(0, words("agent create --name boss --tool ask_user,delegate_to_agent"))
	worker = strings.TrimSpace(s.run(0, words("agent create --name worker --id")))

	id := s.waits(t, n, "boss", "ask")
	s.run(0, words("runs show "+id), "Which one?")
	s.typing("the second\n").run(0, words("runs respond "+id+" -"), "Answered run "+id)
	s.run(0, words("runs follow "+id), "… asks: Which one?", "agentd runs respond "+id, "the second")

	id = strings.TrimSpace(s.run(0, words("run --detach boss delegate")))
	s.run(0, words("runs follow "+id))
	tree := strings.Split(strings.TrimSpace(s.run(0, words("runs tree "+id))), "\n")
	if len(tree) != 2 || !strings.HasPrefix(tree[0], id+"  boss  completed") || !strings.HasPrefix(tree[1], "└─ ") || !strings.Contains(tree[1], "worker") {
		t.Errorf("tree:\n%s", strings.Join(tree, "\n"))
	}
	var root struct {
		Children []struct {
			Run struct {
				AgentID string `json:"agent_id"`
			} `json:"run"`
		} `json:"children"`
	}
	if err := json.Unmarshal([]byte(s.run(0, words("runs tree --json "+id))), &root); err != nil || len(root.Children) != 1 || root.Children[0].Run.AgentID != worker {
		t.Errorf("%v: %+v", err, root)
	}
}
