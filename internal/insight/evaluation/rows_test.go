package evaluation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
)

func TestLines(t *testing.T) {
	t.Parallel()
	r, err := readRows(strings.NewReader("\xef\xbb\xbf"+`{"input":"hi","expected_output":"HI","tags":["a"]}

{"input":{"message":"two"},"expected_tool_calls":[{"name":"add","arguments":{"a":1}}],"metadata":{"n":1}}
{"input":{"message":7}}
{"inputs":"hi"}
no JSON
{"input":"  "}
{"input":3}
`+`{"input":"`+strings.Repeat("x", maxCaseBytes+2000)+`"}`+"\n"+`{"input":"last"}`), "")
	if err != nil {
		t.Fatal(err)
	}
	var inputs []string
	for _, c := range r.cases {
		inputs = append(inputs, string(c.Input))
	}
	if diff := cmp.Diff([]string{`{"message":"hi"}`, `{"message":"two"}`, `{"message":"last"}`}, inputs); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	if string(r.cases[0].ExpectedOutput) != `"HI"` || r.cases[1].ExpectedToolCalls[0].Name != "add" || string(r.cases[1].Metadata) != `{"n":1}` {
		t.Errorf("the cases are %+v", r.cases)
	}
	named := map[string]bool{}
	for _, f := range r.fields() {
		named[f.Field] = true
	}
	for _, line := range []string{"line 4", "line 5", "line 6", "line 7", "line 8", "line 9"} {
		if !named[line] {
			t.Errorf("%s is not named in %v", line, r.fields())
		}
	}
	if len(r.fields()) != 6 {
		t.Errorf("named are %v", r.fields())
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	r, err := readRows(strings.NewReader(`input,expected,tags,expected_tool_calls,topic,metadata
"What is
2 + 2?",4,easy; sums,,math,"{""n"": 1}"
"{""message"": ""hi""}","{""a"": 1}",,"[{""name"": ""add""}]",,
,4,,,,
too,few
"a" b,4,,,,
x,4,,[1],,
x,4,,,,[]
last,,,,,
`), commas)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.cases) != 3 {
		t.Fatalf("there are %d cases; wrong are %v", len(r.cases), r.fields())
	}
	first := r.cases[0]
	if string(first.Input) != `{"message":"What is\n2 + 2?"}` || string(first.ExpectedOutput) != `"4"` ||
		string(first.Metadata) != `{"n":1,"topic":"math"}` && string(first.Metadata) != `{"n": 1,"topic":"math"}` || len(first.Tags) != 2 || first.Tags[1] != "sums" {
		t.Errorf("the first case is %+v %s", first, first.Metadata)
	}
	if second := r.cases[1]; string(second.Input) != `{"message": "hi"}` || second.ExpectedOutput.Kind() != '{' || second.ExpectedToolCalls[0].Name != "add" {
		t.Errorf("the second case is %+v", second)
	}
	var wrong []string
	for _, f := range r.fields() {
		wrong = append(wrong, f.Field)
	}
	if diff := cmp.Diff([]string{"line 5", "line 6", "line 7", "line 8", "line 9"}, wrong); diff != "" {
		t.Errorf("bad rows (-want +got):\n%s\n%v", diff, r.fields())
	}
	for _, bad := range []string{"", "a,b\n1,2\n", "\"input"} {
		if _, err := readRows(strings.NewReader(bad), commas); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestManyRows(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("input,expected_output\n")
	for i := range maxCases {
		if i%10 == 3 {
			b.WriteString(",\n")
		} else {
			fmt.Fprintf(&b, "question %d,answer\n", i)
		}
	}
	r, err := readRows(strings.NewReader(b.String()), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.cases) != maxCases*9/10 || len(r.fields()) != 1 || strings.Count(r.fields()[0].Field, ",") != maxCases/10-1 {
		t.Errorf("there are %d cases, and %d kinds of bad rows", len(r.cases), len(r.fields()))
	}
	b.Reset()
	b.WriteString("input\n" + strings.Repeat("x\n", maxCases+1))
	if _, err := readRows(strings.NewReader(b.String()), ""); !fault.Is(err, fault.Invalid) {
		t.Errorf("one more than there may be: %v", err)
	}
}

func TestLineRanges(t *testing.T) {
	t.Parallel()
	for want, lines := range map[string][]int{"line 3": {3}, "lines 1-3, 7, 9-10": {1, 2, 3, 7, 9, 10}} {
		if got := lineRanges(lines); got != want {
			t.Errorf("%v: %q", lines, got)
		}
	}
}

// Whatever a file has, it is read in bounds, and each case can be stored.
func FuzzRows(f *testing.F) {
	f.Add([]byte(`{"input":"a"}`+"\n{"), "")
	f.Add([]byte("input,tags\n\"a\nb\",c\n\"\n"), commas)
	f.Add([]byte("message,x\n\xff,1\n"), commas)
	f.Fuzz(func(t *testing.T, file []byte, format string) {
		r, err := readRows(strings.NewReader(string(file)), format)
		if err != nil {
			return
		}
		for i := range r.cases {
			if len(r.cases[i].Input) == 0 || r.cases[i].Input[0] != '{' {
				t.Errorf("the input %q", r.cases[i].Input)
			}
		}
		for _, w := range r.fields() {
			if w.Field == "" || w.Message == "" {
				t.Errorf("nothing says what is wrong: %v", w)
			}
		}
	})
}
