package evaluation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/pattern"
	"agentd/internal/base/text"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/jsonform"
	"agentd/internal/kernel/model"
)

// subject is a case whose run completed.
type subject struct {
	who    authz.Caller // who started the evaluation
	agent  string
	eval   string
	caseID string
	runID  string
	of     *Case
	answer string
	calls  []call // the tool calls of the run, in order
}

// call is a tool call that a run made.
type call struct {
	name      string
	arguments string
}

// verdict is what a scorer finds.
type verdict struct {
	score   float64
	reason  string // why, where that is not plain
	skipped bool   // the case has nothing that the scorer compares with
}

var skip = verdict{skipped: true}

func whether(ok bool, reason string) verdict {
	if ok {
		return verdict{score: 1}
	}
	return verdict{reason: reason}
}

// scoring is what scorers need of others.
type scoring struct{ *Options }

// score scores a case. The error is a sentence for people: the scorer gave no score.
func (s scoring) score(ctx context.Context, c *Config, on *subject) (verdict, error) {
	switch c.Type {
	case exact:
		return scoreExact(c, on), nil
	case contains:
		return scoreContains(c, on), nil
	case regex:
		return scoreRegex(c, on)
	case jsonSchema:
		return scoreSchema(c, on)
	case numeric:
		return scoreNumeric(c, on), nil
	case toolCalls:
		return scoreCalls(c, on), nil
	case embedding:
		return s.scoreEmbedding(ctx, on)
	case byModel:
		return s.scoreByModel(ctx, c, on)
	case hook:
		return s.scoreByHook(ctx, c, on)
	}
	return verdict{}, fmt.Errorf("this version knows no scorer of the type %s", c.Type)
}

// expectedText returns what a case expects as a text: a text itself, and the member text
// of an object that has one. Of other JSON ok is false.
func expectedText(c *Case) (expected string, ok bool) {
	switch c.ExpectedOutput.Kind() {
	case '"':
		ok = json.Unmarshal(c.ExpectedOutput, &expected) == nil
	case '{':
		var object struct {
			Text *string `json:"text"`
		}
		if json.Unmarshal(c.ExpectedOutput, &object) == nil && object.Text != nil {
			return *object.Text, true
		}
	case '0', 't', 'f':
		return string(c.ExpectedOutput), true
	default:
	}
	return expected, ok
}

// fold returns a text as it is compared: without space at its ends, and in small letters
// where case is ignored.
func fold(c *Config, s string) string {
	s = strings.TrimSpace(s)
	if c.IgnoreCase {
		s = strings.ToLower(s)
	}
	return s
}

func scoreExact(c *Config, on *subject) verdict {
	if len(on.of.ExpectedOutput) == 0 {
		return skip
	}
	if expected, ok := expectedText(on.of); ok {
		return whether(fold(c, expected) == fold(c, on.answer), "The answer differs from the expected one.")
	}
	var expected, answer any
	if json.Unmarshal(on.of.ExpectedOutput, &expected) != nil || json.Unmarshal([]byte(unfenced(on.answer)), &answer) != nil {
		return whether(false, "The answer is not JSON, and JSON is expected.")
	}
	return whether(reflect.DeepEqual(expected, answer), "The answer differs from the expected JSON.")
}

// unfenced returns a text without the Markdown fence that models like to put around JSON.
func unfenced(s string) string {
	s = strings.TrimSpace(s)
	if inner, ok := strings.CutPrefix(s, "```"); ok {
		if inner, ok = strings.CutSuffix(inner, "```"); ok {
			return strings.TrimSpace(strings.TrimPrefix(inner, "json"))
		}
	}
	return s
}

// scoreContains looks for a text, or scores the share of several that the answer has.
func scoreContains(c *Config, on *subject) verdict {
	var all []string
	if expected, ok := expectedText(on.of); ok {
		all = []string{expected}
	} else if on.of.ExpectedOutput.Kind() != '[' || json.Unmarshal(on.of.ExpectedOutput, &all) != nil || len(all) == 0 {
		return skip
	}
	answer, missing := fold(c, on.answer), []string(nil)
	for _, part := range all {
		if !strings.Contains(answer, fold(c, part)) {
			missing = append(missing, part)
		}
	}
	v := verdict{score: 1 - float64(len(missing))/float64(len(all))}
	if missing != nil {
		v.reason = text.Truncate(fmt.Sprintf("The answer does not have %q.", missing), maxReason)
	}
	return v
}

func scoreRegex(c *Config, on *subject) (verdict, error) {
	p, err := pattern.Compile(c.Pattern)
	if err != nil {
		return verdict{}, err
	}
	if err := pattern.NewBudget(pattern.MaxSteps).Spend(p, len(on.answer)); err != nil {
		return verdict{}, errors.New("the answer is too long for the expression")
	}
	return whether(p.MatchString(on.answer), "The answer has no match of the expression."), nil
}

func scoreSchema(c *Config, on *subject) (verdict, error) {
	form, err := jsonform.Compile(jsontext.Value(c.Schema), "the schema")
	if err != nil {
		return verdict{}, err
	}
	switch problem, detail := form.Check(unfenced(on.answer), "the answer"); problem {
	case jsonform.None:
		return verdict{score: 1}, nil
	case jsonform.TooCostly:
		return verdict{}, errors.New("the answer cannot be checked against the schema at a bounded cost")
	case jsonform.NotJSON, jsonform.TooDeep:
		return whether(false, "The answer is not JSON, or nests too deep."), nil
	default:
		return whether(false, text.Truncate(detail, maxReason)), nil
	}
}

