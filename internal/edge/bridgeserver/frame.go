package bridgeserver

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// frame is a message of a machine.
type frame struct {
	Type      string         `json:"type"`
	ID        string         `json:"id"`    // of a report; its receipt has it too
	Token     string         `json:"token"` // of auth
	MachineID string         `json:"machine_id"`
	TaskID    string         `json:"task_id"`
	Events    jsontext.Value `json:"events"`
}

// decode reads a frame, and reports whether it is one.
func decode(data []byte) (f frame, ok bool) {
	if json.Unmarshal(data, &f) != nil || f.Type == "" {
		return frame{}, false
	}
	return f, true
}
