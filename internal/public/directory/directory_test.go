package directory

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestStylesheet(t *testing.T) {
	t.Parallel()
	got := string(stylesheet(jsontext.Value(`{"primary_color":"#1f5fbf","accent_color":"red;} body{display:none}","font":"Gill Sans",
		"tagline":"a\"} * { x: y } </style>\\","Bad-Name":"x","number":1,"logo_color":"url(//evil)","emptiness":""}`)))
	want := `:root {
  --brand-emptiness: "";
  --brand-font: "Gill Sans";
  --brand-primary-color: #1f5fbf;
  --brand-tagline: "a\000022\00007d \00002a \00007b x: y \00007d \00003c\00002fstyle\00003e\00005c";
}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := string(stylesheet(nil)); got != ":root {\n}\n" {
		t.Errorf("without a branding: %q", got)
	}
}

func FuzzStylesheet(f *testing.F) {
	f.Add("font", `Gill "Sans"; } * {`)
	f.Add("primary_color", "#fff")
	f.Fuzz(func(t *testing.T, name, value string) {
		branding, err := jsontext.AppendQuote([]byte("{"), name)
		if err != nil {
			return
		}
		if branding, err = jsontext.AppendQuote(append(branding, ':'), value); err != nil {
			return
		}
		css := string(stylesheet(jsontext.Value(append(branding, '}'))))
		inner := strings.TrimSuffix(strings.TrimPrefix(css, ":root {\n"), "}\n")
		if strings.ContainsAny(inner, "{}<>*") || strings.Count(inner, "\n") > 1 || strings.Count(inner, ";") > 1 {
			t.Errorf("%s", css)
		}
	})
}

func TestMatches(t *testing.T) {
	t.Parallel()
	l := &Listing{Name: "Bakery Ada", Description: "Bread for everybody", Category: "Food", Tags: []string{"vegan"}}
	for _, tt := range []struct {
		category, search string
		want             bool
	}{{"", "", true}, {"food", "", true}, {"Tools", "", false}, {"", "ADA bread", true}, {"", "vegan", true}, {"", "bread meat", false}} {
		if got := l.matches(tt.category, tt.search); got != tt.want {
			t.Errorf("%+v: %t", tt, got)
		}
	}
}
