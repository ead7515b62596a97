package agentfile

import (
	"bytes"
	"maps"

	"github.com/aymanbagabas/go-udiff"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Changes returns the fields of a file in which the agent differs from it.
// shown is the agent as the API shows it. A field that the file does not name
// is no difference, and neither is a member that the server added to an object.
func (f File) Changes(shown jsontext.Value) (map[string]jsontext.Value, error) {
	var current map[string]jsontext.Value
	if err := json.Unmarshal(shown, &current); err != nil {
		return nil, err
	}
	changed := map[string]jsontext.Value{}
	for name, wanted := range f.Fields {
		has, err := holds(current[name], wanted)
		if err != nil {
			return nil, err
		}
		if !has {
			changed[name] = wanted
		}
	}
	return changed, nil
}

// holds reports whether a value has all that is wanted of it.
func holds(value, wanted jsontext.Value) (bool, error) {
	if len(value) == 0 {
		value = jsontext.Value("null")
	}
	var a, b any
	if err := json.Unmarshal(value, &a); err != nil {
		return false, err
	}
	if err := json.Unmarshal(wanted, &b); err != nil {
		return false, err
	}
	return contains(a, b), nil
}

func contains(value, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		has, ok := value.(map[string]any)
		if !ok {
			return len(wanted) == 0 && value == nil
		}
		for name, w := range wanted {
			if !contains(has[name], w) {
				return false
			}
		}
		return true
	case []any:
		has, ok := value.([]any)
		if !ok {
			return len(wanted) == 0 && value == nil
		}
		if len(has) != len(wanted) {
			return false
		}
		for i := range wanted {
			if !contains(has[i], wanted[i]) {
				return false
			}
		}
		return true
	}
	return value == wanted
}

// Diff returns what changes, line by line; "" if nothing does. A nil map is an
// agent that does not exist.
func Diff(before, after map[string]jsontext.Value, from, to string) (string, error) {
	texts := [2][]byte{}
	for i, fields := range []map[string]jsontext.Value{before, after} {
		if fields == nil {
			continue
		}
		var err error
		if texts[i], err = Render(fields); err != nil {
			return "", err
		}
	}
	if bytes.Equal(texts[0], texts[1]) {
		return "", nil
	}
	return udiff.Unified(from, to, string(texts[0]), string(texts[1])), nil
}

// Merged returns fields with changes written over them.
func Merged(fields, changes map[string]jsontext.Value) map[string]jsontext.Value {
	merged := maps.Clone(fields)
	maps.Copy(merged, changes)
	return merged
}

// Empty returns the value that a field has after it was taken out: none of the
// kind that it had.
func Empty(value jsontext.Value) jsontext.Value {
	switch value.Kind() {
	case '"':
		return jsontext.Value(`""`)
	case '[':
		return jsontext.Value("[]")
	}
	return jsontext.Value("null")
}
