package anthropic

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestMended(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, wrote, want string }{
		{"object", `{"a": 1, "b": [true, null, "x\n"], "c": {}}`, `{"a":1,"b":[true,null,"x\n"],"c":{}}`},
		{"space around it", "\n {\"a\":1}\n", `{"a":1}`},
		{"nothing", "", `{}`},
		{"white space", " \n", `{}`},
		{"null", "null", `{}`},
		{"object in a string", `"{\"a\":1}"`, `{"a":1}`},
		{"text", "Bern", `{"_raw":"Bern"}`},
		{"array", "[1]", `{"_raw":"[1]"}`},
		{"string", `"x"`, `{"_raw":"\"x\""}`},
		{"numbers", `{"a":-0.5e+3,"b":10,"c":0,"d":1E2}`, `{"a":-0.5e+3,"b":10,"c":0,"d":1E2}`},
		{"line break in a string", "{\"a\":\"x\ny\"}", `{"a":"x\ny"}`},
		{"single backslash", `{"a":"\d\."}`, `{"a":"\\d\\."}`},
		{"cut in a string", `{"a":"x`, `{"a":"x","_raw":"{\"a\":\"x"}`},
		{"cut in an escape", `{"a":"x\`, `{"a":"x\\","_raw":"{\"a\":\"x\\"}`},
		{"cut in digits of an escape", `{"a":"\u00`, `{"a":"\u0000","_raw":"{\"a\":\"\\u00"}`},
		{"cut in a name", `{"a":1,"b`, `{"a":1,"b":null,"_raw":"{\"a\":1,\"b"}`},
		{"cut behind a name", `{"a"`, `{"a":null,"_raw":"{\"a\""}`},
		{"cut behind a colon", `{"a":`, `{"a":null,"_raw":"{\"a\":"}`},
		{"cut behind a comma", `{"a":1,`, `{"a":1,"_raw":"{\"a\":1,"}`},
		{"cut in a list", `{"a":[1,[2,`, `{"a":[1,[2]],"_raw":"{\"a\":[1,[2,"}`},
		{"cut in a word", `{"a":tr`, `{"a":true,"_raw":"{\"a\":tr"}`},
		{"cut in a number", `{"a":-`, `{"a":-0,"_raw":"{\"a\":-"}`},
		{"cut at the beginning", `{`, `{"_raw":"{"}`},
		{"no quotes", `{a:1}`, `{"_raw":"{a:1}"}`},
		{"no value", `{"a":}`, `{"a":null,"_raw":"{\"a\":}"}`},
		{"wrong word", `{"a":nope}`, `{"a":null,"_raw":"{\"a\":nope}"}`},
		{"wrong bracket", `{"a":[1}`, `{"a":[1],"_raw":"{\"a\":[1}"}`},
		{"comma too many", `{"a":[1,]}`, `{"a":[1,null],"_raw":"{\"a\":[1,]}"}`},
		{"two objects", `{"a":1}{"b":2}`, `{"a":1,"_raw":"{\"a\":1}{\"b\":2}"}`},
		{"words behind", `{} ok`, `{"_raw":"{} ok"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := string(repairJSON(nil, tt.wrote))
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if !jsontext.Value(got).IsValid() {
				t.Errorf("%s is no JSON", got)
			}
		})
	}
}

// lenient is JSON by its grammar alone.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// Whatever a model writes, in whatever pieces, becomes an object, and an object
// stays what it is.
func FuzzJSONRepairer(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":"\u00e9\n"}],"c":-1.5e3}`, `{"a":tr`, `"{}"`, `{"a":[[[1,`, `{"x":"\ud800"}`, "{\"a\":\"\n\\q"} {
		f.Add(seed, uint8(3))
	}
	f.Fuzz(func(t *testing.T, wrote string, step uint8) {
		whole := string(repairJSON(nil, wrote))
		v := jsontext.Value(whole)
		if !v.IsValid(lenient...) || v.Kind() != '{' {
			t.Fatalf("%q becomes %s", wrote, whole)
		}
		var m jsonRepairer
		var out []byte
		for rest := wrote; rest != ""; {
			n := min(len(rest), int(step)+1)
			out = m.write(out, rest[:n])
			rest = rest[n:]
		}
		if pieces := string(m.end(out)); pieces != whole {
			t.Fatalf("%q in pieces becomes %s, and at once %s", wrote, pieces, whole)
		}
		if in := jsontext.Value(wrote); in.IsValid() && in.Kind() == '{' && !deep(wrote) {
			want := in.Clone()
			if err := want.Canonicalize(); err != nil {
				return // a number that no float is
			}
			if err := v.Canonicalize(); err != nil || string(v) != string(want) {
				t.Fatalf("%s becomes %s", want, v)
			}
		}
	})
}

func deep(s string) bool {
	depth := 0
	for _, c := range s {
		if c == '{' || c == '[' {
			depth++
		}
	}
	return depth >= maxDepth
}
