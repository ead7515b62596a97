package mcpclient

import (
	"bufio"
	"bytes"
	"io"
	"testing"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Whatever a process writes, no line is longer than a message may be, and
// nothing is lost before the first that is.
func FuzzReadLine(f *testing.F) {
	f.Add([]byte("a\nb\n"), uint8(3))
	f.Add(bytes.Repeat([]byte("x"), 200_000), uint8(200))
	f.Fuzz(func(t *testing.T, written []byte, most uint8) {
		r := bufio.NewReaderSize(bytes.NewReader(written), 16)
		var read []byte
		for {
			line, err := readLine(r, int64(most))
			if int64(len(line)) > int64(most) {
				t.Fatalf("a line of %d bytes", len(line))
			}
			read = append(read, line...)
			if err == errTooBig {
				break
			}
			if err == io.EOF {
				if !bytes.Equal(read, written) {
					t.Errorf("%q was read as %q", written, read)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(written, read) {
			t.Errorf("%q was read as %q", written, read)
		}
	})
}

// Whatever a server answers a call with becomes a result within bounds.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"x"},{"type":"image","mimeType":"image/png","data":"AAAA"}],"isError":true}`))
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"uri":"file:///","blob":"AAAA"}}],"structuredContent":[1]}`))
	f.Add([]byte(`{"content":[{"type":"resource","resource":null},{"type":"resource_link","uri":"x"}]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		var res sdk.CallToolResult
		if res.UnmarshalJSON(answer) != nil {
			return
		}
		out := resultOf(&res)
		if out.Failed && out.Output == "" {
			t.Error("a failure that says nothing")
		}
		if len(out.Files) > maxFiles || len(out.Output) > maxText+1<<16 {
			t.Errorf("%d files and %d bytes", len(out.Files), len(out.Output))
		}
	})
}

// Whatever a server calls a schema becomes an object or is refused.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object"}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`[1]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var schema any
		if json.Unmarshal(text, &schema) != nil {
			return
		}
		out, err := schemaOf(schema)
		if err == nil && (out.Kind() != '{' || len(out) > maxSchema || !bytes.Contains(out, []byte(`"type"`))) {
			t.Errorf("%s becomes %s", text, out)
		}
	})
}
