package httpapi

import (
	_ "embed"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/route"
)

// examplesFile has an example of each JSON body whose row has none, by the operation's
// id.
//
//go:embed examples.json
var examplesFile []byte

var readExamples = sync.OnceValues(func() (map[string]jsontext.Value, error) {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(examplesFile, &all); err != nil {
		return nil, fmt.Errorf("examples.json: %w", err)
	}
	return all, nil
})

// Example returns an example of an operation's JSON body; nil if there is none.
func Example(row route.Row) jsontext.Value {
	if row.Example != "" {
		return jsontext.Value(row.Example)
	}
	all, err := readExamples()
	if err != nil {
		return nil // the tests read the file
	}
	return all[row.ID]
}

// Examples returns the ids of the operations that the file has examples of.
func Examples() (ids []string, err error) {
	all, err := readExamples()
	for id := range all {
		ids = append(ids, id)
	}
	return ids, err
}
