package main

import (
	"os/exec"
	"strings"
	"testing"
)

// Every walk-through, and the story of the marketplace, is typed word for word, from top to bottom, on a server that has
// seen nothing yet.
func TestWalkthroughs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"curl", "jq", "openssl", "sed"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("the walk-throughs use %s: %v", name, err)
		}
	}
	for name, stdout := range map[string][]string{
		"payment":     {"Created agent cashier (", "write_file", "approved", "rejected", "Bob was paid yesterday"},
		"report":      {"Created agent reporter (", "The current_time answered:", "The write_file answered:", "30 2 * * *", "Europe/Berlin"},
		"documents":   {"Created knowledge base Handbook (", "hours.md", "nine on Mondays", "Flights need the approval", "Bicycles park", "Created agent librarian (", "thirty days of holidays"},
		"bot":         {`"run_id":"`, "1\n"},
		"open-webui":  {"Created agent helper (", `"chat.completion.chunk"`, `42`, `"usage":{`, "data: [DONE]", `{"title": "Six times seven"}`},
		"marketplace": {"Created agent translator (", "Status   published", "RATING", "You said: Good morning\n", "Earned $0.00\nSpent  $0.50\n", "Earned $0.50\nSpent  $0.00\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m = m.with("PATH="+m.dir+"/bin:"+pathOf(m), "AGENTD_EGRESS_ALLOW=127.0.0.1/32")
			_, m = m.serve(nil)
			file := "docs/walkthroughs/" + name + ".md"
			if name == "marketplace" {
				file = "docs/marketplace.md"
			}
			p := m.start("sh -e -u -c '" + strings.ReplaceAll(script(t, file), "'", `'\''`) + "'")
			code := p.wait()
			inOrder(t, "stdout", p.out.String(), stdout)
			if code != 0 || t.Failed() {
				t.Errorf("%s ends with %d:\n%s\n%s", file, code, p.out.String(), p.errs.String())
			}
		})
	}
}
