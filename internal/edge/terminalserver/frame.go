package terminalserver

import (
	"github.com/go-json-experiment/json"
)

// frame is a text frame of a client that is no text to type.
type frame struct {
	Type string `json:"type"` // resize, input, save
	Cols uint16 `json:"cols"` // of resize
	Rows uint16 `json:"rows"`
	Data string `json:"data"` // of input: what is typed
}

// Bounds of the size of a terminal.
const (
	maxCols = 1000
	maxRows = 500
)

// decode reads a text frame. What is no JSON object with a known type is typed as it is,
// because that is how terminals in browsers send what is typed (xterm.js's addon attach).
func decode(data []byte) frame {
	var f frame
	if json.Unmarshal(data, &f) == nil {
		switch f.Type {
		case "resize", "input", "save":
			return f
		}
	}
	return frame{Type: "input", Data: string(data)}
}

// fits reports whether the frame has a size that terminals can have.
func (f *frame) fits() bool {
	return f.Cols >= 1 && f.Cols <= maxCols && f.Rows >= 1 && f.Rows <= maxRows
}
