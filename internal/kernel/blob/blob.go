// Package blob keeps bytes for the slices that name them: uploads, files of
// workspaces, artifacts of runs.
//
// A blob is named by its tenant and the SHA-256 of its bytes, so that the same
// bytes are stored once for a tenant, and never shared between two. It is
// counted how many rows name it, in the transactions that write those rows;
// when the last is gone, so is the blob.
//
// # Order
//
// [Store.Stage] stores bytes that nobody names yet, part by part and outside
// of any transaction of the caller. [Store.Keep], in the transaction that
// writes what names them, makes them a blob. What is staged and never kept is
// removed after an hour; what [Store.Drop] took the last name from, after ten
// minutes, so that downloads under way may end. [Store.Serve] removes it; it
// may run on any number of nodes.
//
// No more than a part of a blob is in memory per reader or writer.
package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"sync"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

const (
	// PartSize is the size of every part of a blob but its last.
	PartSize = 256 << 10
	// MaxSize of a blob (interface.md section 8, uploads).
	MaxSize = 50 << 20

	stagedFor  = time.Hour
	droppedFor = 10 * time.Minute
)

// Ref names a blob of a tenant.
type Ref struct {
	SHA256 string // lower-case hex
	Size   int64
}

// Table is the port to stored parts.
type Table interface {
	// CreatePartTx stores one part of a set. Its first part tells from when on the
	// set is loose, unless it is adopted.
	CreatePartTx(tx txn.Tx, tenant, parts string, n int, data []byte) error
	// UnreferenceTx notes that nothing names a set, and when it may be removed.
	UnreferenceTx(tx txn.Tx, tenant, parts string, due time.Time) error
	// CreateTx names a blob once more. Where there is none yet it makes it of the
	// set, which is loose no longer, and says so.
	CreateTx(tx txn.Tx, tenant string, b Ref, parts string) (made bool, err error)
	// ReferenceTx names a blob that exists once more. Errors: fault.NotFound.
	ReferenceTx(tx txn.Tx, tenant, sum string) error
	// DereferenceTx takes one name away. It gives the set of a blob that has none
	// left and is removed, otherwise "".
	DereferenceTx(tx txn.Tx, tenant, sum string) (parts string, err error)
	// Get gives the set of a blob. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, sum string) (parts string, size int64, err error)
	// ReadPart reads a part into buf, which has room for PartSize bytes. Errors:
	// fault.NotFound.
	ReadPart(ctx context.Context, tenant, parts string, n int, buf []byte) (int, error)
	// ListDue lists sets that may be removed by now, the oldest first.
	ListDue(ctx context.Context, now time.Time, limit int) ([]Loose, error)
	// DeletePartsTx removes up to limit parts of a set that is loose, and the note once
	// none is left, and says so. A set that was adopted stays.
	DeletePartsTx(tx txn.Tx, l Loose, limit int) (done bool, err error)
}

// Loose is a set of parts that nothing names.
type Loose struct{ Tenant, Parts string }

// Store keeps blobs. It is safe for concurrent use.
type Store struct {
	Table  Table
	Writer txn.Writer
	Clock  clock.Clock
}

// Staged is what was read and stored, for a transaction to keep.
type Staged struct {
	Ref

	parts string // "" of small
	small []byte // of one part: it goes into the transaction that keeps it
}

var buffers = sync.Pool{New: func() any { b := make([]byte, PartSize); return &b }}

// ErrTooLarge is the 413 of what is larger than a blob may be.
func ErrTooLarge() error {
	return fault.New(fault.TooLarge, "", "The file is larger than the 50 MiB that a file may have.")
}

// Stage reads r to its end and stores what it gives. Errors: those of r,
// ErrTooLarge, fault.Unavailable.
func (s *Store) Stage(ctx context.Context, tenant string, r io.Reader) (*Staged, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	st := &Staged{}
	sum := sha256.New()
	for n := 0; ; n++ {
		got, last, err := fill(r, *buf)
		if err != nil {
			return nil, err
		}
		part := (*buf)[:got]
		if st.Size += int64(got); st.Size > MaxSize {
			return nil, ErrTooLarge()
		}
		sum.Write(part)
		switch {
		case last && n == 0:
			st.small = slices.Clone(part)
		case got > 0:
			if n == 0 {
				st.parts = ident.New()
			}
			if err := s.addPart(ctx, tenant, st.parts, n, part); err != nil {
				return nil, err
			}
		}
		if last {
			st.SHA256 = hex.EncodeToString(sum.Sum(nil))
			return st, nil
		}
	}
}

// fill reads until buf is full or r ends. io.ReadFull would not tell an end
// from a body that was cut off.
func fill(r io.Reader, buf []byte) (n int, last bool, err error) {
	for n < len(buf) {
		got, err := r.Read(buf[n:])
		n += got
		if err == io.EOF {
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}

// StageBytes is Stage of bytes that are in memory.
func (s *Store) StageBytes(ctx context.Context, tenant string, data []byte) (*Staged, error) {
	return s.Stage(ctx, tenant, bytes.NewReader(data))
}

func (s *Store) addPart(ctx context.Context, tenant, parts string, n int, data []byte) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if n == 0 {
			if err := s.Table.UnreferenceTx(tx, tenant, parts, s.Clock.Now().Add(stagedFor)); err != nil {
				return err
			}
		}
		return s.Table.CreatePartTx(tx, tenant, parts, n, data)
	})
}

// Keep names what was staged, in the transaction that writes the row that does.
// It may be called for as many rows as there are.
func (s *Store) Keep(tx txn.Tx, tenant string, st *Staged) error {
	parts := st.parts
	if parts == "" {
		parts = ident.New() // anew each time: the last may be on its way out
	}
	made, err := s.Table.CreateTx(tx, tenant, st.Ref, parts)
	if err != nil || !made || len(st.small) == 0 {
		return err
	}
	return s.Table.CreatePartTx(tx, tenant, parts, 0, st.small)
}

// Share names a blob once more that another row names already. Errors:
// fault.NotFound where none does.
func (s *Store) Share(tx txn.Tx, tenant, sum string) error {
	return s.Table.ReferenceTx(tx, tenant, sum)
}

// Drop takes a name away, in the transaction that removes the row that had it.
func (s *Store) Drop(tx txn.Tx, tenant, sum string) error {
	parts, err := s.Table.DereferenceTx(tx, tenant, sum)
	if err != nil || parts == "" {
		return err
	}
	return s.Table.UnreferenceTx(tx, tenant, parts, s.Clock.Now().Add(droppedFor))
}
