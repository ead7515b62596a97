package backupsql

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"agentd/internal/store/sqldb"
)

// frame is the type of a frame, its first byte. The length of what follows, and that,
// come behind it.
type frame byte

const (
	frameHeader frame = 'H' // the hash of the lines before the sealed part
	frameMeta   frame = 'M' // meta, in JSON
	frameTable  frame = 'T' // sqldb.Table, in JSON
	frameRow    frame = 'R' // a row of that table
	frameEnd    frame = 'Z' // totals, in JSON
)

// maxFrame is the size of the largest row; databases have none that is larger.
const maxFrame = 1 << 30

// errFormat says that what age has found whole is not what this package writes.
var errFormat = errors.New("the backup has a form that this program does not know")

func writeFrame(w *bufio.Writer, t frame, body []byte) error {
	if len(body) > maxFrame {
		return fmt.Errorf("a row of %d bytes is too large for a backup", len(body))
	}
	var head [1 + binary.MaxVarintLen64]byte
	head[0] = byte(t)
	n := binary.PutUvarint(head[1:], uint64(len(body)))
	if _, err := w.Write(head[:1+n]); err != nil {
		return err
	}
	_, err := w.Write(body)
	return err
}

// readFrame reads a frame into a buffer that grows with what arrives.
func readFrame(r *bufio.Reader, buffer []byte) (t frame, body []byte, err error) {
	first, err := r.ReadByte()
	if err != nil {
		return 0, buffer, err
	}
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, buffer, noEOF(err)
	}
	if size > maxFrame {
		return 0, buffer, errFormat
	}
	body = buffer[:0]
	const step = 1 << 20
	for len(body) < int(size) {
		n := min(int(size)-len(body), step)
		at := len(body)
		if cap(body)-at < n {
			body = append(body, make([]byte, n)...)
		}
		body = body[:at+n]
		if _, err := io.ReadFull(r, body[at:]); err != nil {
			return 0, body, noEOF(err)
		}
	}
	return frame(first), body, nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// The first byte of a value.
const (
	valueNull  = 'n'
	valueInt   = 'i'
	valueFloat = 'f'
	valueTrue  = 't'
	valueFalse = 'u'
	valueText  = 's'
	valueBytes = 'b'
)

// appendRow encodes values as sqldb.Snapshot gives them.
func appendRow(b []byte, values []any) ([]byte, error) {
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			b = append(b, valueNull)
		case int64:
			b = binary.AppendVarint(append(b, valueInt), v)
		case float64:
			b = binary.BigEndian.AppendUint64(append(b, valueFloat), math.Float64bits(v))
		case bool:
			if v {
				b = append(b, valueTrue)
			} else {
				b = append(b, valueFalse)
			}
		case string:
			b = append(binary.AppendUvarint(append(b, valueText), uint64(len(v))), v...)
		case []byte:
			b = append(binary.AppendUvarint(append(b, valueBytes), uint64(len(v))), v...)
		default:
			return nil, fmt.Errorf("a %T cannot be in a backup", v)
		}
	}
	return b, nil
}

// parseRow decodes what appendRow made for the columns of a table.
func parseRow(b []byte, columns []sqldb.Column, values []any) error {
	for i := range columns {
		if len(b) == 0 {
			return errFormat
		}
		t := b[0]
		b = b[1:]
		var n int
		switch t {
		case valueNull:
			values[i] = nil
		case valueTrue, valueFalse:
			values[i] = t == valueTrue
		case valueInt:
			var v int64
			if v, n = binary.Varint(b); n <= 0 {
				return errFormat
			}
			values[i] = v
		case valueFloat:
			if n = 8; len(b) < n {
				return errFormat
			}
			values[i] = math.Float64frombits(binary.BigEndian.Uint64(b))
		case valueText, valueBytes:
			size, head := binary.Uvarint(b)
			if head <= 0 || size > uint64(len(b)-head) {
				return errFormat
			}
			n = head + int(size)
			if t == valueText {
				values[i] = string(b[head:n])
			} else {
				values[i] = append([]byte{}, b[head:n]...)
			}
		default:
			return errFormat
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return errFormat
	}
	return nil
}
