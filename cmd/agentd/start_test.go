package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// logs waits for a text on stderr.
func (p *process) logs(text string) {
	p.t.Helper()
	p.until(func() bool { return strings.Contains(p.errs.String(), text) }, "logs "+text)
}

// The start says in one line what is wrong with the model, and serves meanwhile.
func TestStartProbesTheModel(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer { return modeltest.Answer{Text: "hi"} }))
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + closed.Addr().String() + "/v1"
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, url, model, want string }{
		{"listed", sim.URL, "sim-model", "answers, and lists sim-model"},
		{"misspelt", sim.URL, "sim-modell", `does not list the model \"sim-modell\"; did you mean \"sim-model\"?`},
		{"without v1", strings.TrimSuffix(sim.URL, "/v1"), "sim-model", "/v1 is missing in AGENTD_MODEL_BASE_URL"},
		{"dead", dead, "sim-model", "connection refused; check AGENTD_MODEL_BASE_URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t).with("AGENTD_LISTEN=127.0.0.1:0", "AGENTD_MODEL_BASE_URL="+tt.url, "AGENTD_MODEL="+tt.model)
			server := m.start("bin/agentd serve")
			server.says(" is ready.")
			server.logs("model endpoint: ")
			level := "level=WARN"
			if tt.name == "listed" {
				level = "level=INFO"
			}
			if got := server.errs.String(); !strings.Contains(got, tt.want) || !strings.Contains(got, level+` msg="model endpoint`) {
				t.Errorf("%q is missing:\n%s", tt.want, got)
			}
		})
	}
}

// An endpoint that never answers delays nothing.
func TestStartDoesNotWaitForTheModel(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	m := newMachine(t).with("AGENTD_LISTEN=127.0.0.1:0", "AGENTD_MODEL_BASE_URL=http://"+silent.Addr().String()+"/v1", "AGENTD_MODEL=m")
	server := m.start("bin/agentd serve")
	server.says(" is ready.")
	began := time.Now()
	server.logs("did not") // answer in time
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("the probe ended after %v: the start may have waited for it", took)
	}
}

// A person at a terminal reads short lines; files and pipes get logfmt.
func TestLogOfATerminal(t *testing.T) {
	t.Parallel()
	m := newMachine(t).with("AGENTD_LISTEN=127.0.0.1:0")
	master, tty, err := pty.Open()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _, _ = master.Close(), tty.Close() })
	var shown output
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			_, _ = shown.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	server := m.start("bin/agentd serve 2>" + tty.Name())
	server.says("bin/agentd run ")
	client := m
	for _, e := range export.FindAllStringSubmatch(server.out.String(), -1) {
		client = client.with(e[1])
	}
	client.want(0, "bin/agentd agent list")
	server.until(func() bool { return strings.Contains(shown.String(), "GET /api/v1/agents 200 ") }, "writes a short line")
	if got := shown.String(); strings.Contains(got, "msg=") || strings.Contains(got, "request_id") {
		t.Errorf("long lines at a terminal:\n%s", got)
	}

	piped, client := newMachine(t).serve(nil)
	client.want(0, "bin/agentd agent list")
	piped.logs("msg=request method=GET")
}

// A failed call of the model is a warning that says what failed.
func TestModelFailuresAreWarnings(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if r.Chat().Last(model.User) == "fail" {
			return modeltest.Answer{Status: 400, Error: "no such thing"}
		}
		return modeltest.Answer{Text: "fine"}
	}))
	server, m := newMachine(t).serve(sim)
	m.want(0, "bin/agentd agent create --name a")
	m.want(1, "bin/agentd run a fail", "no such thing")
	server.logs(`level=WARN msg="a model call failed" provider=default model=sim-model`)
	server.logs("no such thing")
}

func TestStartRefusesAPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	newMachine(t).with("AGENTD_LISTEN="+taken.Addr().String()).want(1, "bin/agentd serve", "another program uses the port", "set AGENTD_LISTEN to another one")
}

func TestStartRefusesUnknownVariables(t *testing.T) {
	t.Parallel()
	newMachine(t).with("AGENTD_LISTN=127.0.0.1:0").want(1, "bin/agentd serve", "AGENTD_LISTN is no setting of agentd; did you mean AGENTD_LISTEN?")
}
