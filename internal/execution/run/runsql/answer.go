package runsql

import (
	"bytes"
	"database/sql"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
)

// answerOutput is the output of the step that has the text of a run's output.
const answerOutput = `(SELECT answer.output FROM run_steps answer
		WHERE answer.tenant_id = runs.tenant_id AND answer.run_id = runs.run_id AND answer.seq = runs.answer_step)`

// minShared is the length from which a text is worth being read from its step.
const minShared = 64

// splitAnswer returns the output of a run without its text, and the step that has
// the same text. It returns the whole output and 0 if there is no such step.
func splitAnswer(output schema.Nullable, step *run.Step) (schema.Nullable, int64) {
	if step == nil || len(output) == 0 {
		return output, 0
	}
	text, rest := cutText(output)
	if same, _ := cutText(step.Output); len(text) < minShared || !bytes.Equal(text, same) {
		return output, 0
	}
	return schema.Nullable(rest), step.Seq
}

// joinAnswer is the inverse of splitAnswer. The output of the step may be cut off
// behind its text.
func joinAnswer(output, step string) schema.Nullable {
	text, _ := cutText([]byte(step))
	joined := append([]byte(textMember), text...)
	if len(output) > len(`{}`) {
		joined = append(joined, ',')
	}
	return append(joined, output[1:]...)
}

// outputOf returns the output of a run from its columns output and answerOutput.
func outputOf(output, step sql.NullString) schema.Nullable {
	if step.Valid {
		return joinAnswer(output.String, step.String)
	}
	return nullable(output)
}

const textMember = `{"text":`

// cutText returns the value of an object's first member, which is its text, and
// the object without that. It returns nil if the first member is another.
func cutText(object []byte) (text jsontext.Value, rest []byte) {
	after, ok := bytes.CutPrefix(object, []byte(textMember))
	if !ok {
		return nil, nil
	}
	text, err := jsontext.NewDecoder(bytes.NewReader(after), jsontext.AllowInvalidUTF8(true)).ReadValue()
	if err != nil {
		return nil, nil
	}
	rest = bytes.TrimPrefix(after[len(text):], []byte(","))
	return text, append([]byte("{"), rest...)
}
