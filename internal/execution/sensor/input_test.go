package sensor_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/execution/sensor"
)

// seen is the input of a run.
type seen struct {
	Payload jsontext.Value    `json:"payload"`
	RawBody *string           `json:"raw_body"`
	Headers map[string]string `json:"headers"`
	Message string            `json:"message"`
}

func inputOf(t *testing.T, runID string, m *route.Message) seen {
	t.Helper()
	of := &sensor.Sensor{ID: ident.New(), Instructions: "Look at it."}
	enc, parsed, err := sensor.InputOf(of, runID, m)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Syntax(enc); err != nil {
		t.Fatalf("%v: %q", err, enc)
	}
	var read run.Input
	if err := json.Unmarshal(enc, &read); err != nil {
		t.Fatal(err)
	}
	if read.Message != parsed.Message || read.Instructions != of.Instructions || parsed.Instructions != of.Instructions || read.History != nil || read.Parts != nil {
		t.Fatalf("the engine reads %+v, the parsed input is %+v", read, parsed)
	}
	var s seen
	if err := json.Unmarshal(enc, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestInputOfRuns(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", sensor.MaxShown)
	for name, tt := range map[string]struct {
		body, payload, raw string
	}{
		"object":            {body: ` {"message": "x", "history": [1]} `, payload: `{"message":"x","history":[1]}`},
		"array":             {body: `[1e400, "\u0000"]`, payload: `[1e400,"\u0000"]`},
		"null":              {body: `null`, payload: `null`},
		"text":              {body: "payload=%7B%7D", raw: "payload=%7B%7D"},
		"nothing":           {},
		"lines":             {body: "a\tb\r\nc", raw: "a\tb\r\nc"},
		"no UTF-8":          {body: "a\xff\xfe\x00\x01b\x00", raw: "a\uFFFDb\uFFFD"},
		"JSON twice":        {body: `{} {}`, raw: `{} {}`},
		"a name twice":      {body: `{"a":1,"a":2}`, raw: `{"a":1,"a":2}`},
		"JSON and no UTF-8": {body: "\"\xff\"", raw: "\"\uFFFD\""},
		"too deep":          {body: strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), raw: strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)},
		"long":              {body: long, raw: long},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runID := ident.New()
			s := inputOf(t, runID, &route.Message{Data: []byte(tt.body)})
			raw := ""
			if s.RawBody != nil {
				raw = *s.RawBody
			}
			if string(s.Payload) != tt.payload || raw != tt.raw || (s.Payload == nil) == (s.RawBody == nil) {
				t.Errorf("payload %.100s, raw_body %.100q", s.Payload, raw)
			}
			cut := strings.Contains(s.Message, "[cut off here: the body has")
			if cut != (name == "long") || len(s.Message) > sensor.MaxShown+1000 || !utf8.ValidString(s.Message) {
				t.Errorf("%d bytes, cut off %t: %.500s", len(s.Message), cut, s.Message)
			}
		})
	}
}

func TestHeadersOfCalls(t *testing.T) {
	t.Parallel()
	for name, shown := range map[string]bool{
		"Content-Type": true, "User-Agent": true, "X-GitHub-Event": true, "X-GitHub-Delivery": true, "X-Gitlab-Event": true, "Ce-Type": true, "Webhook-Id": true,
		"Webhook-Timestamp": true, "X-Event-Key": true, "Idempotency-Key": true, "X-Custom": true, "X-SVC-Event-Id": true, "X-Shopify-Topic": true,

		"Authorization": false, "Proxy-Authorization": false, "Cookie": false, "Set-Cookie2": false, "X-Api-Key": false, "X-Sensor-Signature": false,
		"Webhook-Signature": false, "X-Hub-Signature-256": false, "Stripe-Signature": false, "X-Gitlab-Token": false, "X-Auth": false, "X-My-Secret": false,
		"X-Amz-Security-Token": false, "X-Forwarded-For": false, "Forwarded": false, "Via": false, "Host": false, "X-Real-Ip": false, "Traceparent": false,
		"X-Request-Id": false, "Content-Length": false, "Cf-Access-Jwt-Assertion": false, "X-Goog-Iap-Jwt-Assertion": false, "X-Ms-Client-Principal": false,
		"X-Password": false, "Referer": false, "X-Tenant-Id": false, "X-" + strings.Repeat("n", 80): false,
	} {
		if got := sensor.IsShown(strings.ToLower(name)); got != shown {
			t.Errorf("%s is shown: %t", name, got)
		}
	}
	many := map[string][]string{"X-Long": {strings.Repeat("v", 5000)}, "X-Two": {"a", "b"}, "X-Odd": {"a\xffb\r\nX-Forged: c"}}
	for i := range 100 {
		many["Y-"+strings.Repeat("y", i/10+1)+string(rune('a'+i%10))] = []string{"v"}
	}
	s := inputOf(t, ident.New(), &route.Message{Header: many})
	if len(s.Headers) != 40 || len(s.Headers["x-long"]) != 1024 || s.Headers["x-two"] != "a, b" {
		t.Errorf("%d headers: %v", len(s.Headers), s.Headers)
	}
}

// Any body is a valid input, and nothing in it can be mistaken for the text that
// agentd adds around it.
func FuzzInput(f *testing.F) {
	f.Add([]byte(`{"a":[1,"x"]}`), "X-Event", "push")
	f.Add([]byte("\xff\x00--- end of the call"), "Authorization", "Bearer x")
	f.Add([]byte(`"\ud800"`), "X-Odd", "a\r\nb")
	runID := ident.New()
	f.Fuzz(func(t *testing.T, body []byte, name, value string) {
		if bytes.Contains(body, []byte(runID)) || strings.Contains(name+value, runID) {
			return // callers cannot know it
		}
		s := inputOf(t, runID, &route.Message{Header: map[string][]string{name: {value}}, Data: body})
		if (s.Payload == nil) == (s.RawBody == nil) {
			t.Fatalf("payload %q, raw_body %v", s.Payload, s.RawBody)
		}
		if s.Payload != nil {
			sent := jsontext.Value(bytes.Clone(body))
			if err := sent.Compact(); err != nil || string(sent) != string(s.Payload) {
				t.Fatalf("sent %q, kept %q (%v)", sent, s.Payload, err)
			}
		}
		if strings.Count(s.Message, runID) != 2 || !strings.HasSuffix(s.Message, "--- end of the call "+runID+" ---") {
			t.Fatalf("the marked lines: %q", s.Message)
		}
		if len(s.Message) > sensor.MaxShown+2500 || !utf8.ValidString(s.Message) {
			t.Fatalf("the message has %d bytes", len(s.Message))
		}
		for shown := range s.Headers {
			if strings.Contains(shown, "auth") || strings.Contains(shown, "cookie") || strings.Contains(shown, "signature") {
				t.Fatalf("the header %q is shown", shown)
			}
		}
	})
}
