package judge

import (
	"fmt"
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/text"
	"agentd/internal/kernel/model"
)

// Bounds of what a judge is shown, in bytes, and of what is kept of its reasons, in
// characters.
const (
	maxTask   = 20_000
	maxResult = 100_000
	maxReason = 300
	// maxAnswer is how many tokens a judge writes at most; thinking models need some of
	// them to think.
	maxAnswer = 4096
)

// Work is what a judge looks at.
type Work struct {
	Task   string // what was asked for
	Result string
	Files  []File
}

// File is a file that the run wrote.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size_bytes"`
	Head string `json:"beginning,omitzero"` // of a text; "": it is none, or there are too many files
	Cut  bool   `json:"beginning_only,omitzero"`
}

// Scored is the score of a result by one criterion.
type Scored struct {
	_ struct{} `json:"-" name:"OutcomeScore"`

	Name   string  `json:"name" required:"true" doc:"The criterion."`
	Score  float64 `json:"score" required:"true" doc:"From 0 to 1."`
	Reason string  `json:"reason,omitzero" doc:"Why, in the words of the judge; at most 300 characters."`
}

// Request returns the request that has a model judge work by the rubric. The target is
// the caller's to set.
func (r *Rubric) Request(f Fence, w Work) (model.Request, error) {
	material, err := json.Marshal(struct {
		Task   string `json:"task"`
		Result string `json:"result"`
		Cut    bool   `json:"result_is_cut_off,omitzero"`
		Files  []File `json:"files,omitzero"`
	}{text.TruncateBytes(w.Task, maxTask), text.TruncateBytes(w.Result, maxResult), len(w.Result) > maxResult, w.Files},
		jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return model.Request{}, err
	}
	format, err := r.format(f)
	if err != nil {
		return model.Request{}, err
	}
	cold := 0.0
	return model.Request{
		Messages: f.Messages(r.instructions(f), material), MaxTokens: maxAnswer, Temperature: &cold,
		Extra: map[string]jsontext.Value{"response_format": format},
	}, nil
}

// instructions returns those of the judge.
func (r *Rubric) instructions(f Fence) string {
	var b, answer strings.Builder
	b.WriteString("You judge how well the work of an agent meets a rubric. You do nothing else.\n\nThe criteria:\n")
	fmt.Fprintf(&answer, `{"word": "%s"`, f.Word)
	for i := range r.Criteria {
		c := &r.Criteria[i]
		fmt.Fprintf(&b, "%s: %s. %s\n", key(i), c.Name, c.Description)
		fmt.Fprintf(&answer, `, "%s": {"score": 0.0, "reason": "one sentence"}`, key(i))
	}
	fmt.Fprintf(&b, "\n%s\n\nAnswer with one JSON object and nothing else:\n%s}\n"+
		"Each score is how well the result meets that criterion alone, from 0.0 (not at all) to 1.0 (fully); "+
		"the reason says what is missing.",
		f.Notice("task is what the agent was asked, result what it answered, and files, if it is there, the files that it wrote, "+
			"with the beginnings of those that are texts."), answer.String())
	return b.String()
}

// key is the member of a judge's answer for a criterion.
func key(i int) string { return fmt.Sprintf("c%d", i+1) }

// format is the response_format of a judge's answer, for models that keep to one.
func (r *Rubric) format(f Fence) (jsontext.Value, error) {
	properties := map[string]any{"word": map[string]any{"type": "string", "enum": []string{f.Word}}}
	required := []string{"word"}
	for i := range r.Criteria {
		c := &r.Criteria[i]
		properties[key(i)] = map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"score", "reason"},
			"properties": map[string]any{
				"score":  map[string]any{"type": "number", "description": c.Name + ": " + c.Description},
				"reason": map[string]any{"type": "string", "maxLength": maxReason},
			},
		}
		required = append(required, key(i))
	}
	return json.Marshal(map[string]any{
		"type": "json_schema", "json_schema": map[string]any{"name": "verdict", "schema": map[string]any{
			"type": "object", "additionalProperties": false, "required": required, "properties": properties,
		}},
	}, json.Deterministic(true))
}

// Read returns the scores in a judge's answer, in the order of the criteria, and the
// total by their weights. Errors: ErrUnreadable.
func (r *Rubric) Read(f Fence, answer string) (scores []Scored, total float64, err error) {
	var all map[string]jsontext.Value
	if err := f.Read(answer, &all); err != nil {
		return nil, 0, err
	}
	weights := 0.0
	for i := range r.Criteria {
		c := &r.Criteria[i]
		var one struct {
			Score  *float64 `json:"score"`
			Reason string   `json:"reason"`
		}
		if json.Unmarshal(all[key(i)], &one) != nil || !Valid(one.Score) {
			return nil, 0, ErrUnreadable
		}
		scores = append(scores, Scored{Name: c.Name, Score: *one.Score, Reason: text.Truncate(text.OneLine(one.Reason), maxReason)})
		total += c.weight() * *one.Score
		weights += c.weight()
	}
	// To the millionth, so that three thirds are one.
	return scores, math.Round(total/weights*1e6) / 1e6, nil
}

// Feedback tells an agent what its result lacks.
func (r *Rubric) Feedback(scores []Scored, total float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Your result was judged. It has the score %.2f, and %.2f is needed.\n", total, r.Least())
	for i, s := range scores {
		c := &r.Criteria[i]
		fmt.Fprintf(&b, "\n- %s: %.2f", s.Name, s.Score)
		if s.Score >= 1 || c.weight() == 0 {
			continue
		}
		if s.Reason != "" {
			b.WriteString(". The judge says: " + s.Reason)
		}
		if c.Description != "" {
			b.WriteString("\n  What is asked for: " + c.Description)
		}
	}
	b.WriteString("\n\nImprove the result, and then answer with the whole of it again, not only with what changed.")
	return b.String()
}
