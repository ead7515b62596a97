package model_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
)

// The narrower settings take precedence member by member, and null clears (rule
// D23-settings).
func TestMergeSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		wide, narrow string
		want         string
	}{
		{``, ``, `{}`},
		{`{"temperature":1}`, ``, `{"temperature":1}`},
		{`null`, `{"temperature":1}`, `{"temperature":1}`},
		{`{"temperature":1,"top_p":0.5}`, `{"temperature":0}`, `{"temperature":0,"top_p":0.5}`},
		{`{"temperature":1,"stop":["a"],"seed":3}`, `{"temperature":null,"stop":[]}`, `{"seed":3,"stop":[]}`},
		{`{"response_format":{"type":"json_object"}}`, `{"response_format":null,"own":7}`, `{}`},
	} {
		b, err := json.Marshal(model.MergeSettings([]byte(tt.wide), []byte(tt.narrow)))
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s with %s (-want +got):\n%s", tt.wide, tt.narrow, diff)
		}
	}
}
