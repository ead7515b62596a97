package machines

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// program is agentd bridge as a process.
type program struct {
	t       *testing.T
	server  *apptest.Process
	args    []string
	command *exec.Cmd
	log     *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (b *program) start() {
	b.t.Helper()
	b.command = exec.Command(b.server.Program, append([]string{"bridge", "--url", b.server.URL, "--key", apptest.OwnerKey}, b.args...)...)
	b.command.Stderr = b.log
	if err := b.command.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.kill)
}

func (b *program) kill() {
	if b.command != nil {
		_ = b.command.Process.Kill()
		_ = b.command.Wait()
		b.command = nil
	}
}

// says waits until the program has printed something.
func (b *program) says(text string) {
	b.t.Helper()
	for end := time.Now().Add(60 * time.Second); !strings.Contains(b.log.String(), text); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("the program does not say %q:\n%s", text, b.log)
		}
	}
}

// cli runs a command of agentd against the server.
func cli(t *testing.T, p *apptest.Process, args ...string) string {
	t.Helper()
	cmd := exec.Command(p.Program, append(args, "--url", p.URL, "--key", apptest.OwnerKey)...)
	var notes strings.Builder
	cmd.Stderr = &notes
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("agentd %s: %v\n%s", strings.Join(args, " "), err, notes.String())
	}
	return strings.TrimSpace(string(out))
}

// builder is a model that writes a file, runs a command on it, and says what that printed.
func builder(r modeltest.Request) modeltest.Answer {
	call := func(id, name, arguments string) modeltest.Answer {
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: id, Name: name, Arguments: arguments}}}
	}
	switch results := strings.Count(string(r.Body), `"role":"tool"`); {
	case !strings.Contains(string(r.Body), "You work on the machine"):
		return modeltest.Answer{Status: 400, Error: "no prompt of a machine"}
	case results == 0:
		return call("w", "write_file", `{"path":"notes/a.txt","content":"forty-two"}`)
	case results == 1:
		return call("c", "run_command", `{"command":"cat notes/a.txt; echo $AGENTD_KEY"}`)
	default:
		return modeltest.Answer{Text: "It printed: " + r.Chat().Last(model.Tool)}
	}
}

// The program that ships connects a folder: a run writes a file there and runs a command
// that a person approves on the command line. It is killed while it waits, and so is the
// server; the run goes on where it was, and nothing is done or said twice.
func TestTheProgram(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	p := apptest.BuildProcess(t, modeltest.New(t, modeltest.Respond(builder)))
	p.Start()
	dir := t.TempDir()
	b := &program{t: t, server: p, log: &lockedBuffer{}, args: []string{"--dir", dir, "--name", "forge", "--state", t.TempDir(), "--model", "sim-model"}}
	b.start()
	b.says("is connected as the agent forge")
	id := cli(t, p, "run", "forge", "Build it.", "--detach")
	b.says("waits for an approval of run_command")
	p.WaitStatus(id, "awaiting_approval") // the program says so before the server knows
	b.kill()
	p.Kill()
	p.Start()
	if r := p.Expect(200, "GET", "/api/v1/runs/"+id, nil); r["status"] != "awaiting_approval" {
		t.Fatalf("the run after the kills: %v", r)
	}
	cli(t, p, "runs", "approve", id)
	b.start()
	b.says("Going on with task " + id)
	r := p.WaitRun(id)
	if r["status"] != "completed" || apptest.OutputText(r) != "It printed: forty-two" {
		t.Fatalf("the run: %v\n%s", r, b.log)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "notes", "a.txt")); string(text) != "forty-two" {
		t.Errorf("the file: %q, %v", text, err)
	}
	count := map[string]int{}
	for _, name := range apptest.FrameNames(p.ReadStream("/api/v1/runs/"+id+"/events", "", nil)) {
		count[name]++
	}
	if count["tool.call"] != 2 || count["tool.result"] != 2 || count["approval.requested"] != 1 || count["run.completed"] != 1 {
		t.Errorf("the events: %v", count)
	}
	p.Kill() // a machine waits for its server
	p.Start()
	again := cli(t, p, "run", "forge", "Build it.", "--detach")
	p.WaitStatus(again, "awaiting_approval")
	cli(t, p, "runs", "cancel", again)
	b.says("Task " + again + " was ended by the server.")
}
