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
