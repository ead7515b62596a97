package contract

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/route"
	"agentd/internal/kernel/model/modeltest"
)

// extendedBody is a call's body with another member put in front, as text.
func extendedBody(k *contracttest.Call, t *testing.T, member string) string {
	t.Helper()
	if k.Body == nil {
		return "{" + member + "}"
	}
	text, err := json.Marshal(k.Body)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) == "{}" {
		return "{" + member + "}"
	}
	return "{" + member + "," + string(text[1:])
}

// Every operation decodes its body strictly, by the same rules.
func TestStrictJSON(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	c := contracttest.NewOwnCompany(t, apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.AddressPerRequest))
	deep := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for _, op := range contracttest.Operations(c.Server) {
		if op.BodySchema == nil {
			continue
		}
		t.Run(op.TestName(), func(t *testing.T) {
			c := c.WithT(t)
			k := c.OwnCall(op)
			for _, broken := range []struct{ name, body string }{
				{"cut_off", "{"},
				{"no_json", "name=value"},
				{"only_space", "  \n"},
				{"byte_order_mark", "\ufeff" + extendedBody(k, t, `"zz":1`)},
				{"bytes_after", extendedBody(k, t, `"zz":1`) + "x"},
				{"value_after", extendedBody(k, t, `"zz":1`) + "{}"},
				{"duplicate", extendedBody(k, t, `"zz":1,"zz":2`)},
				{"duplicate_escaped", extendedBody(k, t, `"zz":1,"\u007a\u007a":1`)},
				{"duplicate_inside", extendedBody(k, t, `"zz":[{"a":1,"a":1}]`)},
				{"invalid_utf8", extendedBody(k, t, "\"zz\":\"\xff\"")},
				{"invalid_utf8_name", extendedBody(k, t, "\"\xc0\xaf\":1")},
				{"lone_surrogate", extendedBody(k, t, `"zz":"\ud800"`)},
				{"lone_low_surrogate", extendedBody(k, t, `"zz":"\udc00 x"`)},
				{"surrogates_turned", extendedBody(k, t, `"zz":"\udc00\ud800"`)},
				{"too_deep", extendedBody(k, t, `"zz":`+deep(64))},
				{"far_too_deep", extendedBody(k, t, `"zz":`+deep(200_000))},
				{"comment", extendedBody(k, t, `"zz":1/*c*/`)},
				{"trailing_comma", extendedBody(k, t, `"zz":[1,]`)},
				{"single_quotes", `{'a':1}`},
				{"not_a_number", extendedBody(k, t, `"zz":NaN`)},
				{"leading_zero", extendedBody(k, t, `"zz":01`)},
				{"control_character", extendedBody(k, t, "\"zz\":\"\t\"")},
				{"half_escape", extendedBody(k, t, `"zz":"\u12"`)},
			} {
				k.Body = broken.body
				r := k.Send(c.Server)
				if r.StatusCode != 400 && !op.RateLimited(r) {
					t.Errorf("%s: %d, want 400: %s", broken.name, r.StatusCode, r.Body)
					continue
				}
				op.CheckRefusal(t, r, 400, "INVALID_REQUEST")
			}
			for _, kind := range []string{`[]`, `"text"`, `1`, `true`, `null`} {
				k.Body = kind
				op.CheckRefusal(t, k.Send(c.Server), 422, "VALIDATION_ERROR")
			}
		})
	}
}

// Fields that this version does not know are ignored, even nested as deep as a
// body may be.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	c := contracttest.NewOwnCompany(t, apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.Embedding, apptest.WebSearch(t), apptest.AddressPerRequest))
	deep := strings.Repeat("[", 63) + strings.Repeat("]", 63)
	for _, op := range contracttest.Operations(c.Server) {
		if op.BodySchema == nil {
			continue
		}
		k := c.OwnCall(op)
		k.Body = extendedBody(k, t, `"zz_unknown":{"a":[null,true,1e9,"\ud83d\ude00"]},"zz_deep":`+deep+`,"AGENT_ID":1,"Name":2`)
		r := k.Send(c.Server)
		switch {
		case strictBodies[op.ID]:
			op.CheckRefusal(t, r, 422, "VALIDATION_ERROR")
		case op.NeedsWorld():
			if r.JSON["code"] == "VALIDATION_ERROR" || r.JSON["code"] == "INVALID_REQUEST" {
				t.Errorf("%s: %d %s", op, r.StatusCode, r.Body)
			}
		case !op.Succeeds(r.StatusCode):
			t.Errorf("%s: %d %s", op, r.StatusCode, r.Body)
		}
	}
}

