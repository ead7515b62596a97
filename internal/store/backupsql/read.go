package backupsql

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"

	"agentd/internal/base/secret"
	"agentd/internal/store/sqldb"
)

// DamageError says that a file is not as it was written.
type DamageError struct {
	At     int64 // about so many bytes were read
	CutOff bool  // the file had ended
	Cause  error
}

// Error implements error.
func (e *DamageError) Error() string {
	if e.CutOff {
		return fmt.Sprintf("the backup is damaged: it ends after %d bytes, and is cut off or changed there", e.At)
	}
	return fmt.Sprintf("the backup is damaged: it was changed within the first %d bytes", e.At)
}

// Unwrap returns why.
func (e *DamageError) Unwrap() error { return e.Cause }

// ErrNoBackup says that a file is something else.
var ErrNoBackup = errors.New("this is no backup of agentd")

// Reader reads a backup.
type Reader struct {
	Header Header

	from   *counted
	lines  []byte
	closed func()
	in     *bufio.Reader
	buffer []byte
	meta   meta
	next   frame // read, and not used yet; 0: none
	table  sqldb.Table
	totals Totals
}

// counted counts what is read, and notes the end.
type counted struct {
	from  io.Reader
	n     int64
	ended bool
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	c.ended = c.ended || errors.Is(err, io.EOF)
	return n, err
}

// NewReader reads the beginning of a file, which says which key it needs.
func NewReader(file io.Reader) (*Reader, error) {
	r := &Reader{from: &counted{from: file}}
	b := bufio.NewReaderSize(r.from, maxLine)
	first, err := b.ReadSlice('\n')
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull):
		return nil, err
	case len(first) == 0 || !strings.HasPrefix(mark, string(first)):
		return nil, ErrNoBackup
	case string(first) != mark:
		return nil, r.damage(err)
	}
	second, err := secondLine(b)
	if err != nil {
		return nil, r.damage(err)
	}
	r.lines = append([]byte(mark), second...)
	if err := json.Unmarshal(second, &r.Header); err != nil {
		return nil, r.damage(err)
	}
	r.in = b
	return r, nil
}

func secondLine(b *bufio.Reader) (line []byte, err error) {
	for len(line) < maxLine {
		c, err := b.ReadByte()
		if err != nil {
			return nil, err
		}
		if line = append(line, c); c == '\n' {
			return line, nil
		}
	}
	return nil, errFormat
}

func (r *Reader) damage(cause error) error {
	return &DamageError{At: r.from.n, CutOff: r.from.ended, Cause: cause}
}

// Open begins to read what is sealed. Errors: *KeyError, *DamageError.
func (r *Reader) Open(keys [][]byte) error {
	box, err := boxOf(keys)
	if err != nil {
		return &KeyError{&r.Header, err}
	}
	plain, err := age.Decrypt(r.in, opening{box})
	if err != nil {
		unknown, missing := errors.AsType[*secret.UnknownKeyError](err)
		if missing && unknown.ID == r.Header.KeyID {
			return &KeyError{&r.Header, err}
		}
		return r.damage(err)
	}
	decompressed, err := zstd.NewReader(plain, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return err
	}
	r.closed, r.in = decompressed.Close, bufio.NewReaderSize(decompressed, 256<<10)
	sum := sha256.Sum256(r.lines)
	if body, err := r.expect(frameHeader); err != nil {
		return err
	} else if string(body) != hex.EncodeToString(sum[:]) {
		return r.damage(errors.New("its first lines were changed"))
	}
	body, err := r.expect(frameMeta)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, &r.meta)
}

// Close releases what the reader uses.
func (r *Reader) Close() {
	if r.closed != nil {
		r.closed()
	}
}

func (r *Reader) expect(want frame) ([]byte, error) {
	t, err := r.frame()
	if err == nil && t != want {
		err = errFormat
	}
	return r.buffer, err
}

// frame reads the next frame into the buffer.
func (r *Reader) frame() (t frame, err error) {
	if t = r.next; t != 0 {
		r.next = 0
		return t, nil
	}
	if t, r.buffer, err = readFrame(r.in, r.buffer); err != nil && !errors.Is(err, errFormat) {
		return 0, r.damage(err)
	}
	return t, err
}

// Tables calls use with each table, until the file has ended and was found whole. use
// may leave rows; they are read all the same.
func (r *Reader) Tables(ctx context.Context, use func(t sqldb.Table, next func() ([]any, bool, error)) error) (Totals, error) {
	for {
		t, err := r.frame()
		if err != nil {
			return r.totals, err
		}
		switch t {
		case frameTable:
			r.table = sqldb.Table{}
			if err := json.Unmarshal(r.buffer, &r.table); err != nil {
				return r.totals, errFormat
			}
			r.totals.Tables++
			next := r.rows(ctx)
			if err := use(r.table, next); err != nil {
				return r.totals, err
			}
			for more := true; more; {
				if _, more, err = next(); err != nil {
					return r.totals, err
				}
			}
		case frameEnd:
			return r.totals, r.end()
		default:
			return r.totals, errFormat
		}
	}
}

// rows returns the function that reads the rows of the present table.
func (r *Reader) rows(ctx context.Context) func() ([]any, bool, error) {
	values := make([]any, len(r.table.Columns))
	return func() ([]any, bool, error) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		t, err := r.frame()
		if err != nil {
			return nil, false, err
		}
		if t != frameRow {
			r.next = t
			return nil, false, nil
		}
		r.totals.Rows++
		return values, true, parseRow(r.buffer, r.table.Columns, values)
	}
}

// end compares the totals, and reads to the end of the file.
func (r *Reader) end() error {
	var want Totals
	if err := json.Unmarshal(r.buffer, &want); err != nil {
		return errFormat
	}
	if want != r.totals {
		return r.damage(fmt.Errorf("it has %v, and says %v", r.totals, want))
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return r.damage(fmt.Errorf("more follows: %w", err))
	}
	return nil
}

// Verify reads all of a file that is open.
func (r *Reader) Verify(ctx context.Context) (Totals, error) {
	return r.Tables(ctx, func(sqldb.Table, func() ([]any, bool, error)) error { return nil })
}

// Restore fills an empty database from a file that is open: with all of it, or with
// nothing. before is called when the file was read to its end and found whole, before
// the rows can be seen. progress may be nil.
func (r *Reader) Restore(ctx context.Context, to sqldb.Config, before func() error, progress func(table string, t Totals)) (Totals, error) {
	var totals Totals
	err := sqldb.Fill(ctx, to, r.meta.Migrations, func(f *sqldb.Filler) (err error) {
		var seen []string
		totals, err = r.Tables(ctx, func(t sqldb.Table, next func() ([]any, bool, error)) error {
			if slices.Contains(seen, t.Name) {
				return errFormat
			}
			seen = append(seen, t.Name)
			_, err := f.Table(ctx, t, func() ([]any, bool, error) {
				if progress != nil {
					progress(t.Name, r.totals)
				}
				return next()
			})
			return err
		})
		if err != nil {
			return err
		}
		return before()
	})
	return totals, err
}
