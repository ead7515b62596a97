// Package agentfile reads and writes agents as files: YAML or JSON, several
// documents in one file. What [Render] writes, [Parse] reads back unchanged.
package agentfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"agentd/internal/agents/agent"
	"agentd/internal/base/schema"
)

// MaxAgents bounds the documents of a file.
const MaxAgents = 1000

// File is one document: the fields of an agent that it names.
type File struct {
	ID     string // agent_id, where the name alone is not unique
	Name   string
	Fields map[string]jsontext.Value
}

// config is the schema of agents. It is made at its first use, because most commands read
// no file.
var config = sync.OnceValue(schema.Of[agent.Config])

// Parse reads the documents of a file. Errors say which document and field is
// wrong, and what was probably meant.
func Parse(text []byte) ([]File, error) {
	documents, err := split(text)
	if err != nil {
		return nil, err
	}
	if len(documents) == 0 {
		return nil, errors.New("it holds no agent; write its fields as YAML or JSON, at least name")
	}
	files := make([]File, 0, len(documents))
	names := map[string]int{}
	for i, doc := range documents {
		f, err := read(doc)
		if err == nil && f.Name == "" && f.ID == "" {
			err = errors.New("it needs name, the agent's name")
		}
		if err == nil && names[f.Name] > 0 && f.ID == "" {
			err = fmt.Errorf("name %q is that of document %d too; each agent may be there once", f.Name, names[f.Name])
		}
		if err != nil && len(documents) > 1 {
			err = fmt.Errorf("document %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		names[f.Name] = i + 1
		files = append(files, f)
	}
	return files, nil
}

// ParseOne reads a file of one agent, which may do without a name.
func ParseOne(text []byte) (File, error) {
	documents, err := split(text)
	if err != nil {
		return File{}, err
	}
	if len(documents) != 1 {
		return File{}, fmt.Errorf("it must hold one agent and holds %d", len(documents))
	}
	return read(documents[0])
}

// Object reads a file of one object that is no agent.
func Object(text []byte) (jsontext.Value, error) {
	documents, err := split(text)
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 || documents[0].Kind() != '{' {
		return nil, errors.New("it must hold one object, in YAML or JSON")
	}
	return documents[0], nil
}

// read reads one document and refuses fields that agents do not have.
func read(doc jsontext.Value) (File, error) {
	f := File{Fields: map[string]jsontext.Value{}}
	if doc.Kind() != '{' {
		return f, errors.New("it must be an object with the fields of an agent, as name: helper")
	}
	if err := json.Unmarshal(doc, &f.Fields); err != nil {
		return f, err
	}
	if err := f.expandModels(); err != nil {
		return f, err
	}
	for field, into := range map[string]*string{"agent_id": &f.ID, "name": &f.Name} {
		if raw, ok := f.Fields[field]; ok && json.Unmarshal(raw, into) != nil {
			return f, fmt.Errorf("%s must be a string, not %s", field, raw)
		}
	}
	delete(f.Fields, "agent_id")
	if strings.TrimSpace(f.Name) == "" && f.Fields["name"] != nil {
		return f, errors.New("name is blank; write the agent's name")
	}
	known, err := json.Marshal(f.Fields, json.Deterministic(true))
	if err != nil {
		return f, err
	}
	unknown, err := config().Unknown(known)
	if err != nil {
		return f, err
	}
	var refusals []string
	for _, u := range unknown {
		refusal := fmt.Sprintf("unknown field %q", u.Path)
		if meant := cmp.Or(u.Meant, strings.Join(containing(u.Path), " or ")); meant != "" {
			refusal += "; did you mean " + meant + "?"
		}
		refusals = append(refusals, refusal)
	}
	if refusals != nil {
		return f, errors.New(strings.Join(refusals, "\n  "))
	}
	return f, nil
}

// expandModels replaces models that are written as their names alone.
func (f *File) expandModels() error {
	for _, field := range []string{"model", "fallback_model"} {
		raw := f.Fields[field]
		if raw.Kind() != '"' {
			continue
		}
		var ref string
		if err := json.Unmarshal(raw, &ref); err != nil {
			return err
		}
		if strings.TrimSpace(ref) == "" {
			return fmt.Errorf("%s is blank; write the name of a model, such as builtin/echo", field)
		}
		var err error
		if f.Fields[field], err = json.Marshal(ModelOf(ref), json.Deterministic(true)); err != nil {
			return err
		}
	}
	return nil
}

// ModelOf returns the field of an agent whose model is given by its name alone.
func ModelOf(ref string) map[string]any {
	provider := "openai_compat"
	if strings.HasPrefix(ref, "builtin/") {
		provider = "custom"
	}
	return map[string]any{"provider": provider, "model_ref": ref, "capabilities": map[string]any{}}
}

// containing returns the fields whose names contain a word.
func containing(word string) (names []string) {
	for _, name := range Fields {
		if strings.Contains(name, strings.ToLower(word)) {
			names = append(names, name)
		}
	}
	return names
}

// split cuts a text into its documents, each as JSON.
func split(text []byte) ([]jsontext.Value, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var documents []jsontext.Value
	var err error
	if start := bytes.TrimSpace(text); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		documents, err = splitJSON(start)
	} else {
		documents, err = splitYAML(text)
	}
	if err == nil && len(documents) > MaxAgents {
		err = fmt.Errorf("it holds %d agents, and a file may hold %d", len(documents), MaxAgents)
	}
	return documents, err
}

// splitJSON reads objects behind each other, or an array of them.
func splitJSON(text []byte) (documents []jsontext.Value, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		value, err := dec.ReadValue()
		switch {
		case err == io.EOF:
			return documents, nil
		case err != nil:
			return nil, notJSON(text, err)
		case value.Kind() == '[':
			var array []jsontext.Value
			if err := json.Unmarshal(value, &array); err != nil {
				return nil, err
			}
			documents = append(documents, array...)
		default:
			documents = append(documents, value.Clone())
		}
	}
}

