package backupsql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/store/backupsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

var (
	key   = bytes.Repeat([]byte{1}, 32)
	other = bytes.Repeat([]byte{2}, 32)
	at    = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
)

// seed puts rows of every kind of value, and with foreign keys, into a database.
func seed(t *testing.T, db *sqldb.DB, blobs int) {
	t.Helper()
	err := db.Write(t.Context(), func(tx txn.Tx) error {
		do := sqldb.From(tx)
		for _, row := range []struct {
			table, columns string
			values         []any
		}{
			{"kept_secrets", "name, sealed", []any{"empty", []byte{}}},
			{"kept_secrets", "name, sealed", []any{"bytes", []byte{0, 1, 0xFF}}},
			{
				"tenants", "tenant_id, name, slug, status, plan, settings, operator, created_at, updated_at",
				[]any{"t", "Zoë's\n", "t", "active", "p", "{}", true, int64(-1), int64(math.MaxInt64)},
			},
			{"users", "tenant_id, user_id, email, name, role, status, created_at, updated_at", []any{"t", "u", "", "", "owner", "active", 0, 0}},
			{
				"passages", "tenant_id, collection_id, passage_id, source_id, position, kind, text, boost, at, version, vector_model, vector",
				[]any{"t", "c", "p", "", 0, "", "", 0.1, 0, 0, "", nil},
			},
		} {
			if _, err := do.Exec(sqldb.Insert(row.table, row.columns), row.values...); err != nil {
				return err
			}
		}
		random := rand.NewChaCha8([32]byte{}) // what cannot be compressed
		for i := range blobs {
			part := make([]byte, 1000)
			_, _ = random.Read(part) // never fails
			if _, err := do.Exec(sqldb.Insert("blob_parts", "tenant_id, parts_id, part, data"), "t", "p", i, part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// write returns a backup.
func write(t *testing.T, db *sqldb.DB, o backupsql.Options) []byte {
	t.Helper()
	var file bytes.Buffer
	o.Version, o.Now, o.Key = "1.2.3", at, backupsql.SecretKey
	if o.Keys == nil {
		o.Keys = [][]byte{key}
	}
	if _, _, err := backupsql.Write(t.Context(), db, &file, o); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// open opens a backup.
func open(file io.Reader, keys ...[]byte) (*backupsql.Reader, error) {
	r, err := backupsql.NewReader(file)
	if err != nil {
		return nil, err
	}
	return r, r.Open(keys)
}

func verify(t *testing.T, file io.Reader, keys ...[]byte) error {
	t.Helper()
	r, err := open(file, keys...)
	if r != nil {
		defer r.Close()
	}
	if err != nil {
		return err
	}
	_, err = r.Verify(t.Context())
	return err
}

func restore(ctx context.Context, file io.Reader, to sqldb.Config) error {
	r, err := open(file, key)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.Restore(ctx, to, func() error { return nil }, nil)
	return err
}

// rows returns all rows of a database.
func rows(t *testing.T, db *sqldb.DB) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := db.Snapshot(t.Context(), func(s *sqldb.Snapshot) error {
		for _, table := range s.Tables() {
			if err := s.Each(t.Context(), table, func(values []any) error {
				all[table.Name] = append(all[table.Name], fmt.Sprintf("%#v", values))
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func opened(t *testing.T, cfg sqldb.Config) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// A backup of either database is restored into either one, with every row as it was.
func TestRestore(t *testing.T) {
	t.Parallel()
	for _, from := range sqldbtest.Engines {
		for _, to := range sqldbtest.Engines {
			t.Run(fmt.Sprintf("%s_to_%s", from, to), func(t *testing.T) {
				t.Parallel()
				db := sqldbtest.Open(t, from)
				seed(t, db, 300)
				file, target := write(t, db, backupsql.Options{}), sqldbtest.Config(t, to)
				if err := restore(t.Context(), bytes.NewReader(file), target); err != nil {
					t.Fatal(err)
				}
				restored := opened(t, target)
				if diff := cmp.Diff(rows(t, db), rows(t, restored)); diff != "" {
					t.Error(diff)
				}
				if err := restored.Migrate(t.Context()); err != nil {
					t.Error(err)
				}
				if err := restore(t.Context(), bytes.NewReader(file), target); !errors.Is(err, sqldb.ErrNotEmpty) {
					t.Errorf("restored twice: %v", err)
				}
			})
		}
	}
}

// What is committed while a backup is written is not in it; what was committed before is.
func TestBackupIsOneMoment(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		seed(t, db, 100)
		var file bytes.Buffer
		o, once := backupsql.Options{Keys: [][]byte{key}, Key: backupsql.SecretKey}, false
		o.Progress = func(string, backupsql.Totals) {
			if once {
				return
			}
			once = true
			if err := db.Write(t.Context(), func(tx txn.Tx) error {
				_, err := sqldb.From(tx).Exec(sqldb.Insert("kept_secrets", "name, sealed"), "late", []byte("x"))
				return err
			}); err != nil {
				t.Error(err)
			}
		}
		_, totals, err := backupsql.Write(t.Context(), db, &file, o)
		if err != nil || !once || totals.Rows != 105 {
			t.Errorf("%+v, %v; a row was written meanwhile: %t", totals, err, once)
		}
	})
}

// A file that was cut off anywhere, or has a changed bit anywhere, is never found whole.
func TestDamage(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	seed(t, db, 200)
	file := write(t, db, backupsql.Options{})
	if err := verify(t, bytes.NewReader(file), key); err != nil {
		t.Fatal(err)
	}
	step := max(1, len(file)/60)
	for n := 0; n < len(file); n += step {
		err := verify(t, bytes.NewReader(file[:n]), key)
		damage, ok := errors.AsType[*backupsql.DamageError](err)
		if n > 0 && (!ok || !damage.CutOff) || n == 0 && !errors.Is(err, backupsql.ErrNoBackup) {
			t.Errorf("cut off after %d of %d bytes: %v", n, len(file), err)
		}
		changed := bytes.Clone(file)
		changed[n] ^= 4
		if err := verify(t, bytes.NewReader(changed), key); err == nil {
			t.Errorf("a bit of byte %d is changed, which nobody noticed", n)
		}
	}
	if err := verify(t, bytes.NewReader(append(bytes.Clone(file), 'x')), key); err == nil {
		t.Error("what stands behind the end was not noticed")
	}
	if err := verify(t, strings.NewReader(strings.Repeat("no backup\n", 10_000)), key); !errors.Is(err, backupsql.ErrNoBackup) {
		t.Errorf("another file: %v", err)
	}
	wrong, ok := errors.AsType[*backupsql.KeyError](verify(t, bytes.NewReader(file), other))
	if !ok || !strings.Contains(wrong.Error(), string(wrong.Header.KeyID)) {
		t.Errorf("another key: %v", wrong)
	}
}

// A restoration that fails leaves nothing, and can be made again.
func TestFailedRestoreLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			db := sqldbtest.Open(t, sqldbtest.SQLite)
			seed(t, db, 2000)
			file, target := write(t, db, backupsql.Options{}), sqldbtest.Config(t, engine)
			for _, n := range []int{len(file) / 2, len(file) - 1} {
				if err := restore(t.Context(), bytes.NewReader(file[:n]), target); err == nil {
					t.Fatal("half a backup was restored")
				} else if _, ok := errors.AsType[*backupsql.DamageError](err); !ok {
					t.Errorf("%v", err)
				}
				if engine == sqldbtest.SQLite {
					if left, err := filepath.Glob(filepath.Join(target.Dir, "*")); err != nil || len(left) != 1 { // the lock
						t.Errorf("%v is left, %v", left, err)
					}
					continue
				}
				if all := rows(t, opened(t, target)); len(all) != 0 {
					t.Errorf("rows of %d tables are left", len(all))
				}
			}
			if err := restore(t.Context(), bytes.NewReader(file), target); err != nil {
				t.Error(err)
			}
		})
	}
}

// A backup of a database that an older agentd made is restored as that one has it.
func TestRestoreOfAnOlderSchema(t *testing.T) {
	t.Parallel()
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			older := opened(t, sqldbtest.Config(t, engine))
			if err := older.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := older.MigrateDown(t.Context(), 200); err != nil {
				t.Fatal(err)
			}
			seed(t, older, 10)
			target := sqldbtest.Config(t, engine)
			if err := restore(t.Context(), bytes.NewReader(write(t, older, backupsql.Options{})), target); err != nil {
				t.Fatal(err)
			}
			restored := opened(t, target)
			if version, err := restored.Version(t.Context()); err != nil || version != 200 {
				t.Errorf("version %d, %v", version, err)
			}
			if err := restored.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
			if got := len(rows(t, restored)["blob_parts"]); got != 10 {
				t.Errorf("%d rows", got)
			}
		})
	}
}

func TestPassphrase(t *testing.T) {
	if underRace {
		t.Skip("played without the race detector; see .ci/run")
	}
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	carry := backupsql.Carried{SecretKeys: [][]byte{other, key}, BackupKeys: [][]byte{key}}
	file := write(t, db, backupsql.Options{Carry: carry, Passphrase: secret.New("correct horse")})
	r, err := backupsql.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Header.Unseal(secret.New("wrong horse")); !errors.Is(err, backupsql.ErrPassphrase) {
		t.Errorf("wrong passphrase: %v", err)
	}
	got, err := r.Header.Unseal(secret.New("correct horse"))
	if diff := cmp.Diff(carry, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if bytes.Contains(file, key) || bytes.Contains(file, []byte("correct horse")) {
		t.Error("the file shows a secret")
	}
	if _, err := (&backupsql.Header{}).Unseal(secret.New("x")); !errors.Is(err, backupsql.ErrNoKeys) {
		t.Error(err)
	}
}

// Everything moves from one database to another, and is compared there.
func TestCopy(t *testing.T) {
	t.Parallel()
	from := sqldbtest.Open(t, sqldbtest.SQLite)
	seed(t, from, 500)
	target := sqldbtest.Config(t, sqldbtest.Postgres)
	totals, err := backupsql.Copy(t.Context(), from, target, nil)
	if err != nil || totals.Rows != 505 {
		t.Fatalf("%+v, %v", totals, err)
	}
	if diff := cmp.Diff(rows(t, from), rows(t, opened(t, target))); diff != "" {
		t.Error(diff)
	}
	if _, err := backupsql.Copy(t.Context(), from, target, nil); !errors.Is(err, sqldb.ErrNotEmpty) {
		t.Errorf("copied twice: %v", err)
	}
	migrated := sqldbtest.Migrated(t, sqldbtest.Postgres)
	if _, err := backupsql.Copy(t.Context(), from, migrated, nil); err != nil {
		t.Errorf("into a migrated database: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	empty := sqldbtest.Config(t, sqldbtest.Postgres)
	_, err = backupsql.Copy(ctx, from, empty, func(_, _ string, t backupsql.Totals) {
		if t.Rows == 400 {
			cancel()
		}
	})
	if err == nil {
		t.Error("a copy that was cancelled succeeded")
	}
	if all := rows(t, opened(t, empty)); len(all) != 0 {
		t.Errorf("rows of %d tables are left", len(all))
	}
}

func FuzzReader(f *testing.F) {
	dir := f.TempDir()
	db, err := sqldb.Open(f.Context(), sqldb.Config{Dir: dir})
	if err != nil {
		f.Fatal(err)
	}
	if err := errors.Join(db.Migrate(f.Context())); err != nil {
		f.Fatal(err)
	}
	var file bytes.Buffer
	if _, _, err := backupsql.Write(f.Context(), db, &file, backupsql.Options{Key: backupsql.SecretKey, Keys: [][]byte{key}}); err != nil {
		f.Fatal(err)
	}
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte("agentd backup 1\n{}\nage-encryption.org/v1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := verify(t, bytes.NewReader(b), key); err == nil && !bytes.Equal(b, file.Bytes()) {
			t.Error("another file is found whole")
		}
	})
}

// Whatever a row holds is there again.
func FuzzRow(f *testing.F) {
	f.Add(int64(1), 1.5, true, "text", []byte{0}, []byte("iiiiii"))
	f.Add(int64(math.MinInt64), math.Inf(1), false, "", []byte{}, []byte("b\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, i int64, d float64, b bool, s string, raw, foreign []byte) {
		want := []any{i, d, b, s, append([]byte{}, raw...), nil}
		got, err := backupsql.RoundTrip(want)
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
		_ = backupsql.Parse(foreign, 3) // must not panic
	})
}
