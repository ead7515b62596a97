package accounts

import (
	"fmt"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
)

// stored returns where tables have a word.
func stored(n *apptest.Server, word string) (places []string) {
	n.T.Helper()
	admin := n.Admin()
	for _, table := range admin.AllTables() {
		for _, row := range admin.Query(`SELECT * FROM ` + table) {
			for column, v := range row {
				text := fmt.Sprint(v)
				if b, ok := v.([]byte); ok {
					text = string(b)
				}
				if strings.Contains(strings.ToLower(text), word) {
					places = append(places, fmt.Sprintf("%s.%s: %s", table, column, text))
				}
			}
		}
	}
	return places
}

// A company names kinds of data. Whatever starts a run from then on, no table has such
// data, and no answer.
func TestRedaction(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		_, n = n.CreateTenant(apptest.Object{"name": "Discreet"})
		agent := n.CreateAgent(apptest.Object{"model": apptest.EchoModel})
		n.WaitRun(n.StartRun(agent, "write to wallaby@example.com", nil))
		if places := stored(n, "wallaby"); len(places) < 2 {
			t.Errorf("what is stored by all others is only in %q", places)
		}
		settings := func(kinds ...any) apptest.Object { return apptest.Object{"settings": apptest.Object{"redact": kinds}} }
		for _, bad := range []any{"passport", 7} {
			n.Do("PATCH", "/api/v1/tenants/me", settings(bad)).IsProblem(t, 422, "VALIDATION_ERROR")
		}
		n.Expect(200, "PATCH", "/api/v1/tenants/me", settings("email", "credit_card"))
		const word, card = "zebrafinch", "4111 1111 1111 1111"
		message := "write to " + word + "@example.com, pay with " + card
		apptest.Eventually(t, func() bool {
			got := n.WaitRun(n.StartRun(agent, "write to someone@example.com", nil))
			return !strings.Contains(apptest.OutputText(got), "someone")
		})

		made := n.Do("POST", "/api/v1/runs", apptest.Object{
			"agent_id": agent, "input": apptest.Object{"message": message, "history": []apptest.Object{{"role": "user", "text": message}}},
			"metadata": apptest.Object{"for": word + "@example.com"},
		}, "Idempotency-Key", "redacted")
		answers := []string{string(made.Body)}
		run := made.JSON["run_id"].(string)
		n.WaitRun(run)
		session := n.CreateSession(agent, nil)
		for range 2 {
			n.WaitRun(n.SendMessage(session, message))
		}
		chat := apptest.Object{"model": agent, "messages": []apptest.Object{{"role": "user", "content": message}}}
		answers = append(answers, string(n.Do("POST", "/v1/chat/completions", chat).Body))
		chat["stream"] = true
		answers = append(answers, string(n.Do("POST", "/v1/chat/completions", chat).Body))
		answers = append(answers, string(n.Do("POST", "/v1/responses", apptest.Object{"model": agent, "input": message}).Body))
		answers = append(answers, string(n.Do("POST", "/v1/messages", apptest.Object{
			"model": agent, "max_tokens": 500, "messages": []apptest.Object{{"role": "user", "content": message}},
		}).Body))
		for _, path := range []string{"/api/v1/runs/" + run + "/events", "/api/v1/sessions/" + session, "/api/v1/runs"} {
			answers = append(answers, string(n.Do("GET", path, nil).Body))
		}
		for _, text := range answers {
			if strings.Contains(text, word) || strings.Contains(text, "4111") {
				t.Errorf("an answer has %s", text)
			}
			if !strings.Contains(text, "[EMAIL]") && strings.Contains(text, "write to") {
				t.Errorf("an answer has no label: %s", text)
			}
		}
		apptest.Eventually(t, func() bool { // indexed by now
			found := n.Expect(200, "GET", "/api/v1/search?q=pay", nil)
			return len(found["results"].([]any)) > 0
		})
		if places := append(stored(n, word), stored(n, card)...); places != nil {
			t.Errorf("stored: %q", places)
		}
		noted := n.Expect(200, "GET", "/api/v1/admin/audit?action=tenant.updated", nil)["entries"].([]any)[0]
		if text := fmt.Sprint(noted); !strings.Contains(text, "credit_card") {
			t.Errorf("the audit log has %s", text)
		}
	})
}
