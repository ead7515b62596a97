package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/blob"
	"agentd/internal/store/blobsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant, other = "tenant", "other"

type world struct {
	*blob.Store
	t     *testing.T
	db    *sqldb.DB
	clock *clock.Fake
}

func each(t *testing.T, test func(w *world)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := clock.NewFake()
		test(&world{&blob.Store{Table: blobsql.New(db), Writer: db, Clock: c}, t, db, c})
	})
}

func bytesOf(n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

func (w *world) stage(tenant string, data []byte) *blob.Staged {
	w.t.Helper()
	st, err := w.Stage(w.t.Context(), tenant, iotest.HalfReader(bytes.NewReader(data)))
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

func (w *world) write(do func(txn.Tx) error) {
	w.t.Helper()
	if err := w.db.Write(w.t.Context(), do); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) keep(tenant string, data []byte) blob.Ref {
	w.t.Helper()
	st := w.stage(tenant, data)
	w.write(func(tx txn.Tx) error { return w.Keep(tx, tenant, st) })
	return st.Ref
}

func (w *world) read(tenant, sum string) []byte {
	w.t.Helper()
	r, err := w.Open(w.t.Context(), tenant, sum)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *world) absent(tenant, sum string) {
	w.t.Helper()
	if _, err := w.Open(w.t.Context(), tenant, sum); !fault.Is(err, fault.NotFound) {
		w.t.Errorf("%s of %s is there: %v", sum, tenant, err)
	}
}

// count says how many rows of parts there are, and sweeps before.
func (w *world) count(after time.Duration) (parts int) {
	w.t.Helper()
	w.clock.Advance(after)
	if _, err := w.Sweep(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.db.QueryRow(w.t.Context(), `SELECT COUNT(*) FROM blob_parts`).Scan(&parts); err != nil {
		w.t.Fatal(err)
	}
	return parts
}

func TestBytesComeBack(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		for _, n := range []int{0, 1, 1000, blob.PartSize - 1, blob.PartSize, blob.PartSize + 1, 3*blob.PartSize + 17} {
			data := bytesOf(n)
			sum := sha256.Sum256(data)
			ref := w.keep(tenant, data)
			if ref.SHA256 != hex.EncodeToString(sum[:]) || ref.Size != int64(n) {
				w.t.Errorf("%d bytes: %+v", n, ref)
			}
			if !bytes.Equal(w.read(tenant, ref.SHA256), data) {
				w.t.Errorf("%d bytes came back as others", n)
			}
			r, err := w.Open(w.t.Context(), tenant, ref.SHA256)
			if err != nil {
				w.t.Fatal(err)
			}
			if err := iotest.TestReader(r, data); err != nil { // seeks too
				w.t.Errorf("%d bytes: %v", n, err)
			}
			r.Close()
		}
	})
}

func TestLimitAndBrokenSources(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.t.Context()
		if _, err := w.Stage(ctx, tenant, io.LimitReader(zeros{}, blob.MaxSize+1)); !fault.Is(err, fault.TooLarge) {
			w.t.Errorf("one byte too many: %v", err)
		}
		st, err := w.Stage(ctx, tenant, io.LimitReader(zeros{}, blob.MaxSize))
		if err != nil || st.Size != blob.MaxSize {
			w.t.Errorf("exactly as many as may be: %+v, %v", st, err)
		}
		for _, broken := range []error{io.ErrUnexpectedEOF, errors.New("reset")} {
			r := io.MultiReader(bytes.NewReader(bytesOf(blob.PartSize+5)), iotest.ErrReader(broken))
			if _, err := w.Stage(ctx, tenant, r); !errors.Is(err, broken) {
				w.t.Errorf("a source that fails with %v: %v", broken, err)
			}
		}
		if left := w.count(2 * time.Hour); left != 0 {
			w.t.Errorf("%d parts remain of what was never kept", left)
		}
		if err := w.db.Write(ctx, func(tx txn.Tx) error { return w.Keep(tx, tenant, st) }); !fault.Is(err, fault.Unavailable) {
			w.t.Errorf("keeping what was swept: %v", err)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestBytesAreStoredOnceForATenant(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		data := bytesOf(2*blob.PartSize + 1)
		ref := w.keep(tenant, data)
		w.keep(tenant, data)
		if parts := w.count(2 * time.Hour); parts != 3 {
			w.t.Errorf("the same bytes twice take %d parts, not 3", parts)
		}
		w.absent(other, ref.SHA256)
		w.keep(other, data)
		if parts := w.count(2 * time.Hour); parts != 6 {
			w.t.Errorf("two tenants' bytes take %d parts, not 6", parts)
		}
		w.write(func(tx txn.Tx) error { return w.Share(tx, tenant, ref.SHA256) })

		// Three names of the one tenant, one of the other.
		for range 2 {
			w.write(func(tx txn.Tx) error { return w.Drop(tx, tenant, ref.SHA256) })
		}
		if parts := w.count(time.Hour); parts != 6 || !bytes.Equal(w.read(tenant, ref.SHA256), data) {
			w.t.Errorf("%d parts while there is a name left", parts)
		}
		w.write(func(tx txn.Tx) error { return w.Drop(tx, tenant, ref.SHA256) })
		w.absent(tenant, ref.SHA256)
		if parts := w.count(time.Hour); parts != 3 || !bytes.Equal(w.read(other, ref.SHA256), data) {
			w.t.Errorf("%d parts after the last name of one tenant went, not the other's 3", parts)
		}
		if err := w.db.Write(w.t.Context(), func(tx txn.Tx) error { return w.Share(tx, tenant, ref.SHA256) }); !fault.Is(err, fault.NotFound) {
			w.t.Errorf("sharing what is gone: %v", err)
		}
		if err := w.db.Write(w.t.Context(), func(tx txn.Tx) error { return w.Drop(tx, tenant, ref.SHA256) }); err == nil {
			w.t.Error("a name was taken away that nobody had")
		}
	})
}

// A transaction that fails leaves nothing, and one that runs again does
// nothing twice.
func TestKeepBelongsToItsTransaction(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		big, small := w.stage(tenant, bytesOf(blob.PartSize+1)), w.stage(tenant, []byte("small"))
		no := errors.New("no")
		for range 2 {
			err := w.db.Write(w.t.Context(), func(tx txn.Tx) error {
				return errors.Join(w.Keep(tx, tenant, big), w.Keep(tx, tenant, small), no)
			})
			if !errors.Is(err, no) {
				w.t.Fatal(err)
			}
		}
		w.absent(tenant, big.SHA256)
		w.absent(tenant, small.SHA256)
		w.write(func(tx txn.Tx) error {
			return errors.Join(w.Keep(tx, tenant, big), w.Keep(tx, tenant, small), w.Keep(tx, tenant, small))
		})
		if got := w.read(tenant, small.SHA256); string(got) != "small" {
			w.t.Errorf("%q", got)
		}
		if parts := w.count(2 * time.Hour); parts != 3 {
			w.t.Errorf("%d parts, not 3", parts)
		}
	})
}

