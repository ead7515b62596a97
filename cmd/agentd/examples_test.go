package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The first example of a page finds or does what the page says.
func TestFirstExamplesOfPages(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"curl", "jq", "openssl", "sed"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("the examples use %s: %v", name, err)
		}
	}
	_, m := newMachine(t).serve(nil)
	m = m.with("PATH=" + m.dir + "/bin:" + pathOf(m))
	for page, says := range map[string]string{
		"memory":    `"content":"The user likes green tea."`,
		"knowledge": "RESULTS_FOUND",
		"approvals": `"approval_required_tools":["calculator"]`,
		"schedules": `"next_run_at":"`,
		"sensors":   `"received":true`,
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page+".md"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "```sh\n")
		example, _, found := strings.Cut(rest, "```")
		if !found {
			t.Errorf("%s has no example", page)
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			m := *m
			m.t = t
			line := "export AGENT=$(bin/agentd agent create --name " + page + " --id)\n" + example
			p := m.start("sh -e -u -c '" + strings.ReplaceAll(line, "'", `'\''`) + "'")
			code := p.wait()
			_, answer, _ := strings.Cut(p.out.String(), `"tags":["drink"]`) // what the search found, not what was added
			if page != "memory" {
				answer = p.out.String()
			}
			if code != 0 || !strings.Contains(answer, says) {
				t.Errorf("the example of %s ends with %d, without %s:\n%s\n%s", page, code, says, p.out.String(), p.errs.String())
			}
		})
	}
}
