// Package bedrocktest simulates Amazon Bedrock's side of Converse, for the tests of the wire and of whole runs.
package bedrocktest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/wiretest"
)

// Converse simulates Bedrock's side of its API.
type Converse struct{}

// Claude is a model that is served in several regions.
const Claude = "us.anthropic.Claude-sonnet-4-20250514-v1:0"

// Target implements wiretest.Protocol.
func (Converse) Target(url string) model.Target {
	return model.Target{Provider: "bedrock", Model: Claude, BaseURL: url, Wire: model.WireBedrock, Access: model.Access{
		Region: "eu-central-1",
		AWS:    &model.AWS{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: secret.New("aws-secret"), SessionToken: secret.New("session-secret")},
	}}
}

type sentMedia struct {
	Format string `json:"format"`
	Name   string `json:"name"`
	Source struct {
		Bytes string `json:"bytes"`
	} `json:"source"`
}

type sentBlock struct {
	Text     *string    `json:"text"`
	Image    *sentMedia `json:"image"`
	Document *sentMedia `json:"document"`
	ToolUse  *struct {
		ID    string         `json:"toolUseId"`
		Name  string         `json:"name"`
		Input jsontext.Value `json:"input"`
	} `json:"toolUse"`
	ToolResult *struct {
		ID      string      `json:"toolUseId"`
		Content []sentBlock `json:"content"`
	} `json:"toolResult"`
	Reasoning *struct {
		Text *struct {
			Text      *string `json:"text"`
			Signature string  `json:"signature"`
		} `json:"reasoningText"`
		Redacted string `json:"redactedContent"`
	} `json:"reasoningContent"`
	CachePoint *struct {
		Type string `json:"type"`
	} `json:"cachePoint"`
}

type sent struct {
	Messages []struct {
		Role    string      `json:"role"`
		Content []sentBlock `json:"content"`
	} `json:"messages"`
	System    []sentBlock `json:"system"`
	Inference struct {
		MaxTokens   int      `json:"maxTokens"`
		Temperature *float64 `json:"temperature"`
		TopP        *float64 `json:"topP"`
		Stop        []string `json:"stopSequences"`
	} `json:"inferenceConfig"`
	Tools *struct {
		Tools []struct {
			Spec struct {
				Name        string `json:"name"`
				Description string `json:"description"`
				Schema      struct {
					JSON jsontext.Value `json:"json"`
				} `json:"inputSchema"`
				Strict bool `json:"strict"`
			} `json:"toolSpec"`
		} `json:"tools"`
		Choice map[string]struct {
			Name string `json:"name"`
		} `json:"toolChoice"`
	} `json:"toolConfig"`
	Output *struct {
		Format struct {
			Type      string `json:"type"`
			Structure struct {
				Schema struct {
					Schema string `json:"schema"`
					Name   string `json:"name"`
				} `json:"jsonSchema"`
			} `json:"structure"`
		} `json:"textFormat"`
	} `json:"outputConfig"`
	Additional struct {
		Thinking *struct {
			Type   string `json:"type"`
			Budget int    `json:"budget_tokens"`
		} `json:"thinking"`
		Output    jsontext.Value `json:"output_config"`
		Reasoning jsontext.Value `json:"reasoningConfig"`
		Effort    string         `json:"reasoning_effort"`
	} `json:"additionalModelRequestFields"`
}

