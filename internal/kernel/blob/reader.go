package blob

import (
	"context"
	"errors"
	"io"
)

// Reader reads a blob part by part, from anywhere in it. It is for one
// goroutine, and holds a part in memory until it is closed.
type Reader struct {
	ctx    context.Context
	table  Table
	tenant string
	parts  string
	size   int64
	at     int64
	buf    *[]byte
	held   int // the part in buf; -1: none
	filled int
}

var _ io.ReadSeekCloser = (*Reader)(nil)

var (
	errSeek = errors.New("blob: a position outside of the blob")
	errTorn = errors.New("blob: a part is missing or has another size")
)

// Open returns a reader, whose reads end with ctx. Errors: fault.NotFound.
func (s *Store) Open(ctx context.Context, tenant, sum string) (*Reader, error) {
	parts, size, err := s.Table.Get(ctx, tenant, sum)
	if err != nil {
		return nil, err
	}
	return &Reader{ctx: ctx, table: s.Table, tenant: tenant, parts: parts, size: size, held: -1}, nil
}

// Size returns the size of the blob in bytes.
func (r *Reader) Size() int64 { return r.size }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	n := int(r.at / PartSize)
	if n != r.held {
		if err := r.load(n); err != nil {
			return 0, err
		}
	}
	copied := copy(p, (*r.buf)[int(r.at%PartSize):r.filled])
	r.at += int64(copied)
	return copied, nil
}

func (r *Reader) load(n int) (err error) {
	if r.buf == nil {
		r.buf = buffers.Get().(*[]byte)
	}
	r.held = -1
	if r.filled, err = r.table.ReadPart(r.ctx, r.tenant, r.parts, n, *r.buf); err != nil {
		return err
	}
	if int64(r.filled) != min(PartSize, r.size-int64(n)*PartSize) {
		return errTorn
	}
	r.held = n
	return nil
}

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errSeek
	}
	r.at = offset
	return offset, nil
}

// Close releases the part's memory. It is not an error to close twice.
func (r *Reader) Close() error {
	if r.buf != nil {
		buffers.Put(r.buf)
		r.buf, r.held = nil, -1
	}
	return nil
}
