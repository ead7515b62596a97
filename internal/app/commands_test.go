package app

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"agentd/internal/wire/workhelper"
)

// A process that runs a command is not to wait for what the rest of agentd sets up, which
// takes longer than the command.
func TestSandboxedCommandsStartEarly(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no sandbox on this system")
	}
	for _, arg := range []string{"sandbox-exec", workhelper.CommandArg, workhelper.TerminalArg} {
		cmd := exec.Command(os.Args[0], arg)
		cmd.Env = []string{"GODEBUG=inittrace=1"}
		trace, err := cmd.CombinedOutput() // it ends at once, because it has no command to run
		if err == nil || !strings.Contains(string(trace), "init ") {
			t.Fatalf("%s: %v\n%s", arg, err, trace)
		}
		for _, late := range []string{
			"github.com/santhosh-tekuri/jsonschema", "agentd/internal/delivery/", "agentd/internal/content/workspace", "agentd/internal/app",
		} {
			if strings.Contains(string(trace), "init "+late) {
				t.Errorf("%s waits for %s:\n%s", arg, late, trace)
			}
		}
	}
}
