package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/goldentest"

	"github.com/google/go-cmp/cmp"
)

const completed = `done {"status":"completed","output":{"text":"It is 4."},"metrics":{"steps_count":3,"input_tokens":20,"output_tokens":7,"duration_ms":1234},"cost_usd":0.0012}`

func TestRunShowsWhatHappens(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.run(stream(1,
		`run.queued {}`, `run.started {}`, `step.started {"seq":1}`,
		`llm.thinking {"text":"hmm"}`, `llm.chunk {"text":"Let me "}`, `llm.chunk {"text":"see."}`, `step.completed {"type":"llm"}`,
		`tool.call {"tool_call_id":"t1","name":"calculator","arguments":{"expression":"2+2"}}`,
		`tool.result {"tool_call_id":"t1","name":"calculator","status":"done","output":"4","duration_ms":12}`,
		`tool.result {"name":"http_fetch","status":"error","output":{"error":"refused\u001b[31m"}}`,
		`approval.requested {"approval_id":"a1","tool_name":"write_file","arguments":{"path":"a"}}`,
		`approval.resolved {"status":"approved"}`, `input.requested {"question":"Really?"}`, `run.paused {}`,
		`new.event {"text":"unknown"}`, `llm.chunk {"text":"It is 4."}`, `run.completed {}`, completed,
	))
	r := a.shell.run("run", "helper", "2+2?")
	r.want(t, exitOK)
	if want := "Let me see.\nIt is 4.\n"; r.stdout != want {
		t.Errorf("stdout %q, want %q", r.stdout, want)
	}
	goldentest.Check(t, "testdata/run-stderr.txt", []byte(r.stderr))
	if a.count(`POST /api/v1/runs {"agent_id":"`+agentID+`","input":{"message":"2+2?"}}`) != 1 {
		t.Errorf("asked %v", a.asked)
	}
}

func TestRunFindsTheAgent(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.run(stream(1, completed))
	a.shell.run("run", agentID, "hi").want(t, exitOK, "It is 4.\n")
	if a.count("GET /api/v1/agents") != 0 {
		t.Error("an id needs no search")
	}
	a.shell.run("run", "nobody", "hi").want(t, exitFailure, `no agent with the name "nobody"`)
	a.shell.run("run", "twin", "hi").want(t, exitFailure, `2 agents have the name "twin"`, "-0000000000a2", "-0000000000a3")
	a.shell.run("run", "Helper", "hi").want(t, exitFailure, `no agent with the name "Helper"`)
}

func TestRunGoesOnAfterALostConnection(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	var connections atomic.Int64
	a.run(func(w http.ResponseWriter, r *http.Request) {
		if connections.Add(1) == 1 {
			stream(1, `llm.chunk {"text":"It "}`, `llm.chunk {"text":"is "}`)(w, r)
			return
		}
		if id := r.Header.Get("Last-Event-ID"); id != "2" {
			t.Errorf("resumed after %q", id)
		}
		stream(3, `llm.chunk {"text":"4."}`, completed)(w, r)
	})
	r := a.shell.run("run", "helper", "hi")
	r.want(t, exitOK, "The connection was lost")
	if r.stdout != "It is 4.\n" {
		t.Errorf("stdout %q", r.stdout)
	}
}

func TestRunShowsTheWholeAnswerAfterAGap(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.run(stream(1, `llm.chunk {"text":"It"}`, `gap {"dropped":3}`, `llm.chunk {"text":"."}`, completed))
	r := a.shell.run("run", "helper", "hi")
	r.want(t, exitOK, "Some text was lost on the way")
	if r.stdout != "It.\nIt is 4.\n" {
		t.Errorf("stdout %q", r.stdout)
	}
}

func TestRunThatDoesNotComplete(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, run, says string }{
		{"failed", `{"run_id":"r","error":"The model answered 500.","error_code":"model_error"}`, "ended as failed: The model answered 500. (model_error)\n"},
		{"timeout", `{"run_id":"r","error":"Out of time."}`, "ended as timeout: Out of time.\n"},
		{"cancelled", `{"run_id":"r","error":null}`, "ended as cancelled\n"},
		{"rejected", ``, "ended as rejected\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.run(stream(1, `llm.chunk {"text":"half"}`, `done {"status":"`+tt.name+`","output":null,"metrics":{}}`))
			a.on("GET /api/v1/runs/"+runID, tt.run)
			r := a.shell.run("run", "helper", "hi")
			r.want(t, exitFailure, "Error: run "+runID+" "+tt.says)
			if r.stdout != "half\n" {
				t.Errorf("stdout %q", r.stdout)
			}
		})
	}
}

