package connectorclient_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// service is a simulated service that knows what its API demands.
type service struct {
	config   object            // of the integration
	header   map[string]string // that every request has
	test     string            // request of a test of the connection
	calls    []call
	failures string // an answer with the status 200 that is a failure; "": it has none
}

type call struct {
	tool string
	args object
	want string // METHOD path?query
	body any    // JSON; nil: none
}

func google() map[string]string { return map[string]string{"Authorization": "Bearer secret-1"} }

var services = map[string]service{
	"github": {
		config: object{"token": "secret-1"},
		header: map[string]string{"Authorization": "Bearer secret-1", "X-Github-Api-Version": "2022-11-28", "Accept": "application/vnd.github+json", "User-Agent": "agentd"},
		test:   "GET /user",
		calls: []call{
			{"github_list_issues", object{"owner": "a b", "repo": "c/d", "state": "all", "page": 2}, "GET /repos/a%20b/c%2Fd/issues?page=2&state=all", nil},
			{"github_create_issue", object{"owner": "o", "repo": "r", "title": "T", "labels": []string{"bug"}}, "POST /repos/o/r/issues",
				object{"title": "T", "labels": []any{"bug"}}},
			{"github_search_code", object{"query": "repo:o/r x&y"}, "GET /search/code?q=repo%3Ao%2Fr+x%26y", nil},
			{"github_comment_on_issue", object{"owner": "o", "repo": "r", "number": 7, "body": "Hi \"you\""}, "POST /repos/o/r/issues/7/comments",
				object{"body": `Hi "you"`}},
		},
	},
	"slack": {
		config: object{"token": "secret-1"}, header: google(), test: "POST /auth.test",
		calls: []call{
			{"slack_post_message", object{"channel": "C1", "text": "hello"}, "POST /chat.postMessage", object{"channel": "C1", "text": "hello"}},
			{"slack_get_messages", object{"channel": "C1", "limit": 5}, "GET /conversations.history?channel=C1&limit=5", nil},
		},
		failures: `{"ok":false,"error":"channel_not_found"}`,
	},
	"google_drive": {
		config: object{"token": "secret-1"}, header: google(), test: "GET /drive/v3/about?fields=user",
		calls: []call{
			{"drive_read_document", object{"file_id": "f1", "mime_type": "text/plain"}, "GET /drive/v3/files/f1/export?mimeType=text%2Fplain", nil},
			{"drive_create_folder", object{"name": "New"}, "POST /drive/v3/files", object{"name": "New", "mimeType": "application/vnd.google-apps.folder"}},
			{"drive_create_folder", object{"name": "New", "parent_id": "p"}, "POST /drive/v3/files",
				object{"name": "New", "mimeType": "application/vnd.google-apps.folder", "parents": []any{"p"}}},
		},
	},
	"gmail": {
		config: object{"token": "secret-1"}, header: google(), test: "GET /gmail/v1/users/me/profile",
		calls: []call{
			{"gmail_search_messages", object{"query": "from:ada", "max_results": 3}, "GET /gmail/v1/users/me/messages?maxResults=3&q=from%3Aada", nil},
			{"gmail_send_message", object{"to": "ada@example.com", "subject": "Grüße", "body": "Hello"}, "POST /gmail/v1/users/me/messages/send",
				object{"raw": base64.URLEncoding.EncodeToString([]byte("To: ada@example.com\r\nSubject: =?utf-8?B?R3LDvMOfZQ==?=\r\n" +
					"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\nSGVsbG8=\r\n"))}},
		},
		failures: `{"error":{"code":403,"message":"rate limit"}}`,
	},
	"notion": {
		config: object{"token": "secret-1"}, header: map[string]string{"Authorization": "Bearer secret-1", "Notion-Version": "2022-06-28"},
		test: "GET /v1/users/me",
		calls: []call{
			{"notion_search", object{}, "POST /v1/search", object{}},
			{"notion_query_database", object{"database_id": "d1", "page_size": 10}, "POST /v1/databases/d1/query", object{"page_size": 10.0}},
			{"notion_create_page", object{"parent": object{"page_id": "p"}, "properties": object{"title": []any{}}}, "POST /v1/pages",
				object{"parent": object{"page_id": "p"}, "properties": object{"title": []any{}}}},
		},
	},
	"linear": {
		config: object{"api_key": "secret-1"}, header: map[string]string{"Authorization": "secret-1", "Content-Type": "application/json"}, test: "POST /graphql",
		calls: []call{
			{"linear_create_issue", object{"team_id": "t", "title": "T", "priority": 2}, "POST /graphql",
				object{"variables": object{"input": object{"teamId": "t", "title": "T", "priority": 2.0}}}},
			{"linear_search_issues", object{"query": "crash"}, "POST /graphql", object{"variables": object{"term": "crash"}}},
		},
		failures: `{"errors":[{"message":"Entity not found"}],"data":null}`,
	},
	"jira": {
		config: object{"email": "ada@example.com", "api_token": "secret-1"},
		header: map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("ada@example.com:secret-1"))},
		test:   "GET /rest/api/3/myself",
		calls: []call{
			{"jira_search_issues", object{"jql": "project = ENG"},
				"GET /rest/api/3/search/jql?fields=summary%2Cstatus%2Cassignee%2Cpriority%2Cissuetype%2Cproject%2Cupdated&jql=project+%3D+ENG", nil},
			{"jira_create_issue", object{"project": "ENG", "summary": "S", "issue_type": "Task"}, "POST /rest/api/3/issue",
				object{"fields": object{"project": object{"key": "ENG"}, "summary": "S", "issuetype": object{"name": "Task"}}}},
			{"jira_comment_on_issue", object{"key": "ENG-1", "body": "Hi"}, "POST /rest/api/3/issue/ENG-1/comment", object{"body": object{
				"type": "doc", "version": 1.0, "content": []any{object{"type": "paragraph", "content": []any{object{"type": "text", "text": "Hi"}}}}}}},
		},
	},
}

