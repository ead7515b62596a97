package public

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

func TestVisitorsOnPagesOfOthers(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel), apptest.AddressPerRequest)
	const site, evil = "https://www.example.com", "https://evil.example"
	agent := publish(n, object{"allowed_origins": []string{site}}, nil)
	n.Expect(422, "PATCH", "/api/v1/agents/"+agent, object{"public_config": object{"allowed_origins": []string{"example.com/"}}})
	stranger := n.WithKey("")
	allows := func(r apptest.Reply) string { return r.Header.Get("Access-Control-Allow-Origin") }

	r := stranger.Do("OPTIONS", sessions, nil, "Origin", site, "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "content-type,x-public-session-token")
	if r.StatusCode != 204 || allows(r) != site || r.Header.Get("Access-Control-Allow-Credentials") != "" ||
		r.Header.Get("Access-Control-Allow-Headers") != "content-type,x-public-session-token" {
		t.Errorf("a preflight: %d %v", r.StatusCode, r.Header)
	}
	if r := stranger.Do("OPTIONS", "/api/v1/agents", nil, "Origin", site, "Access-Control-Request-Method", "POST"); allows(r) != "" {
		t.Errorf("a preflight for an operation of companies: %v", r.Header)
	}
	r = stranger.Do("POST", sessions, object{"agent_id": agent}, "Origin", site)
	if r.StatusCode != 201 || allows(r) != site || !strings.Contains(strings.Join(r.Header["Vary"], ","), "Origin") {
		t.Errorf("on an allowed page: %d %v", r.StatusCode, r.Header)
	}
	v := visitor{stranger, r.JSON["session_id"].(string), r.JSON["token"].(string)}
	for _, refused := range []apptest.Reply{
		stranger.Do("POST", sessions, object{"agent_id": agent}, "Origin", evil),
		stranger.Do("POST", sessions, object{"agent_id": agent}, "Origin", "null"),
		stranger.Do("GET", "/api/v1/public/agents/"+agent, nil, "Origin", evil),
		v.do("GET", "", nil, "Origin", evil),
		v.do("POST", "/messages", object{"content": "x"}, "Origin", evil),
	} {
		if refused.StatusCode != 403 || allows(refused) != "" {
			t.Errorf("on another page: %d %v", refused.StatusCode, refused.Header)
		}
	}
	if r := v.do("POST", "/messages", object{"content": " "}, "Origin", site); r.StatusCode != 422 || allows(r) != site {
		t.Errorf("a refusal that the page reads: %d %v", r.StatusCode, r.Header)
	}
	if r := v.do("GET", "", nil, "Origin", evil, "Sec-Fetch-Site", "same-origin"); r.StatusCode != 200 {
		t.Errorf("a page of this service behind a proxy: %d", r.StatusCode)
	}
	stream := n.OpenStream(t, sessions+"/"+v.id+"/events?token="+v.token, "Origin", site)
	if got := stream.Header.Get("Access-Control-Allow-Origin"); got != site {
		t.Errorf("the stream of an allowed page: %q", got)
	}
}

// Pages of this service have the token as a cookie that no script reads and no other site
// sends.
func TestVisitorsCookie(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel), apptest.AddressPerRequest)
	agent := publish(n, nil, nil)
	stranger := n.WithKey("")
	r := stranger.Do("POST", sessions, object{"agent_id": agent})
	cookie := r.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Value != r.JSON["token"] {
		t.Errorf("the cookie: %v", cookie)
	}
	stranger.Expect(200, "GET", sessions+"/"+r.JSON["session_id"].(string), nil, "Cookie", cookie.Name+"="+cookie.Value)
	again := stranger.Do("POST", sessions, object{"agent_id": agent}, "Cookie", cookie.Name+"="+cookie.Value)
	if again.StatusCode != 200 || again.JSON["session_id"] != r.JSON["session_id"] {
		t.Errorf("a repeated creation: %d %s", again.StatusCode, again.Body)
	}
	fresh := stranger.Expect(201, "POST", sessions, object{"agent_id": agent, "fresh": true}, "Cookie", cookie.Name+"="+cookie.Value)
	if fresh["session_id"] == r.JSON["session_id"] {
		t.Error("fresh returned the session of before")
	}
	for _, row := range n.Admin().Query(`SELECT * FROM visitor_sessions`) {
		for _, value := range row {
			if text, ok := value.(string); ok && strings.Contains(text, cookie.Value) {
				t.Error("the token is stored")
			}
		}
	}
}

