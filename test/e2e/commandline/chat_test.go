package commandline

import (
	"regexp"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

func TestChatOnAPipe(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	s := newShell(t, n)
	s.run(0, words("agent create --name calc --tool calculator"))

	out := s.typing("What is 6*7?\n\n//slash\nlast").run(0, words("chat calc"))
	var said []string
	for line := range strings.Lines(out) {
		_, what, _ := strings.Cut(line, "no language model. ")
		said = append(said, strings.TrimSpace(what))
	}
	if got := strings.Join(said, "|"); got != "The calculator answered: 42|You said: /slash|You said: last" {
		t.Error(got)
	}

	list := s.run(0, words("sessions list --agent calc"), "What is 6*7?")
	session := regexp.MustCompile(`(?m)^[0-9a-f-]{36}`).FindString(list)
	s.typing("/history\n/session\n/branch 1 other\nWhat is 1+1?\n/branches\n/switch main\n/history\n").run(0, words("chat --session "+session),
		"0  user", "You said: last", session, "Now on branch other (", "answered: 2", "other", "active", "Now on branch main")
	s.typing("/model\n/model builtin/echo\n/model\n/model default\n/model\n").run(0, words("chat --session "+session),
		"builtin/echo, the agent's", "From the next message on builtin/echo answers.", "builtin/echo, in this session", "own model answers")
	s.typing("/new\nhello\n").run(0, words("chat calc"), "New session ", "You said: hello")
	s.typing("/help\n/quit\nnever sent\n").run(0, words("chat calc"), "/history", "/branch [N] [NAME]", "//TEXT")
	s.run(0, words("sessions show "+session), "calc", "other", "agentd chat --session "+session)
	s.run(0, words("sessions messages "+session), "0  user", "What is 6*7?", `→ calculator {"expression":"6*7"}`)
	s.run(0, words("sessions messages --json "+session), `"items": [`, `"role": "assistant"`)
	s.run(0, words("sessions delete "+session), "Closed session")

	s.typing("/helo\n").run(1, words("chat calc"), "there is no command /helo; did you mean /help?")
	s.typing("/switch nowhere\n").run(1, words("chat calc"), `there is no branch "nowhere"`)
	s.run(2, words("chat"), "name an agent, or a session with --session ID")
	s.run(1, words("chat nobody"), `there is no agent with the name "nobody"`)
	s.typing("hello\n").run(1, words("chat --session "+session), "Error: ")
}

// On a pipe the next line answers what a run asks.
func TestChatAnswersApprovals(t *testing.T) {
	t.Parallel()
	s := newShell(t, apptest.Start(t, nil))
	s.typing(gatekeeper).run(0, words("agent apply -f - --yes"))
	s.typing("What is 6*7?\nperhaps\ny\nWhat is 1+1?\nn\nBye\n").run(0, words("chat gatekeeper"),
		`Approve calculator {"expression":"6*7"}? [y/n]`, "Answer y to approve it", "… approved", "answered: 42", "… rejected", "You said: Bye")
	// Who leaves in the middle leaves the run as it is.
	s.typing("What is 6*7?\n").run(3, words("chat gatekeeper"), "waits for an approval", "It was left alone", "agentd chat --session ")
}

func TestChatGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Script(modeltest.Answer{Status: 400, Error: "too long"}), modeltest.Default(modeltest.Answer{Text: "Here I am."}))
	s := newShell(t, apptest.Start(t, sim))
	s.run(0, words("agent create --name calc"))
	s.typing("one\ntwo\n").run(1, words("chat calc"), "ended as failed", "Here I am.", "not every message was answered")
}
