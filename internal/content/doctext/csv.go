package doctext

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"

	"agentd/internal/base/text"
)

// Bounds of a table. Each value repeats the name of its column, so that a table could
// grow to any size: the names of all values together may have nameFactor times the
// size of the table. Values beyond that have none.
const (
	maxRecord  = 1 << 20 // bytes; text with a longer one is not a table
	maxColumns = 10_000  // that have a name
	maxName    = 100     // characters of a column's name
	nameFactor = 8
	nameFloor  = 64 << 10
)

var errLongRecord = errors.New("doctext: a record of the table is too long")

// recordReader ends when one record has read too much: the parser keeps a record, and
// two words for each of its fields, in memory.
type recordReader struct {
	data []byte
	left int // of the record
}

// Read implements io.Reader.
func (r *recordReader) Read(into []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	if r.left <= 0 {
		return 0, errLongRecord
	}
	n := copy(into, r.data)
	r.data, r.left = r.data[n:], r.left-n
	return n, nil
}

// table writes each row with the names of its columns, so that every chunk of
// the text names its values. Text that is not a table stays as it is.
func table(ctx context.Context, data []byte, limit int) (string, error) {
	from := &recordReader{data, maxRecord}
	r := csv.NewReader(from)
	r.FieldsPerRecord, r.LazyQuotes, r.TrimLeadingSpace, r.ReuseRecord = -1, true, true, true
	var names []string
	var out []byte
	budget := nameFactor*len(data) + nameFloor
	for row := 0; ; row++ {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		from.left = maxRecord
		fields, err := r.Read()
		if err != nil {
			if err != io.EOF || row < 2 {
				out = data
			}
			break
		}
		if row == 0 {
			for _, name := range fields[:min(len(fields), maxColumns)] {
				names = append(names, text.Prefix(name, maxName))
			}
			continue
		}
		for i, value := range fields {
			if i > 0 {
				out = append(out, "; "...)
			}
			if i < len(names) && names[i] != "" && budget > len(names[i]) {
				budget -= len(names[i]) + len(": ")
				out = append(append(out, names[i]...), ": "...)
			}
			out = append(out, value...)
		}
		if out = append(out, '\n'); len(out) > limit {
			return "", ErrLong
		}
	}
	if out = bytes.ReplaceAll(out, []byte{0}, nil); len(out) > limit {
		return "", ErrLong
	}
	return string(out), nil
}
