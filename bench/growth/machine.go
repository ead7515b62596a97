package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

const key = "svc_benchkey_0123456789abcdefghijklmnopqrstuv"

// machine is the programs that run.
type machine struct {
	settings
	model, server *process
	agent         string // that the writing clients ask
}

// process is a running program.
type process struct {
	cmd *exec.Cmd
	url string
}

func newMachine(s settings) (*machine, error) {
	m := &machine{settings: s}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	if m.model, err = start(filepath.Join(s.dir, "simmodel"), addr, "/v1/models", nil, "-addr", addr); err != nil {
		return nil, err
	}
	return m, m.startServer()
}

func (m *machine) startServer() error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	env := []string{
		"AGENTD_LISTEN=" + addr,
		"AGENTD_DATA_DIR=" + filepath.Join(m.dir, "data"), "AGENTD_OWNER_KEY=" + key, "AGENTD_DATABASE_URL=" + m.postgres,
		"AGENTD_MODEL_BASE_URL=" + m.model.url + "/v1", "AGENTD_MODEL=sim-model", "AGENTD_RATE_LIMITS=off",
	}
	m.server, err = start(filepath.Join(m.dir, "agentd"), addr, "/healthz", env, "serve")
	return err
}

func (m *machine) stop() {
	m.server.stop()
	m.model.stop()
}

// start runs a program until it answers.
func start(program, addr, ready string, env []string, args ...string) (*process, error) {
	log, err := os.Create(program + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{cmd: exec.Command(program, args...), url: "http://" + addr}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = log, log, append(os.Environ(), env...)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
		if status, _, err := p.ask(http.MethodGet, ready, ""); err == nil && status == http.StatusOK {
			return p, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%s does not answer; see %s", program, log.Name()), p.stop())
}

func (p *process) stop() error {
	if p == nil || p.cmd.ProcessState != nil {
		return nil
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	return p.cmd.Wait()
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

var client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}

func (p *process) ask(method, path, body string) (int, []byte, error) {
	req, err := http.NewRequest(method, p.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// call asks and decodes the answer, which must be a success.
func (p *process) call(method, path, body string, into any) error {
	status, answer, err := p.ask(method, path, body)
	if err != nil {
		return err
	}
	if status >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %d: %.300s", method, path, status, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// first makes an agent, a session and a run in it, and returns their ids.
func (m *machine) first() (pattern, error) {
	var agent struct {
		ID string `json:"agent_id"`
	}
	body := `{"name":"growth","model":{"provider":"openai_compat","model_ref":"sim-model","capabilities":{}},"system_prompt":"Answer."}`
	if err := m.server.call(http.MethodPost, "/api/v1/agents", body, &agent); err != nil {
		return pattern{}, err
	}
	m.agent = agent.ID
	var session struct {
		ID string `json:"session_id"`
	}
	if err := m.server.call(http.MethodPost, "/api/v1/sessions", fmt.Sprintf(`{"agent_id":%q}`, agent.ID), &session); err != nil {
		return pattern{}, err
	}
	var sent struct {
		RunID string `json:"run_id"`
	}
	body = fmt.Sprintf(`{"agent_id":%q,"session_id":%q,"input":{"message":%q},"metadata":{"order":%q,"channel":%q}}`,
		agent.ID, session.ID, firstInput, firstOrder, firstChannel)
	if err := m.server.call(http.MethodPost, "/api/v1/runs", body, &sent); err != nil {
		return pattern{}, err
	}
	p := pattern{agent: agent.ID, session: session.ID, run: sent.RunID}
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
		var found struct {
			Status string `json:"status"`
			Output struct {
				Text string `json:"text"`
			} `json:"output"`
		}
		if err := m.server.call(http.MethodGet, "/api/v1/runs/"+p.run, "", &found); err != nil {
			return p, err
		}
		if found.Status == "completed" {
			p.answer = strings.TrimSpace(found.Output.Text)
			return p, nil
		}
	}
	return p, errors.New("the first run did not complete")
}
