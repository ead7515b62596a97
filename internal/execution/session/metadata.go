package session

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
)

// The limits of metadata.
const (
	maxKeys     = 100
	maxMetadata = 64 << 10
	maxNesting  = 8
)

// checkMetadata returns what is invalid about metadata, or "".
func checkMetadata(o schema.Object) string {
	if len(o) == 0 {
		return ""
	}
	if len(o) > maxMetadata {
		return fmt.Sprintf("it has more than %d KiB", maxMetadata>>10)
	}
	dec := jsontext.NewDecoder(bytes.NewReader(o))
	for depth := 0; ; {
		if _, err := dec.ReadToken(); err != nil {
			break // the end: the syntax was checked on arrival
		}
		if depth = max(depth, dec.StackDepth()); depth > maxNesting {
			return fmt.Sprintf("it nests deeper than %d levels", maxNesting)
		}
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(o, &members); err != nil {
		return "it cannot be read"
	}
	if len(members) > maxKeys {
		return fmt.Sprintf("it has more than %d keys", maxKeys)
	}
	return ""
}

// mergeObjects merges patch into o, one level deep; null removes a key.
func mergeObjects(o, patch schema.Object) (schema.Object, error) {
	var merged, changes map[string]jsontext.Value
	if err := json.Unmarshal(o, &merged); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, err
	}
	if merged == nil {
		merged = map[string]jsontext.Value{}
	}
	for name, v := range changes {
		if v.Kind() == 'n' {
			delete(merged, name)
		} else {
			merged[name] = v
		}
	}
	return json.Marshal(merged, json.Deterministic(true))
}
