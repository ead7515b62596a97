package route

import (
	"bytes"
	"strings"
)

// Frame is one server-sent event. Data is one line. A frame without ID leaves
// the client's last id as it was; one without Name is a bare data line.
type Frame struct {
	ID   string
	Name string
	Data []byte

	// Wire is the frame as AppendWire renders it, if several readers share it;
	// nil: it is rendered when it is sent. It is never changed.
	Wire []byte
	// More means that the next frame follows at once, so that both can be sent
	// together. A source that does not know leaves it false.
	More bool
}

// AppendWire appends a frame's lines. Data with line breaks becomes several
// data lines, and a name or id with one is left out: no content forges a frame.
func (f Frame) AppendWire(b []byte) []byte {
	if f.ID != "" && !strings.ContainsAny(f.ID, "\r\n\x00") {
		b = append(append(append(b, "id: "...), f.ID...), '\n')
	}
	if f.Name != "" && !strings.ContainsAny(f.Name, "\r\n") {
		b = append(append(append(b, "event: "...), f.Name...), '\n')
	}
	for rest := f.Data; ; {
		end := bytes.IndexByte(rest, '\n')
		if cr := bytes.IndexByte(rest, '\r'); cr >= 0 && (end < 0 || cr < end) {
			end = cr
		}
		b = append(b, "data: "...)
		if end < 0 {
			b = append(b, rest...)
			break
		}
		b = append(append(b, rest[:end]...), '\n')
		rest = rest[end+1:]
	}
	return append(b, "\n\n"...)
}
