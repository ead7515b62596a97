// Package blob stores bytes for the slices that refer to them: uploads, files of
// workspaces, artifacts of runs.
//
// A blob is identified by its tenant and the SHA-256 of its bytes, so that the
// same bytes are stored once for a tenant, and never shared between tenants. The
// rows that refer to it are counted, in the transactions that write those rows;
// the blob is removed with its last reference.
//
// # Order
//
// [Store.Stage] stores bytes without a reference, part by part and outside of
// any transaction of the caller. [Store.Keep] makes them a blob, in the
// transaction that writes the row that refers to it. Bytes that are staged and
// never kept are removed after an hour; a blob whose last reference [Store.Drop]
// removed, after ten minutes, so that downloads under way can finish.
// [Store.Serve] removes both; it may run on any number of nodes.
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
	// MaxSize is the largest size of a blob, as the API documents it for uploads.
	MaxSize = 50 << 20

	stagedFor  = time.Hour
	droppedFor = 10 * time.Minute
)

// Ref identifies a blob of a tenant.
type Ref struct {
	SHA256 string // lower-case hex
	Size   int64
}

// Table is the port to stored parts.
type Table interface {
	// CreatePartTx stores one part of a set. The first part determines when the
	// set may be removed, unless it is adopted by then.
	CreatePartTx(tx txn.Tx, tenant, parts string, n int, data []byte) error
	// UnreferenceTx records that nothing refers to a set, and when it may be
	// removed.
	UnreferenceTx(tx txn.Tx, tenant, parts string, due time.Time) error
	// CreateTx adds a reference to a blob. If there is no such blob yet it creates
	// it from the set, which is no longer loose, and returns true.
	CreateTx(tx txn.Tx, tenant string, b Ref, parts string) (made bool, err error)
	// ReferenceTx adds a reference to an existing blob. Errors: fault.NotFound.
	ReferenceTx(tx txn.Tx, tenant, sum string) error
	// DereferenceTx removes one reference. If it was the last, the blob is
	// removed and its set returned; otherwise it returns "".
	DereferenceTx(tx txn.Tx, tenant, sum string) (parts string, err error)
	// Get returns the set of a blob. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, sum string) (parts string, size int64, err error)
	// ReadPart reads a part into buf, which has room for PartSize bytes. Errors:
	// fault.NotFound.
	ReadPart(ctx context.Context, tenant, parts string, n int, buf []byte) (int, error)
	// ListDue lists sets that may be removed by now, the oldest first.
	ListDue(ctx context.Context, now time.Time, limit int) ([]Loose, error)
	// DeletePartsTx removes up to limit parts of a loose set. Once no part is
	// left it removes the record of the set too, and returns true. A set that was
	// adopted stays.
	DeletePartsTx(tx txn.Tx, l Loose, limit int) (done bool, err error)
}

// Loose is a set of parts that nothing refers to.
type Loose struct{ Tenant, Parts string }

// Store stores blobs. It is safe for concurrent use.
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

// ErrTooLarge returns the 413 for content that is larger than a blob may be.
func ErrTooLarge() error {
	return fault.New(fault.TooLarge, "", "The file is larger than the 50 MiB that a file may have.")
}

// Stage reads r to its end and stores its bytes. Errors: those of r,
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

// fill reads until buf is full or r ends. io.ReadFull would not distinguish the
// end from a body that was cut off.
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

// Keep adds a reference to what was staged, in the transaction that writes the
// referring row. It may be called once for each of several rows.
func (s *Store) Keep(tx txn.Tx, tenant string, st *Staged) error {
	parts := st.parts
	if parts == "" {
		parts = ident.New() // a new set each time: the previous one may be in removal
	}
	made, err := s.Table.CreateTx(tx, tenant, st.Ref, parts)
	if err != nil || !made || len(st.small) == 0 {
		return err
	}
	return s.Table.CreatePartTx(tx, tenant, parts, 0, st.small)
}

// Share adds a reference to a blob that another row refers to already. Errors:
// fault.NotFound if there is no such blob.
func (s *Store) Share(tx txn.Tx, tenant, sum string) error {
	return s.Table.ReferenceTx(tx, tenant, sum)
}

// Drop removes a reference, in the transaction that removes the referring row.
func (s *Store) Drop(tx txn.Tx, tenant, sum string) error {
	parts, err := s.Table.DereferenceTx(tx, tenant, sum)
	if err != nil || parts == "" {
		return err
	}
	return s.Table.UnreferenceTx(tx, tenant, parts, s.Clock.Now().Add(droppedFor))
}