// notJSON says where a text is no JSON.
func notJSON(text []byte, err error) error {
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || syntactic.Err == nil {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	line := 1 + bytes.Count(text[:min(syntactic.ByteOffset, int64(len(text)))], []byte("\n"))
	return fmt.Errorf("it is not JSON: line %d: %w", line, syntactic.Err)
}

// splitYAML reads documents between lines of ---; empty ones are left out.
func splitYAML(text []byte) (documents []jsontext.Value, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		err := dec.Decode(&node)
		if err == io.EOF {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("it is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(documents) > MaxAgents {
			return documents, nil
		}
		if len(node.Content) == 0 || node.Content[0].ShortTag() == "!!null" {
			continue
		}
		doc, err := toJSON(node.Content[0])
		if err != nil {
			return nil, err
		}
		documents = append(documents, doc)
	}
}

// Fields are the fields that a file may have, in the order in which they are written.
var Fields = func() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[agent.Config]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" && !f.Anonymous && f.Tag.Get("readOnly") == "" {
			names = append(names, name)
		}
	}
	return names
}()

// defaults are the values that an agent has by itself; Render leaves them out.
var defaults = map[string]string{
	"execution_mode": `"async"`, "worker_reuse": "false", "context_strategy": `"compaction"`, "context_window_size": "20",
	"visibility": `"private"`, "auto_approve_tools": "false",
}

// Export returns what a file says of an agent as the API shows it: its
// configuration without what is empty or as it is by itself.
func Export(shown jsontext.Value) (map[string]jsontext.Value, error) {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(shown, &all); err != nil {
		return nil, fmt.Errorf("the server's answer is no agent: %w", err)
	}
	fields := map[string]jsontext.Value{}
	for _, name := range Fields {
		value, ok := all[name]
		if !ok || slices.Contains([]string{"null", `""`, "[]", "{}", defaults[name]}, string(value)) {
			continue
		}
		fields[name] = value
	}
	return fields, nil
}
