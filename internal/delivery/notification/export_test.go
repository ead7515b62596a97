package notification

import (
	"testing"

	"github.com/go-json-experiment/json"
)

// Decode sets the body of an operation's input.
func Decode(t testing.TB, in any, body string) {
	t.Helper()
	var err error
	switch in := in.(type) {
	case *prefsIn:
		err = json.Unmarshal([]byte(body), &in.Body)
	case *newTargetIn:
		err = json.Unmarshal([]byte(body), &in.Body)
	default:
		t.Fatalf("%T has no body", in)
	}
	if err != nil {
		t.Fatal(err)
	}
}
