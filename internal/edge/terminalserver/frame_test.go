package terminalserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]frame{
		`ls` + "\r":                              {Type: "input", Data: "ls\r"},
		`{`:                                      {Type: "input", Data: "{"},
		`{"type":"resize","cols":100,"rows":30}`: {Type: "resize", Cols: 100, Rows: 30},
		`{"type":"resize","cols":-1}`:            {Type: "input", Data: `{"type":"resize","cols":-1}`},
		`{"type":"input","data":"x"}`:            {Type: "input", Data: "x"},
		`{"type":"save"}`:                        {Type: "save"},
		`{"type":"other"}`:                       {Type: "input", Data: `{"type":"other"}`},
	} {
		if diff := cmp.Diff(want, decode([]byte(text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// Every text frame is one of three, and what is typed is never longer than the frame.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"type":"resize","cols":100,"rows":30}`))
	f.Add([]byte("{\x03"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := decode(data)
		if got.Type != "resize" && got.Type != "input" && got.Type != "save" || len(got.Data) > len(data)*3 {
			t.Errorf("%q is %+v", data, got)
		}
	})
}