// Each connector speaks its service's protocol: credential, paths, parameters and
// bodies are what the service demands, and its failures are failures.
func TestConnectors(t *testing.T) {
	t.Parallel()
	for id, s := range services {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			var got string
			var body any
			fails := false
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for name, want := range s.header {
					if r.Header.Get(name) != want {
						if name != "Authorization" {
							t.Errorf("%s is %q, want %q", name, r.Header.Get(name), want)
						}
						answer(w, 401, object{"message": "Bad credentials"})
						return
					}
				}
				got, body = r.Method+" "+r.URL.RequestURI(), nil
				if text, _ := io.ReadAll(r.Body); len(text) > 0 {
					if err := json.Unmarshal(text, &body); err != nil || r.Header.Get("Content-Type") != "application/json" {
						t.Errorf("the body %q of type %q: %v", text, r.Header.Get("Content-Type"), err)
					}
				}
				if fails {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, s.failures)
					return
				}
				answer(w, 200, object{"ok": true, "data": "fine"})
			}))
			f := onSQLite(t)
			s.config["base_url"] = url
			made := f.add(id, s.config)
			if made["status"] != "active" || made["connect_error"] != nil || got != s.test {
				t.Fatalf("%v %v, tested by %q, want %q", made["status"], made["connect_error"], got, s.test)
			}
			for _, c := range s.calls {
				res := f.call(c.tool, c.args)
				if res.Failed || !strings.Contains(res.Output, `"data":"fine"`) {
					t.Errorf("%s answers %q", c.tool, res.Output)
				}
				if o, ok := body.(object); ok && id == "linear" {
					if query, _ := o["query"].(string); !strings.HasPrefix(query, "query") && !strings.HasPrefix(query, "mutation") {
						t.Errorf("%s sends the query %q", c.tool, o["query"])
					}
					delete(o, "query")
				}
				if got != c.want {
					t.Errorf("%s calls %q, want %q", c.tool, got, c.want)
				}
				if diff := cmp.Diff(c.body, body); diff != "" {
					t.Errorf("%s sends (-want +got)\n%s", c.tool, diff)
				}
			}
			if s.failures != "" {
				fails = true
				if res := f.call(s.calls[0].tool, s.calls[0].args); !res.Failed {
					t.Errorf("a failure with the status 200 is the result %q", res.Output)
				}
			}
			for name := range s.config {
				if name != "base_url" && name != "email" {
					s.config[name] = "another"
				}
			}
			wrong := f.must("createIntegration", object{"connector_id": id, "name": "wrong", "config": s.config})
			if wrong["status"] != "error" || !strings.Contains(wrong["connect_error"].(string), "refuses the stored credential") {
				t.Errorf("with another credential: %v %v", wrong["status"], wrong["connect_error"])
			}
		})
	}
}