// png is the smallest image.
const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"

func TestVisitorsImagesAndReports(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel), apptest.AddressPerRequest)
	agent := publish(n, nil, nil)
	v, other := visit(n, agent), visit(n, agent)
	v.do("POST", "/upload", "<svg onload=alert(1)>", "Content-Type", "image/png").IsProblem(t, 415, "FILE_TYPE_NOT_ALLOWED")
	v.do("POST", "/upload", png+strings.Repeat("x", 8<<20), "Content-Type", "image/png").IsProblem(t, 413, "PAYLOAD_TOO_LARGE")
	form := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\r\n" + png + "\r\n--x--\r\n"
	if r := v.do("POST", "/upload", form, "Content-Type", "multipart/form-data; boundary=x"); r.StatusCode != 200 {
		t.Errorf("a form: %d %s", r.StatusCode, r.Body)
	}
	up := v.do("POST", "/upload", png, "Content-Type", "text/html") // what it is called does not matter
	if up.StatusCode != 200 || up.JSON["mime_type"] != "image/png" || up.JSON["size"] != float64(len(png)) {
		t.Fatalf("an image: %d %s", up.StatusCode, up.Body)
	}
	id := up.JSON["file_id"].(string)
	other.expect(404, "POST", "/messages", object{"content": "look", "file_ids": []string{id}})
	r := v.expect(202, "POST", "/messages", object{"content": "look", "file_ids": []string{id}})
	n.WaitRun(r["run_id"].(string))
	stranger := n.WithKey("")
	got := stranger.Do("GET", "/api/v1/public/files/"+id+"/content", nil)
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != "image/png" || string(got.Body) != png || got.Header.Get("ETag") == "" {
		t.Errorf("a public image: %d %v", got.StatusCode, got.Header)
	}
	own := n.Expect(201, "POST", "/api/v1/files", object{"data": "aGVsbG8=", "mime_type": "image/png", "filename": "a.png"})["file_id"].(string)
	stranger.Expect(404, "GET", "/api/v1/public/files/"+own+"/content", nil)

	said := v.expect(200, "GET", "", nil)["messages"].([]any)
	if diff := cmp.Diff([]any{id}, said[0].(object)["file_ids"]); diff != "" {
		t.Error(diff)
	}
	report := object{"target_type": "message", "target_id": said[1].(object)["message_id"], "reason": "spam", "details": "It repeats me."}
	made := v.expect(202, "POST", "/reports", report)
	v.expect(422, "POST", "/reports", object{"target_type": "message", "target_id": "another", "reason": "spam"})
	v.expect(422, "POST", "/reports", object{"target_type": "session", "target_id": other.id, "reason": "spam"})
	v.expect(202, "POST", "/reports", object{"target_type": "session", "target_id": v.id, "reason": "other"})
	read := n.Expect(200, "GET", "/api/v1/visitor-reports/"+made["report_id"].(string), nil)
	if read["details"] != "It repeats me." || read["session_id"] != v.id || read["status"] != "received" {
		t.Errorf("the report: %v", read)
	}
	n.Expect(200, "PATCH", "/api/v1/visitor-reports/"+made["report_id"].(string), object{"status": "resolved"})
	v.do("POST", "/reports", object{"target_type": "agent", "target_id": agent, "reason": "other"})
	v.do("POST", "/reports", object{"target_type": "agent", "target_id": agent, "reason": "other"}).IsProblem(t, 429, "rate_limit_exceeded")
}
