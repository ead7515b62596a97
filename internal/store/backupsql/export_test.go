package backupsql

import "agentd/internal/store/sqldb"

// RoundTrip encodes and decodes a row.
func RoundTrip(values []any) ([]any, error) {
	b, err := appendRow(nil, values)
	if err != nil {
		return nil, err
	}
	got := make([]any, len(values))
	return got, parseRow(b, make([]sqldb.Column, len(values)), got)
}

// Parse decodes foreign bytes.
func Parse(b []byte, columns int) error {
	return parseRow(b, make([]sqldb.Column, columns), make([]any, columns))
}
