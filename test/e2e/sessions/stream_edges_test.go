package sessions

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

// A cursor that a stream cannot have issued restarts it from the beginning,
// after a gap event: one of another run, session or company is as invalid as
// nonsense.
func TestCursorsOfOtherStreams(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "one two"})))
	n.Admin().Notify(n.TenantID(), "a", "b")
	agent := n.CreateAgent(nil)
	session, elsewhere := n.CreateSession(agent, nil), n.CreateSession(agent, nil)
	first, other := n.SendMessage(session, "a"), n.SendMessage(elsewhere, "b")
	made, err := n.Admin().Tenants.Create(t.Context(), "Acme", "")
	if err != nil {
		t.Fatal(err)
	}
	stranger := n.WithKey(string(made.RawKey))
	foreign := stranger.StartRun(stranger.CreateAgent(nil), "c", nil)
	for _, id := range []string{first, other} {
		n.WaitRun(id)
	}
	stranger.WaitRun(foreign)
	n.Expect(200, "DELETE", "/api/v1/sessions/"+session, nil)

	nonsense := []string{
		"nonsense", "-1", "1.5", "1e3", "999999", "9223372036854775807", "99999999999999999999999999", "0x1", ":", ":1", "١", "1\n2", "1\x00",
		strings.Repeat("9", 4000), "<script>", ident.New(), ident.New() + ":1", other + ":1", foreign + ":1",
	}
	run := "/api/v1/runs/" + first + "/events"
	anew := func(path string, before []string, cursors ...string) {
		t.Helper()
		whole := n.ReadStream(path, "", nil)
		for _, cursor := range cursors {
			got := n.ReadStream(path+"?last_event_id="+url.QueryEscape(cursor), "", nil)
			want := slices.Concat(before, []string{"gap"}, apptest.FrameNames(whole)[len(before):])
			if diff := cmp.Diff(want, apptest.FrameNames(got)); diff != "" {
				t.Errorf("%s after %.40q (-want +got):\n%s", path, cursor, diff)
			}
			if gap := got[len(before)]; gap.ID != "" || gap.Object(t)["dropped"] != 0.0 {
				t.Errorf("after %.40q the gap is %s %s", cursor, gap, gap.Data)
			}
		}
	}
	anew(run, nil, append(nonsense, first+":1")...)
	anew("/api/v1/sessions/"+session+"/events", []string{"session.connected"},
		append(nonsense, "1", first, first+":", first+":0", first+":-1", first+":x", first+":99999", first+":99999999999999999999")...)
	for _, cursor := range nonsense {
		got := n.ReadStream("/api/v1/notifications/stream?last_event_id="+url.QueryEscape(cursor), "", func(f apptest.Frame) bool { return f.ID == "2" })
		if diff := cmp.Diff([]string{"0 ready", "gap", "1 notification", "2 notification"}, idNames(got)); diff != "" {
			t.Errorf("notifications after %.40q (-want +got):\n%s", cursor, diff)
		}
	}
	// What the header names counts before the query, as browsers resume.
	header := n.ReadStream(run+"?last_event_id=1", "2", nil)
	if len(header) == 0 || header[0].ID != "3" {
		t.Errorf("after 2 in the header and 1 in the query: %v", apptest.FrameIDs(header))
	}
	// A foreign run and session have no stream, whatever the cursor.
	for _, path := range []string{"/api/v1/runs/" + first, "/api/v1/sessions/" + session} {
		for _, cursor := range []string{"", "1", first + ":1"} {
			stranger.Expect(404, "GET", path+"/events?last_event_id="+cursor, nil)
		}
	}
}

func idNames(frames []apptest.Frame) (out []string) {
	for _, f := range frames {
		out = append(out, strings.TrimSpace(f.ID+" "+f.Name))
	}
	return out
}