var (
	paths        = regexp.MustCompile(`^/model/[A-Za-z0-9._~%-]+/converse(-stream)?$`)
	callID       = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	documentWord = regexp.MustCompile(`^[a-zA-Z0-9\-()\[\]]+( [a-zA-Z0-9\-()\[\]]+)*$`)
	credential   = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8}/([a-z0-9-]+)/bedrock/aws4_request), SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$`)
)

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// checkSignature computes the signature of a request as AWS documents it, without the
// library that the client signs with.
func checkSignature(r *http.Request, body []byte) string {
	found := credential.FindStringSubmatch(r.Header.Get("Authorization"))
	date := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	switch {
	case found == nil || found[1] != "AKIDEXAMPLE" || found[3] != "eu-central-1":
		return "The security token included in the request is invalid."
	case err != nil || time.Since(at).Abs() > 5*time.Minute || !strings.HasPrefix(found[2], date[:8]):
		return "Signature expired"
	case r.Header.Get("X-Amz-Security-Token") != "session-secret":
		return "The security token included in the request is invalid."
	}
	names := strings.Split(found[4], ";")
	for _, required := range []string{"host", "x-amz-date", "x-amz-security-token"} {
		if !slices.Contains(names, required) || !slices.IsSorted(names) {
			return required + " must be signed"
		}
	}
	hash := sha256.Sum256(body)
	canonical := r.Method + "\n" + strings.ReplaceAll(r.URL.EscapedPath(), "%", "%25") + "\n" + r.URL.RawQuery + "\n"
	for _, name := range names {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		canonical += name + ":" + strings.Join(strings.Fields(value), " ") + "\n"
	}
	canonical += "\n" + found[4] + "\n" + hex.EncodeToString(hash[:])
	sum := sha256.Sum256([]byte(canonical))
	key := []byte("AWS4aws-secret")
	for part := range strings.SplitSeq(found[2], "/") {
		key = mac(key, part)
	}
	if hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+date+"\n"+found[2]+"\n"+hex.EncodeToString(sum[:]))) != found[5] {
		return "The request signature we calculated does not match the signature you provided."
	}
	return ""
}

// Check implements wiretest.Protocol with the API's own rules.
func (Converse) Check(r *http.Request, body []byte) string {
	if r.Method != "POST" || !paths.MatchString(r.URL.EscapedPath()) {
		return "no such path: " + r.Method + " " + r.URL.RequestURI()
	}
	if wrong := checkSignature(r, body); wrong != "" {
		return wrong
	}
	var s sent
	if err := json.Unmarshal(body, &s, json.RejectUnknownMembers(true)); err != nil {
		return err.Error()
	}
	return s.check()
}

func (s *sent) check() string {
	if len(s.Messages) == 0 || s.Messages[0].Role != "user" {
		return "A conversation must start with a user message."
	}
	if wrong := s.checkThinking(); wrong != "" {
		return wrong
	}
	uses, names, points := false, map[string]bool{}, 0
	var open []string
	for i, m := range s.Messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want || len(m.Content) == 0 {
			return fmt.Sprintf("messages.%d: roles must alternate", i)
		}
		var calls, results []string
		text, document := false, false
		for _, b := range m.Content {
			if wrong := b.check(names); wrong != "" {
				return fmt.Sprintf("messages.%d: %s", i, wrong)
			}
			text, document = text || b.Text != nil, document || b.Document != nil
			if b.ToolUse != nil {
				calls = append(calls, b.ToolUse.ID)
			}
			if b.ToolResult != nil {
				results = append(results, b.ToolResult.ID)
			}
			if b.CachePoint != nil {
				points++
			}
		}
		if document && !text {
			return "You must include a text content block when using a document."
		}
		slices.Sort(calls)
		slices.Sort(results)
		if !slices.Equal(results, open) || len(slices.Compact(slices.Clone(calls))) != len(calls) {
			return "Expected toolResult blocks for the toolUse blocks of the turn before."
		}
		open, uses = calls, uses || calls != nil
	}
	switch {
	case open != nil:
		return "toolUse without toolResult"
	case uses && s.Tools == nil:
		return "The toolConfig field must be defined when using toolUse and toolResult content blocks."
	case points > 3:
		return "too many cache points"
	}
	return ""
}

func (s *sent) checkThinking() string {
	if t := s.Additional.Thinking; t != nil {
		switch {
		case s.Inference.Temperature != nil || s.Inference.TopP != nil:
			return "`temperature` may only be set to 1 when thinking is enabled."
		case t.Type == "enabled" && (t.Budget < 1024 || t.Budget >= s.Inference.MaxTokens):
			return "max_tokens must be greater than thinking.budget_tokens"
		case s.Tools != nil && s.Tools.Choice != nil && len(s.Tools.Choice["auto"].Name) == 0 && s.choice() != "auto":
			return "Thinking may not be enabled when tool_choice forces tool use."
		}
	}
	return ""
}

func (b *sentBlock) check(names map[string]bool) string {
	switch {
	case b.Text != nil && strings.TrimSpace(*b.Text) == "":
		return "The text field in the ContentBlock object is blank."
	case b.ToolUse != nil && (!callID.MatchString(b.ToolUse.ID) || b.ToolUse.Name == "" || b.ToolUse.Input.Kind() != '{'):
		return "Invalid toolUse"
	case b.ToolResult != nil:
		if len(b.ToolResult.Content) == 0 {
			return "toolResult.content is empty"
		}
		for _, inner := range b.ToolResult.Content {
			if wrong := inner.check(names); wrong != "" {
				return wrong
			}
		}
	case b.Document != nil:
		if !documentWord.MatchString(b.Document.Name) || names[b.Document.Name] {
			return "Invalid document name"
		}
		names[b.Document.Name] = true
	case b.Text == nil && b.Image == nil && b.ToolUse == nil && b.Reasoning == nil && b.CachePoint == nil:
		return "ContentBlock must set one of the following keys"
	}
	for _, m := range []*sentMedia{b.Image, b.Document} {
		if m == nil {
			continue
		}
		if _, err := base64.StdEncoding.DecodeString(m.Source.Bytes); err != nil || m.Format == "" {
			return "Invalid media"
		}
	}
	return ""
}

func (s *sent) choice() string {
	switch {
	case s.Tools == nil:
		return "none"
	case len(s.Tools.Choice) == 0:
		return "auto"
	}
	for kind, c := range s.Tools.Choice {
		if kind == "any" {
			return "required"
		}
		if c.Name != "" {
			return c.Name
		}
	}
	return "auto"
}

// Asked implements wiretest.Protocol.
func (Converse) Asked(body []byte) (a wiretest.Asked) {
	var s sent
	_ = json.Unmarshal(body, &s) // it was checked
	for _, b := range s.System {
		if b.Text != nil {
			a.System += *b.Text
		}
	}
	for _, m := range s.Messages {
		for _, b := range m.Content {
			a.Lines = append(a.Lines, b.lines(map[string]string{"user": "user", "assistant": "model"}[m.Role])...)
		}
	}
	if s.Tools != nil {
		for _, t := range s.Tools.Tools {
			a.Tools = append(a.Tools, t.Spec.Name)
		}
	}
	a.Choice = s.choice()
	a.MaxTokens, a.Temperature, a.Stop = s.Inference.MaxTokens, s.Inference.Temperature, s.Inference.Stop
	if s.Output != nil {
		a.Form = s.Output.Format.Structure.Schema.Schema
	}
	return a
}

func (b *sentBlock) lines(who string) (lines []string) {
	switch {
	case b.Text != nil:
		return []string{who + ": " + *b.Text}
	case b.Image != nil:
		return []string{"image: image/" + b.Image.Format + " " + b.Image.Source.Bytes}
	case b.Document != nil:
		return []string{"document: application/" + b.Document.Format + " " + b.Document.Source.Bytes}
	case b.ToolUse != nil:
		return []string{"call: " + b.ToolUse.Name + " " + string(b.ToolUse.Input)}
	case b.ToolResult != nil:
		for _, inner := range b.ToolResult.Content {
			lines = append(lines, inner.lines("result")...)
		}
	case b.Reasoning != nil && b.Reasoning.Text != nil:
		return []string{"thinking: " + b.Reasoning.Text.Signature}
	case b.Reasoning != nil:
		return []string{"thinking: " + b.Reasoning.Redacted}
	case b.CachePoint != nil:
		return []string{"cache point"}
	}
	return lines
}

// Streams implements wiretest.Protocol.
func (Converse) Streams(r *http.Request, _ []byte) bool {
	return strings.HasSuffix(r.URL.Path, "-stream")
}

type object = map[string]any

func stopReason(a wiretest.Answer) string {
	switch a.Finish {
	case model.FinishLength:
		return "max_tokens"
	case model.FinishFilter:
		return "guardrail_intervened"
	case "unknown":
		return "tired"
	}
	for _, b := range a.Blocks {
		if b.Call != nil {
			return "tool_use"
		}
	}
	return "end_turn"
}

func usageOf(a wiretest.Answer) object {
	u := a.Usage
	return object{"inputTokens": u.Input - u.Cached - u.Written, "cacheReadInputTokens": u.Cached, "cacheWriteInputTokens": u.Written,
		"outputTokens": u.Output, "totalTokens": u.Input + u.Output}
}

// Whole implements wiretest.Protocol.
func (Converse) Whole(a wiretest.Answer) []byte {
	content := []any{}
	for _, b := range a.Blocks {
		switch {
		case b.Call != nil:
			input := jsontext.Value(b.Call.Arguments)
			if !input.IsValid() {
				input = jsontext.Value("{}") // only a stream has text in its place
			}
			content = append(content, object{"toolUse": object{"toolUseId": b.Call.ID, "name": b.Call.Name, "input": input}})
		case b.Thinking != "":
			content = append(content, object{"reasoningContent": object{"reasoningText": object{"text": b.Thinking, "signature": b.Signature}}})
		default:
			content = append(content, object{"text": b.Text})
		}
	}
	whole := object{"output": object{"message": object{"role": "assistant", "content": content}}, "stopReason": stopReason(a), "metrics": object{"latencyMs": 1}}
	if !a.NoUsage {
		whole["usage"] = usageOf(a)
	}
	return wiretest.Encode(whole)
}

// Frame returns a frame of an event stream.
func Frame(message, name string, payload any) []byte {
	m := eventstream.Message{Payload: wiretest.Encode(payload)}
	m.Headers.Set(":message-type", eventstream.StringValue(message))
	m.Headers.Set(":"+message+"-type", eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err) // only for headers that are too long
	}
	return b.Bytes()
}

// Stream implements wiretest.Protocol.
func (Converse) Stream(a wiretest.Answer) [][]byte {
	out := [][]byte{Frame("event", "messageStart", object{"role": "assistant", "p": "abc"})}
	var blocks [][][]byte
	for i, b := range a.Blocks {
		var pieces [][]byte
		delta := func(d object) {
			pieces = append(pieces, Frame("event", "contentBlockDelta", object{"contentBlockIndex": i, "delta": d, "p": "abcdef"}))
		}
		switch {
		case b.Call != nil:
			start := object{"toolUse": object{"toolUseId": b.Call.ID, "name": b.Call.Name}}
			pieces = append(pieces, Frame("event", "contentBlockStart", object{"contentBlockIndex": i, "start": start}))
			half := len(b.Call.Arguments) / 2
			delta(object{"toolUse": object{"input": b.Call.Arguments[:half]}})
			delta(object{"toolUse": object{"input": b.Call.Arguments[half:]}})
		case b.Thinking != "":
			for _, p := range strings.SplitAfter(b.Thinking, " ") {
				delta(object{"reasoningContent": object{"text": p}})
			}
			delta(object{"reasoningContent": object{"signature": b.Signature}})
		default:
			for _, p := range strings.SplitAfter(b.Text, " ") {
				delta(object{"text": p})
			}
		}
		blocks = append(blocks, append(pieces, Frame("event", "contentBlockStop", object{"contentBlockIndex": i})))
	}
	out = append(out, wiretest.Mix(blocks, a.Interleave)...)
	out = append(out, Frame("event", "messageStop", object{"stopReason": stopReason(a)}))
	metadata := object{"metrics": object{"latencyMs": 1}}
	if !a.NoUsage {
		metadata["usage"] = usageOf(a)
	}
	return append(out, Frame("event", "metadata", metadata))
}

// Failure implements wiretest.Protocol.
func (Converse) Failure(_ int, message string) []byte {
	return wiretest.Encode(object{"message": message})
}

// StreamFailure implements wiretest.Protocol.
func (Converse) StreamFailure(message string) []byte {
	return Frame("exception", "modelStreamErrorException", object{"message": message})
}
