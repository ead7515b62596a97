package bridgeclient

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
)

// task is a task as the server sends it.
type task struct {
	TaskID string `json:"task_id"`
	Input  struct {
		Message string `json:"message"`
		History []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"conversation_history"`
	} `json:"input"`
}

// journal is what is known of a task. It is stored before anything that follows from it
// is done or reported.
type journal struct {
	Task     task              `json:"task"`
	Messages []jsontext.Value  `json:"messages"`          // of the conversation with the model
	Calls    []call            `json:"calls,omitzero"`    // of the last answer, that have no result yet
	Begun    string            `json:"begun,omitzero"`    // the id of the call that was begun
	Asked    map[string]string `json:"asked,omitzero"`    // approvals that were asked for, by the ids of their calls
	Reported int               `json:"reported,omitzero"` // events that there were so far
	Outbox   []event           `json:"outbox,omitzero"`   // those that the server has not confirmed
	Counts   counts            `json:"counts"`
	Ended    bool              `json:"ended,omitzero"` // nothing is left but the outbox

	path string
}

// call is a tool call of the model.
type call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// counts are what a task has used so far.
type counts struct {
	ToolCalls     int64 `json:"tool_calls_count"`
	FilesModified int64 `json:"files_modified"`
	Commands      int64 `json:"commands_executed"`
	ModelCalls    int64 `json:"llm_calls"`
	InputTokens   int64 `json:"input_tokens"`
	OutputTokens  int64 `json:"output_tokens"`
}

const journalSuffix = ".task.json"

// openJournal returns the journal of a task that the server sends: the one that is stored,
// or a new one.
func openJournal(state string, t task) *journal {
	path := filepath.Join(state, filepath.Base(t.TaskID)+journalSuffix)
	if j, err := readJournal(path); err == nil {
		return j
	}
	return &journal{Task: t, path: path}
}

func readJournal(path string) (*journal, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	j := &journal{path: path}
	if err := json.Unmarshal(text, j); err != nil || j.Task.TaskID == "" {
		return nil, fmt.Errorf("%s is no task that this program stored; remove the file to go on without it", path)
	}
	return j, nil
}

// readJournals returns the tasks that were not ended.
func readJournals(state string) (all []*journal, err error) {
	names, err := filepath.Glob(filepath.Join(state, "*"+journalSuffix))
	if err != nil {
		return nil, err
	}
	for _, path := range names {
		j, err := readJournal(path)
		if err != nil {
			return nil, err
		}
		all = append(all, j)
	}
	return all, nil
}

// save stores the journal. What was stored before is there until all of it is.
func (j *journal) save() error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return writeFile(j.path, text)
}

func (j *journal) remove() error {
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeFile replaces a file at once, also if the machine fails.
func writeFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = cmp.Or(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// machineID returns the id of the machine, which is made once.
func machineID(state string) (string, error) {
	path := filepath.Join(state, "machine-id")
	text, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(text)); err == nil && id != "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	id := "agentd-" + ident.New()
	return id, writeFile(path, []byte(id+"\n"))
}
