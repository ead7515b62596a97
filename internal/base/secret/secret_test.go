package secret

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestSecretsPrintRedacted(t *testing.T) {
	t.Parallel()
	s := New("hunter2")
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", s, "in", struct{ Key String }{s})
	enc, err := json.Marshal(map[string]any{"key": s, "in": struct{ Key String }{s}})
	if err != nil {
		t.Fatal(err)
	}
	printed := []string{log.String(), string(enc)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		printed = append(printed, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, struct{ Key String }{s}))
	}
	for _, p := range printed {
		if strings.Contains(p, "hunter2") || strings.Contains(p, "68756e74657232") {
			t.Errorf("printed as %s", p)
		}
	}
	if s.Reveal() != "hunter2" || s.Empty() || !New("").Empty() {
		t.Error("the secret is not what was wrapped")
	}
}