var number = regexp.MustCompile(`[-+]?(?:\d[\d,]*)?\.?\d+(?:[eE][-+]?\d+)?`)

// lastNumber returns the last number in a text.
func lastNumber(s string) (float64, bool) {
	all := number.FindAllString(s, -1)
	if len(all) == 0 {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(all[len(all)-1], ",", ""), 64)
	return n, err == nil
}

func scoreNumeric(c *Config, on *subject) verdict {
	expected, ok := expectedText(on.of)
	want, isNumber := lastNumber(expected)
	if !ok || !isNumber {
		return skip
	}
	got, ok := lastNumber(on.answer)
	if !ok {
		return whether(false, "The answer has no number.")
	}
	// 0.1 + 0.2 is 0.3 within what numbers can hold.
	slack := 1e-12 * max(math.Abs(want), math.Abs(got))
	return whether(math.Abs(got-want) <= c.Tolerance+slack, fmt.Sprintf("The answer has %v in place of %v.", got, want))
}

// scoreCalls scores the share of the expected calls that were made in their order.
func scoreCalls(c *Config, on *subject) verdict {
	want := on.of.ExpectedToolCalls
	if want == nil {
		return skip
	}
	matched := inOrder(want, on.calls)
	if extra := len(on.calls) - matched; extra > 0 && !c.AllowExtraCalls {
		v := verdict{reason: fmt.Sprintf("Of %d calls %d were not expected.", len(on.calls), extra)}
		v.score = float64(matched) / float64(max(len(want), len(on.calls)))
		return v
	}
	if len(want) == 0 {
		return verdict{score: 1}
	}
	v := verdict{score: float64(matched) / float64(len(want))}
	if matched < len(want) {
		v.reason = fmt.Sprintf("Of %d expected calls %d were made in their order.", len(want), matched)
	}
	return v
}

// inOrder returns the length of the longest common subsequence of expected and made calls.
func inOrder(want []ExpectedCall, made []call) int {
	row := make([]int, len(made)+1)
	for i := range want {
		diagonal := 0
		for j := range made {
			above := row[j+1]
			if want[i].matches(&made[j]) {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			diagonal = above
		}
	}
	return row[len(made)]
}

// matches reports whether a call is the expected one: it has the name, and each of the
// arguments with an equal value.
func (e *ExpectedCall) matches(made *call) bool {
	if e.Name != made.name {
		return false
	}
	if len(e.Arguments) == 0 {
		return true
	}
	var want, got map[string]any
	if json.Unmarshal(e.Arguments, &want) != nil || len(want) > 0 && json.Unmarshal([]byte(made.arguments), &got) != nil {
		return false
	}
	for name, value := range want {
		if other, ok := got[name]; !ok || !reflect.DeepEqual(value, other) {
			return false
		}
	}
	return true
}

// maxEmbedded is how many characters of a text are embedded.
const maxEmbedded = 8000

// scoreEmbedding scores how close in meaning the answer is to the expected one: the cosine
// of their vectors, where 0 and below is 0.
func (s scoring) scoreEmbedding(ctx context.Context, on *subject) (verdict, error) {
	expected, ok := expectedText(on.of)
	if !ok && len(on.of.ExpectedOutput) > 0 {
		expected = string(on.of.ExpectedOutput)
	}
	if strings.TrimSpace(expected) == "" {
		return skip, nil
	}
	if strings.TrimSpace(on.answer) == "" {
		return whether(false, "The answer is empty."), nil
	}
	if s.Embed == nil {
		return verdict{}, errors.New("no embedding model is configured")
	}
	vectors, err := s.Embed(ctx, on.who, []string{text.Prefix(expected, maxEmbedded), text.Prefix(on.answer, maxEmbedded)})
	if err != nil || len(vectors) != 2 {
		return verdict{}, because("the embedding model did not answer", err)
	}
	score := cosine(vectors[0], vectors[1])
	if math.IsNaN(score) {
		return verdict{}, errors.New("the embedding model gave no usable vectors")
	}
	return verdict{score: min(1, max(0, score))}, nil
}

func cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	var dot, sizeA, sizeB float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		sizeA += float64(a[i]) * float64(a[i])
		sizeB += float64(b[i]) * float64(b[i])
	}
	return dot / math.Sqrt(sizeA*sizeB)
}

// because returns a sentence with its cause, where that is one for people.
func because(sentence string, err error) error {
	if e, ok := errors.AsType[*model.Error](err); ok {
		return fmt.Errorf("%s (%s)", sentence, e.Code)
	}
	return errors.New(sentence)
}

// callsOf returns the tool calls of a run, in order.
func (s *Service) callsOf(ctx context.Context, tenant, runID string) (calls []call, err error) {
	steps, err := s.Runs.ListSteps(ctx, tenant, runID)
	if err != nil {
		return nil, err
	}
	for i := range steps {
		var in run.ToolInput
		if steps[i].Type == run.StepTool && json.Unmarshal(steps[i].Input, &in) == nil {
			calls = append(calls, call{in.Name, in.Arguments})
		}
	}
	return calls, nil
}
