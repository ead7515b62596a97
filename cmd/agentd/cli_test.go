package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"agentd/internal/kernel/model/modeltest"
)

// Every example of the page of commands is typed, in its order.
func TestExamplesOfCommands(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"jq", "sed"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("the examples use %s: %v", name, err)
		}
	}
	m := newMachine(t)
	m = m.with("PATH="+m.dir+"/bin:"+pathOf(m), "AGENTD_EGRESS_ALLOW=127.0.0.1/32")
	_, m = m.serve(nil)
	// The examples that start a run in the background decide what it asks for next.
	const patient = `agentd() {
	case "$*" in *--detach)
		id=$(command agentd "$@") || return
		until command agentd runs show "$id" --json | jq -e ".run.status == \"awaiting_approval\"" >state; do sleep 0.1; done
		echo "$id"
		return
	esac
	command agentd "$@"
}
`
	p := m.start("sh -e -u -c '" + strings.ReplaceAll(patient+script(t, "docs/cli.md"), "'", `'\''`) + "'")
	code := p.wait()
	inOrder(t, "stdout", p.out.String(), []string{
		"Created agent hello (", "Created agent calc (", "Replaced agent calc (", "NAME", "Unchanged agent calc (", "Created agent clerk (", "Changed agent calc (", "VERSION",
		"+++ version 2", "is version 2 again", "Deleted agent scratch", "answered: 42", "answered: 48", "Approved; run ", "Created knowledge base Handbook (", "hours.md"})
	if code != 0 || t.Failed() {
		t.Errorf("the page ends with %d:\n%s\n%s", code, p.out.String(), p.errs.String())
	}
}

func pathOf(m *machine) string {
	for _, e := range m.env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			return path
		}
	}
	return ""
}

// A server that is killed in the middle of an answer begins it again. Whoever
// reads the output of the command gets each word once.
func TestTextOnceAfterACrash(t *testing.T) {
	t.Parallel()
	first := make(chan struct{}, 1)
	first <- struct{}{}
	sim := modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer {
		answer := modeltest.Answer{Text: modeltest.Tokens(10)}
		select {
		case <-first:
			answer.HangAfter = 5
		default:
		}
		return answer
	}))
	server, m := newMachine(t).serve(sim)
	address := ""
	for _, e := range m.env {
		if url, ok := strings.CutPrefix(e, "AGENTD_URL="); ok {
			address = strings.TrimPrefix(url, "http://")
		}
	}
	m.want(0, "bin/agentd agent create --name slow")
	run := m.start("bin/agentd run slow Hello")
	var id string
	run.until(func() bool {
		out := m.want(0, "bin/agentd runs list")
		id = firstWord(strings.TrimPrefix(out, firstLine(out)))
		return strings.Contains(out, "running")
	}, "is running")
	watcher := m.start("bin/agentd runs follow --json " + id)
	watcher.says(`"text":"tok4 "`)
	server.signal(syscall.SIGKILL)
	<-server.ended
	m.with("AGENTD_LISTEN="+address, "AGENTD_MODEL_BASE_URL="+sim.URL, "AGENTD_MODEL=sim-model").start("bin/agentd serve").says(" is ready.")
	if code := run.wait(); code != 0 {
		t.Errorf("exit code %d: %s", code, run.errs.String())
	}
	if got := strings.TrimSpace(run.out.String()); got != strings.TrimSpace(modeltest.Tokens(10)) {
		t.Errorf("stdout is %q", got)
	}
	if !strings.Contains(run.errs.String(), "The connection was lost") {
		t.Errorf("stderr is %q", run.errs.String())
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func firstWord(s string) string {
	if words := strings.Fields(s); len(words) > 0 {
		return words[0]
	}
	return ""
}

// On a terminal a person is asked, and Ctrl-C leaves a run that waits.
func TestOnATerminal(t *testing.T) {
	t.Parallel()
	_, m := newMachine(t).serve(nil)
	m.want(0, `bin/agentd agent create --name plain`)
	m.want(0, `printf 'name: clerk\nbuilt_in_tools: [calculator]\napproval_required_tools: [calculator]\n' >clerk.yaml`)
	m.want(0, `bin/agentd agent apply --yes -f clerk.yaml`, "Created agent clerk")

	chat := m.onTerminal("bin/agentd chat clerk")
	chat.says("/help lists the commands")
	chat.types("What is 6*7?\r")
	chat.says("[y/n]")
	chat.types("y\n")
	chat.says("answered: 42")
	chat.types("/exit\r")
	chat.says("The conversation is kept")
	if code := chat.wait(); code != 0 {
		t.Errorf("the chat ends with %d:\n%s", code, chat.out.String())
	}

	run := m.onTerminal(`bin/agentd run clerk "What is 1+1?"`)
	run.says("[y/n]")
	run.types("\x03") // Ctrl-C
	if code := run.wait(); code != 3 {
		t.Errorf("the run ends with %d:\n%s", code, run.out.String())
	}
	run.says("It was left alone. Follow it again:  bin/agentd runs follow ")

	asked := m.onTerminal("bin/agentd agent delete plain")
	asked.says("Delete agent plain (")
	asked.types("n\n")
	if code := asked.wait(); code != 1 {
		t.Errorf("a no ends with %d:\n%s", code, asked.out.String())
	}
	m.want(0, "bin/agentd agent show plain", "plain")
}

// terminal is a command on a terminal of its own.
type terminal struct {
	*process
	types func(string)
}

func (m *machine) onTerminal(line string) *terminal {
	m.t.Helper()
	p := &process{t: m.t, line: line, ended: make(chan struct{})}
	p.cmd = exec.Command("sh", "-c", "exec "+line)
	p.cmd.Dir, p.cmd.Env = m.dir, m.env
	f, err := pty.StartWithSize(p.cmd, &pty.Winsize{Rows: 24, Cols: 200})
	if err != nil {
		m.t.Skipf("there are no terminals here: %v", err)
	}
	go func() {
		defer close(p.ended)
		buffer := make([]byte, 4096)
		for {
			n, err := f.Read(buffer)
			_, _ = p.out.Write(buffer[:n])
			if err != nil {
				break // the program has ended
			}
		}
		_ = p.cmd.Wait() // the exit code tells
		f.Close()
	}()
	m.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have ended
		<-p.ended
	})
	return &terminal{p, func(s string) {
		if _, err := f.WriteString(s); err != nil {
			m.t.Error(err)
		}
	}}
}