// strictBodies are operations that refuse unknown fields, so that
// {"approved": false} never approves.
var strictBodies = map[string]bool{"approveRun": true, "rejectRun": true}

// The headers that describe a body are checked before the body is read.
func TestBodyHeaders(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	c := contracttest.NewOwnCompany(t, apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.AddressPerRequest))
	for _, op := range contracttest.Operations(c.Server) {
		if op.BodySchema == nil {
			continue
		}
		t.Run(op.TestName(), func(t *testing.T) {
			c := c.WithT(t)
			k := c.OwnCall(op)
			body := extendedBody(k, t, `"zz":1`)
			head := func(headers ...string) string {
				return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", op.Method, k.Target(), c.Key, strings.Join(headers, "\r\n"))
			}
			jsonType := "Content-Type: application/json"
			length := fmt.Sprintf("Content-Length: %d", len(body))
			for _, bad := range []struct {
				name, request string
				status        int
				code          string
			}{
				{"chunked", head(jsonType, "Transfer-Encoding: chunked") + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body), 411, "LENGTH_REQUIRED"},
				{"too_large", head(jsonType, fmt.Sprintf("Content-Length: %d", 10<<20+1)), 413, "PAYLOAD_TOO_LARGE"},
				{"absurdly_large", head(jsonType, "Content-Length: 9223372036854775807"), 413, "PAYLOAD_TOO_LARGE"},
				{"text", head("Content-Type: text/plain", length) + body, 415, "UNSUPPORTED_MEDIA_TYPE"},
				{"form", head("Content-Type: application/x-www-form-urlencoded", length) + body, 415, "UNSUPPORTED_MEDIA_TYPE"},
				{"multipart", head("Content-Type: multipart/form-data; boundary=x", length) + body, 415, "UNSUPPORTED_MEDIA_TYPE"},
				{"latin1", head(jsonType+"; charset=iso-8859-1", length) + body, 415, "UNSUPPORTED_MEDIA_TYPE"},
				{"compressed", head(jsonType, "Content-Encoding: gzip", length) + body, 415, "UNSUPPORTED_MEDIA_TYPE"},
			} {
				if bad.name == "multipart" && slices.Contains(op.Uploads, route.Form) {
					bad.status, bad.code = 400, "INVALID_REQUEST" // a form, but none that can be read
				}
				t.Run(bad.name, func(t *testing.T) {
					op.CheckRefusal(t, c.WithT(t).SendBytes(op.Method, bad.request), bad.status, bad.code)
				})
			}
			for _, fine := range []string{"application/json; charset=UTF-8", "Application/JSON", "application/merge-patch+json", ""} {
				if r := c.SendHeaders(op.Method, k.Target(), "[]", "Authorization", "Bearer "+c.Key, "Content-Type", fine); r.StatusCode != 422 && !op.RateLimited(r) {
					t.Errorf("Content-Type %q: %d %s", fine, r.StatusCode, r.Body)
				}
			}
			empty := c.SendBytes(op.Method, head(jsonType, "Content-Length: 0"))
			switch {
			case op.Optional:
				if empty.StatusCode == 400 || empty.StatusCode >= 500 && (empty.StatusCode != 501 || op.ID != "createBillingPortalSession") { // no Stripe
					t.Errorf("no body, which is optional: %d %s", empty.StatusCode, empty.Body)
				}
			default:
				op.CheckRefusal(t, empty, 400, "MISSING_BODY")
			}
		})
	}
}

// A body may have exactly 10 MiB.
func TestLargestBody(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	n := apptest.Start(t, nil)
	const before, after = `{"name":"large","note":"`, `"}`
	body := func(size int) string { return before + strings.Repeat("a", size-len(before)-len(after)) + after }
	made := n.Expect(201, "POST", "/api/v1/commerce/customers", body(10<<20))
	apptest.CheckCode(t, n.Do("POST", "/api/v1/commerce/customers", body(10<<20+1)), 413, "PAYLOAD_TOO_LARGE")
	read := n.Expect(200, "GET", "/api/v1/commerce/customers/"+made["id"].(string), nil)
	if len(read["note"].(string)) < 10<<20-100 {
		t.Error("the note was cut")
	}
}

