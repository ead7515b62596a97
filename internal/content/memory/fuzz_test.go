package memory

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// Whatever a model answers, it is a list of facts or an error.
func FuzzFacts(f *testing.F) {
	f.Add(`{"facts":[{"content":"x","tags":["a"]}]}`)
	f.Add("```json\n{\"facts\":[]}\n```")
	f.Fuzz(func(t *testing.T, answer string) {
		facts, err := parseFacts(answer)
		if err != nil && facts != nil {
			t.Errorf("%v and %v", facts, err)
		}
	})
}

// Whatever an update says, what it leaves is an entry that could be made.
func FuzzChange(f *testing.F) {
	f.Add([]byte(`{"content":"x","tags":["a"],"relevance_score":1,"type":"note","metadata":{"a":1}}`))
	f.Add([]byte(`{"content":7,"tags":[1],"relevance_score":"x","metadata":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if !jsontext.Value(body).IsValid() {
			return
		}
		c, err := readChange(body)
		if err != nil {
			return
		}
		e := Entry{Content: "old", Type: Note}
		if _, err := c.apply(&e); err == nil {
			if wrong := (&Draft{Content: e.Content, Type: e.Type, Tags: e.Tags, Metadata: e.Metadata}).check(""); wrong != nil {
				t.Errorf("%s left %v", body, wrong)
			}
		}
	})
}
