package backupsql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"agentd/internal/store/sqldb"
)

// doings is called with what is done, with which table, and how far it is.
type doings func(doing, table string, t Totals)

// Copy copies all rows of a database into an empty one, of either engine, and compares
// them there one by one before they can be seen: all of them, or none. progress may be
// nil; doing says what is done with the table.
func Copy(ctx context.Context, from *sqldb.DB, to sqldb.Config, progress func(doing, table string, t Totals)) (t Totals, err error) {
	if progress == nil {
		progress = func(string, string, Totals) {}
	}
	err = from.Snapshot(ctx, func(s *sqldb.Snapshot) error {
		return sqldb.Fill(ctx, to, s.Versions(), func(f *sqldb.Filler) error {
			for _, table := range s.Tables() {
				if err := copyTable(ctx, s, f, table, &t, progress); err != nil {
					return err
				}
			}
			var compared Totals
			for _, table := range s.Tables() {
				if err := compare(ctx, s, f, table, &compared, progress); err != nil {
					return err
				}
			}
			if compared != t {
				return fmt.Errorf("%d rows were copied and %d compared", t.Rows, compared.Rows)
			}
			return nil
		})
	})
	return t, err
}

func copyTable(
	ctx context.Context, s *sqldb.Snapshot, f *sqldb.Filler, table sqldb.Table, t *Totals, progress doings,
) error {
	t.Tables++
	next, stop := pull(ctx, s.Each, table)
	defer stop()
	_, err := f.Table(ctx, table, func() ([]any, bool, error) {
		values, err, more := next()
		if !more || err != nil {
			return nil, false, err
		}
		t.Rows++
		progress("copying", table.Name, *t)
		return values, true, nil
	})
	return err
}

// compare reads a table from both databases in the order of its key.
func compare(ctx context.Context, s *sqldb.Snapshot, f *sqldb.Filler, table sqldb.Table, t *Totals, progress doings) error {
	t.Tables++
	next, stop := pull(ctx, s.Each, table)
	defer stop()
	var want, have []byte
	err := f.Each(ctx, table, func(values []any) error {
		source, err, more := next()
		if err != nil {
			return err
		}
		if !more {
			return fmt.Errorf("the table %s has more rows than there were", table.Name)
		}
		if want, err = appendRow(want[:0], source); err != nil {
			return err
		}
		if have, err = appendRow(have[:0], values); err != nil {
			return err
		}
		if t.Rows++; !bytes.Equal(want, have) {
			return fmt.Errorf("row %d of the table %s, by its key, is not as it was", t.Rows, table.Name)
		}
		progress("comparing", table.Name, *t)
		return nil
	})
	if err != nil {
		return err
	}
	if _, err, more := next(); err != nil {
		return err
	} else if more {
		return fmt.Errorf("the table %s has fewer rows than there were", table.Name)
	}
	return nil
}

// pull turns a reading of rows around.
func pull(
	ctx context.Context, each func(context.Context, sqldb.Table, func([]any) error) error, table sqldb.Table,
) (next func() ([]any, error, bool), stop func()) {
	return iter.Pull2(func(yield func([]any, error) bool) {
		err := each(ctx, table, func(values []any) error {
			if !yield(values, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	})
}

var errStopped = errors.New("stopped")
