package sqldb

import (
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// OptionalMicros is Micros for a time that may be missing: 0 for nil.
func OptionalMicros(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMicro()
}

// OptionalTime is the inverse of OptionalMicros.
func OptionalTime(micros int64) *time.Time {
	if micros == 0 {
		return nil
	}
	t := Time(micros)
	return &t
}

// NullJSON returns a JSON text as an argument: NULL for an empty one.
func NullJSON[T ~[]byte](v T) any {
	if len(v) == 0 {
		return nil
	}
	return string(v)
}

// Encoder turns values of our own into JSON columns. It keeps the first error,
// so that the arguments of a statement can be written in one expression.
type Encoder struct{ err error }

// JSON returns a value as JSON.
func (e *Encoder) JSON(v any) string {
	b, err := json.Marshal(v)
	e.Fail(err)
	return string(b)
}

// Fail keeps an error, unless there is one already.
func (e *Encoder) Fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// Op returns a statement that changes exactly one row, with its arguments
// encoded. A statement that changes none fails with fault.NewNotFound(noun).
func (e *Encoder) Op(noun, statement string, args ...any) txn.Op {
	if e.err != nil {
		return txn.Fail(e.err)
	}
	return func(tx txn.Tx) error {
		n, err := From(tx).Exec(statement, args...)
		if err == nil && n != 1 {
			err = fault.NewNotFound(noun)
		}
		return err
	}
}

// Queued is Op for a statement whose effect nothing in its transaction depends on;
// see [Tx.Queue].
func (e *Encoder) Queued(x Expect, statement string, args ...any) txn.Op {
	if e.err != nil {
		return txn.Fail(e.err)
	}
	return func(tx txn.Tx) error { return From(tx).QueueExpecting(x, statement, args...) }
}

// Decoder is the inverse of Encoder.
type Decoder struct{ err error }

// JSON decodes a column. Empty texts, objects and arrays leave v as it is.
func (d *Decoder) JSON(s string, v any) {
	if s == "" || s == "{}" || s == "[]" || d.err != nil {
		return
	}
	d.err = json.Unmarshal([]byte(s), v)
}

// Fail keeps an error, unless there is one already.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// Err returns the first error.
func (d *Decoder) Err() error { return d.err }
