package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/text"
)

type kbEvalCommand struct {
	remote
	kbArgument
	File      string   `arg:"" help:"Questions, one JSON object a line: question, and source (the name of a document, or its end) or text (a part of the passage) of what answers it; neither where nothing does. - is the standard input."`
	Limit     int      `default:"5" help:"How many results are looked at, 1 to 100."`
	MinScore  *float64 `name:"min-score" placeholder:"SCORE" help:"Search with this least score instead of the default."`
	MinRecall float64  `name:"min-recall" placeholder:"SHARE" help:"Fail where a smaller share of the questions finds its answer, such as 0.85."`
	MaxNoise  float64  `name:"max-noise" default:"1" placeholder:"SHARE" help:"Fail where a larger share of the questions without an answer finds something."`
}

// maxQuestions bounds a file of questions.
const maxQuestions = 10_000

// question is a line of such a file.
type question struct {
	Question string `json:"question"`
	Source   string `json:"source,omitzero"`
	Text     string `json:"text,omitzero"`
}

// answered is what became of a question.
type answered struct {
	question

	Rank  int     `json:"rank"`           // of the result that answers it; 0: none
	Found string  `json:"found,omitzero"` // document of the first result
	Score float64 `json:"score,omitzero"` // of the first result
	Right bool    `json:"right"`          // found, or, where nothing answers it, nothing found
}

// evaluated is the result of all questions.
type evaluated struct {
	Questions  int        `json:"questions"`
	Recall     float64    `json:"recall"` // share of the questions that find their answer
	MRR        float64    `json:"mrr"`    // mean of 1/rank
	Unanswered int        `json:"unanswered"`
	Noise      float64    `json:"noise"` // share of the questions without an answer that find something
	Wrong      []answered `json:"wrong"`
}

// Run implements the command. It fails where the base finds less than is asked for.
func (cmd *kbEvalCommand) Run(s *server) error {
	if cmd.Limit < 1 || cmd.Limit > 100 {
		return usageError("--limit must be from 1 to 100")
	}
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	raw, err := s.readFile(cmd.File)
	if err != nil {
		return err
	}
	questions, err := readQuestions(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.File, err)
	}
	progress := s.newProgress(len(questions))
	defer progress.end()
	result := evaluated{Wrong: []answered{}}
	for _, q := range questions {
		progress.step(q.Question)
		a, err := cmd.ask(s, path, q)
		if err != nil {
			return err
		}
		result.add(a)
	}
	progress.end()
	result.mean()
	if cmd.JSON {
		err = s.printAny(result)
	} else {
		err = result.show(s, cmd.Limit)
	}
	switch {
	case err != nil:
		return err
	case result.Questions > 0 && result.Recall < cmd.MinRecall:
		return fmt.Errorf("%.3f of the questions find their answer, and --min-recall asks for %.3f", result.Recall, cmd.MinRecall)
	case result.Noise > cmd.MaxNoise:
		return fmt.Errorf("%.3f of the questions without an answer find something, and --max-noise allows %.3f", result.Noise, cmd.MaxNoise)
	}
	return nil
}

// readQuestions reads lines of JSON; the error names the line.
func readQuestions(raw []byte) (all []question, err error) {
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("line %d is not an object with question, source and text: %w", n, err)
		}
		if strings.TrimSpace(q.Question) == "" {
			return nil, fmt.Errorf("line %d has no question", n)
		}
		if all = append(all, q); len(all) > maxQuestions {
			return nil, fmt.Errorf("there are more than %d questions", maxQuestions)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the file has no questions; write one JSON object a line, with a question")
	}
	return all, lines.Err()
}

// ask asks a question and looks for its answer.
func (cmd *kbEvalCommand) ask(s *server, path string, q question) (answered, error) {
	var found struct {
		Results []struct {
			Source string  `json:"source"`
			Text   string  `json:"text"`
			Score  float64 `json:"score"`
		} `json:"results"`
	}
	body := map[string]any{"query": q.Question, "limit": cmd.Limit}
	if cmd.MinScore != nil {
		body["min_score"] = *cmd.MinScore
	}
	a := answered{question: q}
	if err := s.Do(s, http.MethodPost, path+"/search", body, &found); err != nil {
		return a, err
	}
	for i, r := range found.Results {
		if i == 0 {
			a.Found, a.Score = r.Source, r.Score
		}
		if a.Rank == 0 && q.answered() && strings.HasSuffix(r.Source, q.Source) && strings.Contains(r.Text, q.Text) {
			a.Rank = i + 1
		}
	}
	a.Right = a.Rank > 0 || !q.answered() && len(found.Results) == 0
	return a, nil
}

// answered reports whether something should answer the question.
func (q *question) answered() bool { return q.Source != "" || q.Text != "" }

func (e *evaluated) add(a answered) {
	switch {
	case !a.answered():
		e.Unanswered++
		if !a.Right {
			e.Noise++
		}
	default:
		e.Questions++
		if a.Right {
			e.Recall++
			e.MRR += 1 / float64(a.Rank)
		}
	}
	if !a.Right {
		e.Wrong = append(e.Wrong, a)
	}
}

// mean makes shares of sums.
func (e *evaluated) mean() {
	if n := float64(e.Questions); n > 0 {
		e.Recall, e.MRR = e.Recall/n, e.MRR/n
	}
	if n := float64(e.Unanswered); n > 0 {
		e.Noise /= n
	}
}

// show prints the questions that went wrong, and the figures.
func (e *evaluated) show(s *server, limit int) error {
	if len(e.Wrong) > 0 {
		rows := make([][]string, len(e.Wrong))
		for i, a := range e.Wrong {
			want := a.Source
			if want == "" {
				want = text.Truncate(oneLine(a.Text), 40)
			}
			if !a.answered() {
				want = "(nothing)"
			}
			first := "(nothing)"
			if a.Found != "" {
				first = fmt.Sprintf("%s %.2f", a.Found, a.Score)
			}
			rows[i] = []string{text.Truncate(oneLine(a.Question), 80), want, first}
		}
		if err := s.table([]string{"~QUESTION", "~EXPECTED", "~FOUND FIRST"}, rows); err != nil {
			return err
		}
		s.say("")
	}
	if e.Questions > 0 {
		s.say("%s with an answer: recall@%d %.3f, mean reciprocal rank %.3f", plural(e.Questions, "question"), limit, e.Recall, e.MRR)
	}
	if e.Unanswered > 0 {
		s.say("%s without an answer: %.3f find something", plural(e.Unanswered, "question"), e.Noise)
	}
	return nil
}
