package protocol

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// insides are the forms in which an address of the inside can be written. PORT is
// the port at which something private listens.
var insides = []string{
	"http://127.0.0.1:PORT/", "http://127.0.0.2:PORT/", "http://127.1:PORT/", "http://0:PORT/", "http://0.0.0.0:PORT/",
	"http://2130706433:PORT/", "http://0x7f000001:PORT/", "http://0x7f.0.0.1:PORT/", "http://0177.0.0.1:PORT/", "http://017700000001:PORT/",
	"http://127.0.0.1.:PORT/", "http://localhost:PORT/", "http://LOCALHOST.:PORT/",
	"http://[::1]:PORT/", "http://[::]:PORT/", "http://[::ffff:127.0.0.1]:PORT/", "http://[::ffff:7f00:1]:PORT/", "http://[::127.0.0.1]:PORT/",
	"http://[64:ff9b::7f00:1]:PORT/", "http://[64:ff9b:1::7f00:1]:PORT/", "http://[2002:7f00:1::]:PORT/", "http://[fe80::1%25lo]:PORT/",
	"http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/", "http://user:pw@127.0.0.1:PORT/", "http://example.com@127.0.0.1:PORT/",
	"http://127.0.0.1:PORT#@example.com/", "http://①②⑦.0.0.1:PORT/", "http://127。0。0。1:PORT/", "http://１２７.0.0.1:PORT/",
	"http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/latest/", "http://10.0.0.1:PORT/", "http://192.168.0.1:PORT/",
	"http://100.64.0.1:PORT/", "http://[fc00::1]:PORT/", "http://224.0.0.1:PORT/", "http://255.255.255.255:PORT/",
	"file:///etc/passwd", "gopher://127.0.0.1:PORT/", "http:127.0.0.1:PORT/", `http://127.0.0.1:PORT\@example.com/`,
}

// However the inside is written, no page that an agent fetches and no webhook
// reaches it; redirects of a page that may be fetched do not either.
func TestNothingInsideIsReached(t *testing.T) {
	t.Parallel()
	var reached, opened atomic.Int32
	private, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := private.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			conn.Close()
		}
	}()
	t.Cleanup(func() { private.Close(); <-done })
	_, port, err := net.SplitHostPort(private.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opened.Add(1)
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(door.Close)
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if result := r.Chat().Last(model.Tool); result != "" {
			return modeltest.Answer{Text: result}
		}
		arguments := `{"url":` + strconv.QuoteToASCII(r.Chat().Last(model.User)) + `}` // the model streams it byte by byte
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: "http_fetch", Arguments: arguments}}}
	}))
	n := apptest.Start(t, sim, func(c *config.Config) { c.Security.EgressAllow = strings.TrimPrefix(door.URL, "http://") })
	agent := n.CreateAgent(apptest.Object{"name": "reader", "built_in_tools": []string{"http_fetch"}})
	runs := map[string]string{}
	for _, form := range insides {
		target := strings.ReplaceAll(form, "PORT", port)
		runs[target] = n.StartRun(agent, target, nil)
		redirect := door.URL + "/?to=" + url.QueryEscape(target)
		runs[redirect] = n.StartRun(agent, redirect, nil)
		hook := n.Do("POST", "/api/v1/webhooks", apptest.Object{"url": target, "events": []string{"run.completed"}})
		if hook.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("a webhook to %s: %d %s", target, hook.StatusCode, hook.Body)
		}
	}
	for target, id := range runs {
		if run := n.WaitRun(id); run["status"] != "completed" {
			t.Errorf("%s: %v", target, run)
		}
	}
	if got := opened.Load(); got < int32(len(insides)) {
		t.Errorf("only %d redirects were read", got)
	}
	if got := reached.Load(); got != 0 {
		t.Errorf("%d connections inside", got)
	}
	conn, err := net.Dial("tcp", private.Addr().String()) // the listener would have counted
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	apptest.Eventually(t, func() bool { return reached.Load() == 1 })
}
