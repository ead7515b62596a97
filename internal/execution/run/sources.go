package run

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// hasFiles reports whether the input of a new run has a content part that is not a
// text.
func (r *Record) hasFiles() bool {
	if r.Parsed == nil && !bytes.Contains(r.Input, []byte(`"parts"`)) {
		return false
	}
	foreign := func(part jsontext.Value) bool { return !model.IsText(part) }
	in := r.ParsedInput()
	return slices.ContainsFunc(in.Parts, foreign) || slices.ContainsFunc(in.History, func(m model.Message) bool {
		return slices.ContainsFunc(m.Parts, foreign)
	})
}
