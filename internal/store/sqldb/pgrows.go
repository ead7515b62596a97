package sqldb

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"io"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// batchRows are the rows of the last query of a batch, as database/sql wants them.
type batchRows struct {
	session *pgSession
	results pgx.BatchResults
	rows    pgx.Rows
	closed  bool
}

// Columns implements driver.Rows.
func (r *batchRows) Columns() []string {
	fields := r.rows.FieldDescriptions()
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

// Next implements driver.Rows.
func (r *batchRows) Next(dest []driver.Value) error {
	if r.closed {
		return errRowsOpen
	}
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return r.session.failure(err)
		}
		return io.EOF
	}
	fields, raw := r.rows.FieldDescriptions(), r.rows.RawValues()
	for i := range dest {
		var err error
		if dest[i], err = r.value(fields[i].DataTypeOID, fields[i].Format, raw[i]); err != nil {
			return err
		}
	}
	return nil
}

// value decodes a column. The types of our tables are decoded here, which takes a
// fraction of what the general way does.
func (r *batchRows) value(oid uint32, format int16, raw []byte) (driver.Value, error) {
	if raw == nil {
		return nil, nil //nolint:nilnil // the driver's NULL
	}
	binaryFormat := format == pgtype.BinaryFormatCode
	switch {
	case oid == pgtype.TextOID || oid == pgtype.VarcharOID:
		return string(raw), nil
	case oid == pgtype.Int8OID && binaryFormat && len(raw) == 8:
		return int64(binary.BigEndian.Uint64(raw)), nil
	case oid == pgtype.Int4OID && binaryFormat && len(raw) == 4:
		return int64(int32(binary.BigEndian.Uint32(raw))), nil
	case oid == pgtype.BoolOID && binaryFormat && len(raw) == 1:
		return raw[0] != 0, nil
	case oid == pgtype.Float8OID && binaryFormat && len(raw) == 8:
		return math.Float64frombits(binary.BigEndian.Uint64(raw)), nil
	case oid == pgtype.ByteaOID && binaryFormat:
		return bytes.Clone(raw), nil
	}
	types := r.session.conn.pg().TypeMap()
	if t, ok := types.TypeForOID(oid); ok {
		return t.Codec.DecodeDatabaseSQLValue(types, oid, format, raw)
	}
	return string(raw), nil
}

// Close implements driver.Rows.
func (r *batchRows) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	r.session.rows = nil
	r.rows.Close()
	return r.session.failure(r.results.Close())
}
