package runs

import (
	"bytes"
	"encoding/base64"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A backup of a server that works, restored elsewhere: what was acknowledged is there,
// a run that was under way goes on, and a restoration that is killed leaves nothing.
func TestRunsGoOnAfterARestore(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("builds and kills the program")
	}
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			hold := make(chan struct{})
			sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
				a := modeltest.ToolRounds(2, modeltest.Answer{Text: "Done."})(req)
				if strings.Contains(string(req.Body), "tool_call_id") {
					<-hold // until the backup is made
				}
				return a
			}))
			p := apptest.BuildProcess(t, sim)
			place := func() (environment []string) {
				if engine == sqldbtest.Postgres {
					return []string{"AGENTD_DATABASE_URL=" + sqldbtest.Config(t, engine).URL, "AGENTD_DATA_DIR=" + t.TempDir()}
				}
				return []string{"AGENTD_DATA_DIR=" + t.TempDir()}
			}
			key := "AGENTD_SECRET_KEY=" + base64.StdEncoding.EncodeToString(make([]byte, 32))
			p.Env = append(p.Env, append(place(), key)...)
			p.Start()
			agent := p.CreateAgent(object{"built_in_tools": []string{"calculator"}})
			random := bytes.Repeat([]byte(base64.StdEncoding.EncodeToString([]byte(agent))), 1<<13)
			p.Expect(201, "POST", "/api/v1/agents", object{"name": "long", "system_prompt": string(random[:50_000])})
			id := p.StartRun(agent, "Go.", nil)
			p.ReadStream("/api/v1/runs/"+id+"/events", "", func(f apptest.Frame) bool { return f.Name == "tool.result" })

			file := filepath.Join(t.TempDir(), "agentd.backup")
			command := func(environment []string, in io.Reader, args ...string) *exec.Cmd {
				c := exec.Command(p.Program, args...)
				c.Env, c.Stdin = append(append([]string{}, p.Env...), environment...), in
				return c
			}
			expect := func(c *exec.Cmd, says string) {
				t.Helper()
				if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), says) {
					t.Fatalf("%s: %v\n%s", c.Args, err, out)
				}
			}
			expect(command(nil, nil, "backup", file), "rows of")
			expect(command(nil, nil, "verify", file), "The backup is whole")
			p.Kill()
			close(hold)

			fresh := place()
			killRestore(t, command(fresh, nil, "restore", "-"), file)
			expect(command(fresh, nil, "restore", file), "Restored")
			if out, err := command(fresh, nil, "restore", file).CombinedOutput(); err == nil || !strings.Contains(string(out), "not empty") {
				t.Errorf("restored twice: %s", out)
			}
			p.Env = append(p.Env, fresh...)
			p.Start()
			if r := p.WaitRun(id); r["status"] != "completed" || r["output"].(object)["text"] != "Done." {
				t.Errorf("the run is %v: %v", r["status"], r["error"])
			}
		})
	}
}

// killRestore kills a restoration that has read nearly all of its file.
func killRestore(t *testing.T, c *exec.Cmd, file string) {
	t.Helper()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(whole[:len(whole)-100]); err != nil { // more than a pipe holds was read by then
		t.Fatal(err)
	}
	<-time.After(300 * time.Millisecond) // so that it is in the middle; any moment is a good one
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Fatalf("the restoration ended before it was killed: %s", out.String())
	}
}
