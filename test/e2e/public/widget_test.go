package public

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// site serves a company's page with the widget, on an origin of its own.
func site(t *testing.T, agentd, agent, attributes string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src "+agentd+"; connect-src "+agentd)
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><title>A shop</title><h1>A shop</h1>
			<script src="%s/widget.js" data-agent="%s" %s async></script></html>`, agentd, agent, attributes)
	}))
	t.Cleanup(s.Close)
	return s
}

// The widget on a page of another origin, under a strict policy, by the keyboard alone.
func TestWidget(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		c := r.Chat()
		last := c.Last(model.User)
		if strings.HasPrefix(last, "ask") && c.Messages[len(c.Messages)-1].Role != "tool" {
			return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: "ask_user", Arguments: `{"question":"Which one?"}`}}}
		}
		return modeltest.Answer{Text: "You said **" + last + "** <img src=x onerror=alert(1)> https://example.com/a"}
	}))
	address := apptest.FreeAddress(t)
	n := apptest.Start(t, sim, func(c *config.Config) { c.Server.Listen = address })
	agent := publish(n, object{"allowed_tools": []string{"ask_user"}}, nil)
	shop := site(t, n.URL, agent, `data-accent="#b00020"`)
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"public_config": object{"allowed_origins": []string{shop.URL}}})

	b.open(shop.URL)
	b.wait(`chat.querySelector('.launch').getAttribute('aria-label') === 'Open the chat'`)
	b.eval(`chat.querySelector('.launch').focus()`)
	b.press("Enter", 13)
	b.wait(`chat.querySelector('.panel').getAttribute('role') === 'dialog' && chat.activeElement.id === 'message'`)
	b.wait(`chat.querySelector('.log').innerText.includes('Hello, stranger.') && chat.querySelector('h2').innerText === 'Ada'`)
	for name, expression := range map[string]string{
		"the field has a label": `chat.querySelector('label[for=message]').innerText === 'Your message'`,
		"the dialog has a name": `chat.getElementById(chat.querySelector('.panel').getAttribute('aria-labelledby')).innerText === 'Ada'`,
		"the launcher tells":    `chat.querySelector('.launch').getAttribute('aria-expanded') === 'true'`,
		"it has a log":          `chat.querySelector('[role=log]').getAttribute('aria-label') === 'Conversation'`,
		"it has its colour":     `getComputedStyle(chat.querySelector('.launch')).backgroundColor === 'rgb(176, 0, 32)'`,
		"no session yet":        `sessionStorage.length === 0`,
	} {
		if b.eval(expression) != true {
			t.Error(name)
		}
	}

	b.write("hello <b>there</b>")
	b.wait(`chat.querySelector('.log').innerText.includes('You said hello <b>there</b>')`)
	b.wait(`chat.querySelector('.unseen[role=status]').innerText.includes('You said')`) // for those who listen
	b.wait(`!chat.querySelector('[type=submit]').hidden`)
	if b.eval(`chat.querySelectorAll('.said img, .said b').length`) != 0.0 || b.eval(`chat.querySelectorAll('.said strong').length`) != 1.0 {
		t.Error("what was said is read as HTML, or not as marks")
	}
	if got := b.eval(`chat.querySelector('.said a').rel`); got != "noopener noreferrer nofollow" {
		t.Errorf("a link: %v", got)
	}

	b.write("ask me")
	b.wait(`chat.querySelector('.log').innerText.includes('Which one?') && !chat.querySelector('[type=submit]').hidden`)
	b.write("The red one")
	b.wait(`chat.querySelector('.log').innerText.includes('You said ask me')`)

	// The server goes away and comes back: the chat connects again.
	cfg := n.Config
	n.Stop()
	b.wait(`chat.querySelector('.state').innerText.includes('Connecting again')`)
	apptest.Restart(t, cfg)
	b.wait(`!chat.querySelector('.state').innerText.includes('Connecting again')`)
	b.eval(`chat.querySelector('textarea').focus()`)
	b.write("again")
	b.wait(`chat.querySelector('.log').innerText.includes('You said again')`)
	if b.eval(`chat.querySelectorAll('.said.user').length`) != 4.0 {
		t.Errorf("after the restart: %v", b.eval(`chat.querySelector('.log').innerText`))
	}

	b.press("Escape", 27)
	b.wait(`chat.querySelector('.panel').hidden && chat.activeElement.className === 'launch'`)

	b.open(shop.URL + "/another")
	b.wait(`chat.querySelector('.panel').hidden`)
	b.eval(`chat.querySelector('.launch').click()`)
	b.wait(`chat.querySelectorAll('.said.user').length === 4 && chat.querySelector('.log').innerText.includes('You said again')`)
}

// A page that the agent does not allow gets no chat.
func TestWidgetOnAnotherPage(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel))
	agent := publish(n, object{"allowed_origins": []string{"https://www.example.com"}}, nil)
	b.open(site(t, n.URL, agent, `data-open data-labels='{"failed":"Nichts zu sehen."}'`).URL)
	b.wait(`chat.querySelector('.state').innerText.includes('Nichts zu sehen.')`)
}

func TestWidgetIsSmall(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	r := n.WithKey("").Do("GET", "/widget.js", nil, "Accept-Encoding", "gzip")
	if r.StatusCode != 200 || r.Header.Get("Content-Encoding") != "gzip" || len(r.Body) > 30<<10 ||
		r.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("the script: %d, %d bytes, %v", r.StatusCode, len(r.Body), r.Header)
	}
	if again := n.WithKey("").Do("GET", "/widget.js", nil, "Accept-Encoding", "gzip", "If-None-Match", r.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("the script that a browser has: %d", again.StatusCode)
	}
}
