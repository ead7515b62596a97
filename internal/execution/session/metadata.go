package session

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
)

// What metadata may be (behaviours 36).
const (
	maxKeys     = 100
	maxMetadata = 64 << 10
	maxNesting  = 8
)

// checkMetadata says what is wrong with metadata, or nothing.
func checkMetadata(o schema.Object) string {
	if len(o) == 0 {
		return ""
	}
	if len(o) > maxMetadata {
		return fmt.Sprintf("it has more than %d KiB", maxMetadata>>10)
	}
	dec := jsontext.NewDecoder(bytes.NewReader(o))
	for deep := 0; ; {
		if _, err := dec.ReadToken(); err != nil {
			break // its syntax was checked when it came
		}
		if deep = max(deep, dec.StackDepth()); deep > maxNesting {
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