// A node that stops ends its streams at once, and their readers go on on
// another one with exactly what they have not seen.
func TestStreamsMoveToAnotherNode(t *testing.T) {
	t.Parallel()
	const words = 150
	a, b := pair(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(words), Delay: 10 * time.Millisecond})))
	agent := b.CreateAgent(nil)
	session := b.CreateSession(agent, nil)
	id := b.SendMessage(session, "speak")
	type followed struct {
		path   string
		res    *http.Response
		frames []apptest.Frame
	}
	var streams []*followed
	for _, path := range []string{"/api/v1/runs/" + id + "/events", "/api/v1/sessions/" + session + "/events"} {
		streams = append(streams, &followed{path: path, res: a.OpenStream(t, path, "Authorization", "Bearer "+a.Key)})
	}
	notes := a.OpenStream(t, "/api/v1/notifications/stream", "Authorization", "Bearer "+a.Key)
	for _, s := range streams {
		chunks := 0
		if err := apptest.ReadFrames(s.res.Body, func(f apptest.Frame) bool {
			s.frames = append(s.frames, f)
			if f.Name == "llm.chunk" {
				chunks++
			}
			return chunks < 10
		}); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan time.Duration, 1)
	begin := time.Now()
	go func() {
		a.Stop()
		stopped <- time.Since(begin)
	}()
	if _, err := io.Copy(io.Discard, notes.Body); err != nil {
		t.Errorf("the notifications did not end cleanly: %v", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("the streams ended after %v", took)
	}
	for _, s := range streams {
		last := s.frames[len(s.frames)-1].ID
		for f := range slices.Values(b.ReadStream(s.path, last, func(f apptest.Frame) bool { return f.Name == "done" })) {
			if f.Name != "session.connected" {
				s.frames = append(s.frames, f)
			}
		}
		whole := b.ReadStream(s.path, "", func(f apptest.Frame) bool { return f.Name == "done" })
		if diff := cmp.Diff(idNames(whole), idNames(s.frames)); diff != "" {
			t.Errorf("%s, put together from two nodes (-whole +got):\n%s", s.path, diff)
		}
		if got := apptest.ChunkText(t, s.frames); got != modeltest.Tokens(words) {
			t.Errorf("%s: together they say %q", s.path, got)
		}
	}
	if took := <-stopped; took > 10*time.Second {
		t.Errorf("stopping took %v", took)
	}
}

// The whole of a stream's surroundings on one node: its first line, its health,
// and how many of them a company may have.
func TestStreamsOfANode(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel), func(c *config.Config) { c.Server.StreamsPerTenant = 3 })
	path := "/api/v1/runs/" + n.StartRun(n.CreateAgent(nil), "wait", nil) + "/events"
	var open []*http.Response
	for range 3 {
		open = append(open, n.OpenStream(t, path, "Authorization", "Bearer "+n.Key))
	}
	if line, err := bufio.NewReader(open[0].Body).ReadString('\n'); err != nil || line != "retry: 2000\n" {
		t.Errorf("a stream begins with %q, %v", line, err)
	}
	apptest.CheckCode(t, n.Do("GET", path, nil), 429, "STREAM_LIMIT")
	apptest.CheckCode(t, n.Do("GET", "/api/v1/notifications/stream", nil), 429, "STREAM_LIMIT")
	made, err := n.Admin().Tenants.Create(t.Context(), "Acme", "")
	if err != nil {
		t.Fatal(err)
	}
	n.OpenStream(t, "/api/v1/notifications/stream", "Authorization", "Bearer "+string(made.RawKey))
	open[1].Body.Close()
	apptest.Eventually(t, func() bool { return n.Do("GET", "/api/v1/notifications/stream", nil).StatusCode == 200 })

	health, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), "GET", n.URL+"/health/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := apptest.HTTPClient.Do(health)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got []apptest.Frame
	if err := apptest.ReadFrames(res.Body, func(f apptest.Frame) bool {
		got = append(got, f)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"connected", "ping", "done", "[DONE]"}, apptest.FrameNames(got)); diff != "" {
		t.Errorf("/health/sse (-want +got):\n%s", diff)
	}
}