// A cut connection is no request: nothing is done, nobody else is harmed.
func TestHalfABody(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	reader, writer := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", n.URL+"/api/v1/agents", reader)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 1000
	req.Header.Set("Authorization", "Bearer "+n.Key)
	req.Header.Set("Content-Type", "application/json")
	done := make(chan error)
	go func() {
		resp, err := apptest.HTTPClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	io.WriteString(writer, `{"name":"half"`)
	writer.CloseWithError(context.Canceled)
	if <-done == nil {
		t.Error("the request was answered")
	}
	if items := n.Expect(200, "GET", "/api/v1/agents", nil)["items"].([]any); len(items) > 0 {
		t.Errorf("half a body made %v", items)
	}
}

// A body that cannot be accepted is refused with all of its invalid fields.
func TestEveryWrongFieldIsNamed(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(nil)
	for _, c := range []struct {
		name, method, path string
		body               string
		fields             []string
	}{
		{"agent", "POST", "/api/v1/agents", `{}`, []string{"name"}},
		{
			"agent_types", "POST", "/api/v1/agents",
			`{"name":1,"description":[],"model":"gpt","prompts":{"system":1},"skills":[1,{}],"execution_mode":"fast","worker_reuse":"yes",` +
				`"context_strategy":"","context_window_size":1.5,"thinking":[],"approval_required_tools":"all","metadata":[],"fallback_model":{}}`,
			[]string{
				"approval_required_tools", "context_strategy", "context_window_size", "description", "execution_mode", "fallback_model.model_ref",
				"fallback_model.provider", "metadata", "model", "name", "prompts.system", "skills[0]", "thinking", "worker_reuse",
			},
		},
		{
			"agent_rules", "POST", "/api/v1/agents",
			`{"name":" ","built_in_tools":["calculator","nothing"],"schedule":{"timezone":"UTC"},` +
				`"model":{"provider":"openai_compat","model_ref":"m","endpoint_url":"ftp://example.com/v1"},"resource_limits":{"max_steps":-1}}`,
			[]string{"built_in_tools[1]", "model.endpoint_url", "name", "resource_limits.max_steps", "schedule.cron"},
		},
		{"agent_patch", "PATCH", "/api/v1/agents/" + agent, `{"name":"","model":{"provider":"x"}}`, []string{"model.model_ref", "model.provider", "name"}},
		{"rollback", "POST", "/api/v1/agents/" + agent + "/rollback", `{"version":0}`, []string{"version"}},
		{"rollback_nothing", "POST", "/api/v1/agents/" + agent + "/rollback", `{}`, []string{"version"}},
		{"run", "POST", "/api/v1/runs", `{}`, []string{"agent_id"}},
		{
			"run_types", "POST", "/api/v1/runs",
			`{"agent_id":"x","session_id":"y","input":{"message":1,"history":"z"},"version":0,"resource_limits":{"max_steps":-1,"max_duration_ms":"1"},"metadata":[]}`,
			[]string{"agent_id", "metadata", "resource_limits.max_duration_ms", "resource_limits.max_steps", "session_id", "version"},
		},
		{"run_input", "POST", "/api/v1/runs", `{"agent_id":"` + agent + `","input":{"message":1,"history":"z"}}`, []string{"input.history", "input.message"}},
		{"key", "POST", "/api/v1/tenants/me/keys", `{"name":"","scopes":["agents:read","agents:*","nothing"]}`, []string{"name", "scopes[1]", "scopes[2]"}},
		{"key_types", "POST", "/api/v1/tenants/me/keys", `{"name":1,"scopes":"*"}`, []string{"name", "scopes"}},
		{"customer", "POST", "/api/v1/commerce/customers", `{"name":1,"email":"x","tags":[1],"tax_exempt":0}`, []string{"email", "name", "tags[0]", "tax_exempt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := n.Do(c.method, c.path, c.body)
			apptest.CheckCode(t, r, 422, "VALIDATION_ERROR")
			var doc struct {
				Errors []struct{ Field, Message string } `json:"errors"`
			}
			if err := json.Unmarshal(r.Body, &doc, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			fields := []string{}
			for _, e := range doc.Errors {
				fields = append(fields, e.Field)
				if len(e.Message) < 5 {
					t.Errorf("%s: %q says nothing", e.Field, e.Message)
				}
			}
			slices.Sort(fields)
			if diff := cmp.Diff(c.fields, slices.Compact(fields)); diff != "" {
				t.Errorf("fields (-want +got):\n%s\n%s", diff, r.Body)
			}
		})
	}
	chat := n.Do("POST", "/v1/chat/completions", `{"messages":[{"role":"king"}],"temperature":9}`)
	(&contracttest.Operation{ChatErrors: true}).CheckRefusal(t, chat, 422, "VALIDATION_ERROR")
}
