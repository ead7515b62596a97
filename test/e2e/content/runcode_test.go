package content

import (
	"strings"
	"testing"

	"agentd/internal/app/apptest"
)

// TestRunCode computes with a file of the workspace and writes another one, which the
// next call sees; what fails changes nothing, and the model reads why.
func TestRunCode(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{
		"model":          object{"provider": "custom", "model_ref": "builtin/echo"},
		"built_in_tools": []string{"run_code", "write_file", "list_files"},
	})
	say := func(lines ...string) string {
		r := n.WaitRun(n.StartRun(agent, strings.Join(lines, "\n"), nil))
		return r["output"].(object)["text"].(string)
	}
	got := say("Add them up.", `call write_file {"path":"data/a.csv","content":"1\n2\n39"}`,
		`call run_code {"code":"console.log('rows'); const n = readFile('data/a.csv').split('\\n').map(Number).reduce((a, b) => a + b); writeFile('sum.txt', String(n)); n"}`,
		`call run_code {"code":"readFile('sum.txt') + ' ' + listFiles().length"}`)
	for _, want := range []string{"rows\n42", "Written: sum.txt", "42 2"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	got = say("Fail.", `call run_code {"code":"writeFile('never.txt', 'x'); readFile('../../etc/passwd')"}`,
		`call run_code {"code":"readFile('nothing.txt')"}`, `call run_code {"code":"for (const i = 0;;) i++"}`, `call list_files {}`)
	for _, want := range []string{"cannot be used", `there is no file "nothing.txt"`, "TypeError"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if strings.Contains(got, "never.txt") {
		t.Errorf("code that failed has written: %q", got)
	}
}
