package schema_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
)

func TestMergePatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ object, patch, want string }{
		{`{"b":1,"a":{"x":1}}`, `{"a":{"y":2},"b":null,"c":[1]}`, `{"a":{"y":2},"c":[1]}`},
		{`{"b":1}`, `{"a":null}`, `{"b":1}`},
		{`{"b":1,"held":1}`, `{"held":2, "b": 2 }`, `{"b":2,"held":1}`},
		{`{"b":1,"held":1}`, `{"held":null}`, `{"b":1,"held":1}`},
		{``, `{"a":1}`, `{"a":1}`},
		{`null`, ``, `{}`},
		{`{"a":1}`, `null`, `{"a":1}`},
		{`{"\u0061":1}`, `{"a":2}`, `{"a":2}`},
	} {
		got, err := schema.MergePatch(jsontext.Value(tt.object), jsontext.Value(tt.patch), "held")
		if err != nil || string(got) != tt.want {
			t.Errorf("%s with %s: %s, %v, want %s", tt.object, tt.patch, got, err, tt.want)
		}
	}
	if _, err := schema.MergePatch(nil, jsontext.Value(`[1]`)); !fault.Is(err, fault.Invalid) {
		t.Errorf("a list as a patch: %v", err)
	}
	if _, err := schema.MergePatch(nil, jsontext.Value(`{"a":1,"a":2}`)); !fault.Is(err, fault.Malformed) {
		t.Errorf("a name twice: %v", err)
	}
}
