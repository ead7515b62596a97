package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestEveryKindHasACode(t *testing.T) {
	t.Parallel()
	for k := Internal; k <= Unavailable; k++ {
		if e := New(k, "", "x"); e.Code == "" {
			t.Errorf("kind %d has no usual code", k)
		}
	}
	if e := New(Conflict, "SPECIAL", "%d things", 2); e.Code != "SPECIAL" || e.Detail != "2 things" {
		t.Errorf("got %+v", e)
	}
}

func TestFromHidesForeignErrors(t *testing.T) {
	t.Parallel()
	own := NewNotFound("run")
	tests := map[string]struct {
		err  error
		kind Kind
	}{
		"own":      {own, NotFound},
		"wrapped":  {fmt.Errorf("reading: %w", own), NotFound},
		"foreign":  {errors.New("SELECT secret"), Internal},
		"deadline": {context.DeadlineExceeded, Unavailable},
		"gone":     {fmt.Errorf("query: %w", context.Canceled), Unavailable},
	}
	for name, tt := range tests {
		f := From(tt.err)
		if f.Kind != tt.kind || f.Detail == "" || strings.Contains(f.Detail, "SELECT") || !errors.Is(f, tt.err) && !errors.Is(tt.err, f) {
			t.Errorf("%s: %+v", name, f)
		}
		if !Is(tt.err, tt.kind) && f != nil && (name == "own" || name == "wrapped") {
			t.Errorf("%s is not of its kind", name)
		}
	}
	if From(nil) != nil || Is(nil, Internal) {
		t.Error("no error is a fault")
	}
}

func TestBadFieldsNamesThem(t *testing.T) {
	t.Parallel()
	one := BadFields(Field{Field: "name", Message: "is required"})
	if !strings.Contains(one.Detail, "name") || !strings.Contains(one.Detail, "is required") {
		t.Errorf("one: %s", one.Detail)
	}
	two := BadFields(Field{Field: "a", Message: "x"}, Field{Field: "b", Message: "y"})
	if !strings.Contains(two.Detail, "2") || len(two.Fields) != 2 || two.Kind != Invalid {
		t.Errorf("two: %+v", two)
	}
}

func TestStatesAreNamed(t *testing.T) {
	t.Parallel()
	e := WrongState("agent", "suspended", "starting a run")
	if e.Kind != Conflict || e.Code != "INVALID_STATE_TRANSITION" || !strings.Contains(e.Detail, "suspended") {
		t.Errorf("got %+v", e)
	}
}
