package difftag_test

import (
	"reflect"
	"slices"
	"testing"

	"agentd/internal/base/difftag"
)

type place struct {
	URL  string   `moves:"true"`
	Args []string `moves:"true"`
	Note string   `moves:"false"`
}

type server struct {
	_ struct{} `json:"-"`
	place
	Meta struct{ ID string } `moves:"false"`
	Name string              `moves:"false"`
	Port int                 `moves:"true"`
}

func TestChanged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*server)
		want   bool
	}{
		"nothing":          {func(*server) {}, false},
		"tagged":           {func(s *server) { s.Port = 2 }, true},
		"tagged-false":     {func(s *server) { s.Name, s.Meta.ID = "b", "c" }, false},
		"embedded":         {func(s *server) { s.URL = "b" }, true},
		"embedded-false":   {func(s *server) { s.Note = "b" }, false},
		"slice":            {func(s *server) { s.Args = []string{"b"} }, true},
		"nil-equals-empty": {func(s *server) { s.Args = []string{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, now := server{Port: 1}, server{Port: 1}
			tt.change(&now)
			if got := difftag.Changed("moves", &old, &now); got != tt.want {
				t.Errorf("changed: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestUndecided(t *testing.T) {
	t.Parallel()
	type undecided struct {
		place
		New   string
		Wrong string `moves:"maybe"`
	}
	if got := difftag.Undecided("moves", reflect.TypeFor[server]()); got != nil {
		t.Errorf("undecided: %v", got)
	}
	if got := difftag.Undecided("moves", reflect.TypeFor[undecided]()); !slices.Equal(got, []string{"New", "Wrong"}) {
		t.Errorf("undecided: %v", got)
	}
}