func TestRunJSON(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.run(stream(1, `run.started {"seq":1}`, `llm.chunk {"text":"a\u001b<b>"}`, `odd not JSON`, completed))
	r := a.shell.run("run", "helper", "hi", "--json")
	r.want(t, exitOK)
	goldentest.Check(t, "testdata/run-json.txt", []byte(r.stdout))
	if r.stderr != "" {
		t.Errorf("stderr %q", r.stderr)
	}
}

func TestRunIsCancelledOnceWhenInterrupted(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	interrupt := a.interrupted()
	defer interrupt()
	cancelled := make(chan struct{})
	a.run(func(w http.ResponseWriter, r *http.Request) {
		stream(1, `llm.chunk {"text":"Well"}`)(w, r)
		interrupt()
		<-cancelled
		stream(2, `run.cancelled {}`, `done {"status":"cancelled","metrics":{}}`)(w, r)
	})
	a.handle("POST /api/v1/runs/"+runID+"/cancel", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"cancelled":true}`)
		close(cancelled) // panics if it is asked twice
	})
	a.on("GET /api/v1/runs/"+runID, `{"run_id":"r","error":null}`)
	r := a.shell.run("run", "helper", "hi")
	r.want(t, exitFailure, "Cancelling the run", "ended as cancelled")
	if r.stdout != "Well\n" {
		t.Errorf("stdout %q", r.stdout)
	}
}

func TestRunIsLeftIfItWillNotEnd(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	interrupt := a.interrupted()
	defer interrupt()
	a.run(func(w http.ResponseWriter, r *http.Request) {
		stream(1)(w, r)
		interrupt()
		<-r.Context().Done()
	})
	a.on("POST /api/v1/runs/"+runID+"/cancel", `{"cancelled":true}`)
	a.shell.leave = 20 * time.Millisecond
	a.shell.run("run", "helper", "hi").want(t, exitDetached, "The run has not ended yet. It was left alone.", "agentd runs follow "+runID)
}

func TestInterruptedCommandsSayNothingOfFailure(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"Ctrl-C": nil, "told to stop": errors.New("the process was told to stop")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			ctx, interrupt := context.WithCancelCause(t.Context())
			a.shell.ctx = ctx
			a.handle("GET /api/v1/missions/m1/events", func(w http.ResponseWriter, r *http.Request) {
				stream(1, `connected {}`)(w, r)
				interrupt(cause)
				<-r.Context().Done()
			})
			r := a.shell.run("mission", "follow", "m1")
			r.want(t, exitDetached, "Interrupted. What has begun on the server goes on there.")
			if strings.Contains(r.stderr, "Error") {
				t.Errorf("stderr %q", r.stderr)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.handle("POST /api/v1/runs", status(409, `{"detail":"The agent is suspended.","code":"INVALID_STATE_TRANSITION","correlation_id":"c-2"}`))
	a.shell.run("run", "helper", "hi").want(t, exitFailure, "Error: The agent is suspended. (INVALID_STATE_TRANSITION, request c-2)\n")
	a.handle("GET /api/v1/agents", status(401, `{"detail":"No valid credential.","code":"AUTH_ERROR"}`))
	a.shell.run("agent", "list").want(t, exitFailure, "No valid credential. (AUTH_ERROR)\nIs AGENTD_KEY a key of this server?\n")
	a.handle("GET /api/v1/agents", status(200, `<html>`))
	a.shell.run("agent", "list").want(t, exitFailure, "is AGENTD_URL right?")
}

func TestTerminalsGetNoForeignEscapes(t *testing.T) {
	t.Parallel()
	var out, errs buffer
	inv := &invocation{stdout: &out, stderr: &errs, stdoutTerminal: true, dim: true}
	f := shower{inv: inv}
	f.text("a\x1b[2Jb\r\n\u009bc\td")
	f.line("%s", "x\x1b]0;y\x07z")
	if diff := cmp.Diff("ab\nc\td\n", strings.ReplaceAll(out.String(), "[2J", "")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("\x1b[2mx]0;yz\x1b[0m\n", errs.String()); diff != "" {
		t.Error(diff)
	}
}