// What was staged can be kept again after it was dropped, until it is swept.
func TestKeepAfterDrop(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		for _, data := range [][]byte{[]byte("small"), bytesOf(blob.PartSize + 1)} {
			st := w.stage(tenant, data)
			for range 3 {
				w.write(func(tx txn.Tx) error { return w.Keep(tx, tenant, st) })
				w.write(func(tx txn.Tx) error { return w.Drop(tx, tenant, st.SHA256) })
			}
			w.write(func(tx txn.Tx) error { return w.Keep(tx, tenant, st) })
			w.count(2 * time.Hour)
			if got := w.read(tenant, st.SHA256); !bytes.Equal(got, data) {
				w.t.Errorf("%d bytes came back as %d", len(data), len(got))
			}
		}
		if parts := w.count(2 * time.Hour); parts != 3 {
			w.t.Errorf("%d parts, not 3", parts)
		}
	})
}

// A download that is under way when its file is deleted ends well.
func TestReadersOutliveTheirFile(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		data := bytesOf(3 * blob.PartSize)
		ref := w.keep(tenant, data)
		r, err := w.Open(w.t.Context(), tenant, ref.SHA256)
		if err != nil {
			w.t.Fatal(err)
		}
		defer r.Close()
		first := make([]byte, 100)
		if _, err := io.ReadFull(r, first); err != nil {
			w.t.Fatal(err)
		}
		w.write(func(tx txn.Tx) error { return w.Drop(tx, tenant, ref.SHA256) })
		w.count(5 * time.Minute)
		rest, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(first, data[:100]) || !bytes.Equal(rest, data[100:]) {
			w.t.Errorf("the rest of a deleted file: %d bytes, %v", len(rest), err)
		}
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			w.t.Fatal(err)
		}
		w.count(time.Hour)
		if _, err := io.ReadAll(r); !fault.Is(err, fault.NotFound) {
			w.t.Errorf("long after: %v", err)
		}
	})
}

// Names that come and go at the same moment never lose bytes that have one.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		data := bytesOf(blob.PartSize + 9)
		ref := w.keep(tenant, data) // one name that stays
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 5 {
					st, err := w.StageBytes(w.t.Context(), tenant, data)
					if err == nil {
						err = w.db.Write(w.t.Context(), func(tx txn.Tx) error { return w.Keep(tx, tenant, st) })
					}
					if err == nil {
						err = w.db.Write(w.t.Context(), func(tx txn.Tx) error { return w.Drop(tx, tenant, ref.SHA256) })
					}
					if err != nil {
						w.t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if parts := w.count(2 * time.Hour); parts != 2 || !bytes.Equal(w.read(tenant, ref.SHA256), data) {
			w.t.Errorf("%d parts remain, not 2", parts)
		}
		w.write(func(tx txn.Tx) error { return w.Drop(tx, tenant, ref.SHA256) })
		if parts := w.count(2 * time.Hour); parts != 0 {
			w.t.Errorf("%d parts remain, not 0", parts)
		}
	})
}

func TestServeSweepsNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := &counting{}
		s := &blob.Store{Table: table, Clock: clock.System{}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Serve(ctx, slog.New(slog.DiscardHandler))
		}()
		time.Sleep(10 * time.Minute) // the bubble's
		cancel()
		<-done
		if table.asked < 6 || table.asked > 20 {
			t.Errorf("it swept %d times in ten minutes", table.asked)
		}
	})
}

type counting struct {
	blob.Table
	asked int
}

func (c *counting) ListDue(context.Context, time.Time, int) ([]blob.Loose, error) {
	c.asked++
	if c.asked%2 == 0 {
		return nil, errors.New("away")
	}
	return nil, nil
}
