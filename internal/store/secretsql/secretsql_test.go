package secretsql_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/store/secretsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func master(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

func keys(t *testing.T, db *sqldb.DB, clk clock.Clock, masters ...byte) (*secretsql.Keys, *secret.Box) {
	t.Helper()
	var all [][]byte
	for _, n := range masters {
		all = append(all, master(n))
	}
	box, err := secret.NewBox(all...)
	if err != nil {
		t.Fatal(err)
	}
	return secretsql.New(db, box, clk), box
}

// formerly seals as it was done before values named their key.
func formerly(t *testing.T, n byte, plain, context string) []byte {
	t.Helper()
	key, err := hkdf.Key(sha256.New, master(n), nil, "agentd/box", 32)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := secret.Random(aead.NonceSize())
	return aead.Seal(nonce, nonce, []byte(plain), []byte(context))
}

// sample inserts rows whose columns hold texts of their own, with sealed values.
func sample(t *testing.T, db *sqldb.DB, c *secretsql.Column, seal func(bound, former string) []byte, ids ...string) {
	t.Helper()
	columns := columnsOf(t, db, c.Table)
	if err := db.Write(t.Context(), func(tx txn.Tx) error {
		for _, id := range ids {
			names, args := sampleRow(c, columns, id, seal)
			if _, err := sqldb.From(tx).Exec(sqldb.Insert(c.Table, strings.Join(names, ", ")), args...); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", c.Table, err)
	}
}

func sampleRow(c *secretsql.Column, columns []tableColumn, id string, seal func(bound, former string) []byte) (names []string, args []any) {
	row := map[string]string{"kind": between(c.Where, `'`)}
	for _, col := range columns {
		if col.nullable && col.name != c.Column {
			continue
		}
		names = append(names, col.name)
		value := any(col.name + "-" + id)
		switch {
		case col.name == c.Column:
			value = nil // below, when the others are known
		case col.name == "kind" && row["kind"] != "":
			value = row["kind"]
		case strings.HasPrefix(col.kind, "B") && col.kind != "BYTEA": // BIGINT, BOOLEAN
			value = int64(1)
			if col.kind == "BOOLEAN" {
				value = true
			}
		case col.kind == "BYTEA":
			value = []byte(col.name + id)
		}
		switch v := value.(type) {
		case string:
			row[col.name] = v
		case []byte:
			row[col.name] = base64.RawURLEncoding.EncodeToString(v)
		}
		args = append(args, value)
	}
	fill := func(template, member string) string {
		return regexp.MustCompile(`\{[a-z_]+\}`).ReplaceAllStringFunc(template, func(name string) string {
			if name == "{member}" {
				return member
			}
			return row[strings.Trim(name, "{}")]
		})
	}
	sealed := func(member string) []byte {
		former := c.Former
		if former == "" {
			former = c.Context
		}
		return seal(fill(c.Context, member), fill(former, member))
	}
	var content any
	if c.Members == nil {
		content = sealed("")
	} else {
		text := `{"other":"kept"`
		for _, m := range c.Members {
			text += fmt.Sprintf(`,%q:%q`, m, c.Encoding.EncodeToString(sealed(m)))
		}
		content = []byte(text + `}`)
		if c.Table == "documents" {
			content = text + `}`
		}
	}
	args[slices.Index(names, c.Column)] = content
	return names, args
}

func between(s, quote string) string {
	if parts := strings.Split(s, quote); len(parts) == 3 {
		return parts[1]
	}
	return ""
}

type tableColumn struct {
	name, kind string
	nullable   bool
}

func columnsOf(t *testing.T, db *sqldb.DB, table string) []tableColumn {
	t.Helper()
	query := `SELECT name, type, CASE WHEN "notnull" = 0 AND pk = 0 THEN 1 ELSE 0 END FROM pragma_table_info(?)`
	if db.Postgres() {
		query = `SELECT column_name, upper(data_type), CASE WHEN is_nullable = 'YES' THEN 1 ELSE 0 END
			FROM information_schema.columns WHERE table_schema = 'public' AND table_name = ?`
	}
	all, err := sqldb.Collect(db.Reader(t.Context()), query, []any{table}, func(r sqldb.Row) (c tableColumn, err error) {
		var nullable int
		err = r.Scan(&c.name, &c.kind, &nullable)
		c.nullable = nullable == 1
		return c, err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %v", table, err)
	}
	return all
}

func ids(box *secret.Box) []secret.KeyID { return box.KeyIDs() }

func total(counts []secretsql.Count, id secret.KeyID) (n int) {
	for _, c := range counts {
		if c.KeyID == id {
			n += c.Rows
		}
	}
	return n
}

// Values of every column, from before there were key ids, of the old key and of
// the new one: after a rotation the new key opens them all, alone.
func TestRotate(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		before, old := keys(t, db, clk, 1)
		if err := before.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		both, box := keys(t, db, clk, 2, 1)
		values := 0
		for i := range secretsql.Columns {
			c := &secretsql.Columns[i]
			sample(t, db, c, func(_, former string) []byte { return formerly(t, 1, c.Table, former) }, "a")
			sample(t, db, c, func(bound, _ string) []byte { return old.Seal([]byte(c.Table), bound) }, "b")
			sample(t, db, c, func(bound, _ string) []byte { return box.Seal([]byte(c.Table), bound) }, "c")
			values += 3 * max(len(c.Members), 1)
		}
		var steps []string
		r, err := both.Rotate(t.Context(), func(table string, _ int) { steps = append(steps, table) })
		if err != nil {
			t.Fatal(err)
		}
		if !r.Done() || r.Resealed != 2*len(secretsql.Columns) || len(steps) != len(secretsql.Columns) {
			t.Errorf("%+v after %v", r, steps)
		}
		if diff := cmp.Diff([]secret.KeyID{ids(old)[0]}, r.Retired); diff != "" {
			t.Error(diff)
		}
		after, alone := keys(t, db, clk, 2)
		if err := after.Check(t.Context()); err != nil {
			t.Error(err)
		}
		counts, err := after.Count(t.Context())
		if err != nil || total(counts, ids(alone)[0]) != values {
			t.Errorf("%v of %d values: %+v", err, values, counts)
		}
		// Rotating onto a third key opens every value with the second one.
		third, _ := keys(t, db, clk, 3, 2)
		if r, err := third.Rotate(t.Context(), nil); err != nil || !r.Done() || r.Resealed != 3*len(secretsql.Columns) {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := third.Rotate(t.Context(), nil); err != nil || !r.Done() || r.Resealed != 0 {
			t.Errorf("nothing was left: %+v, %v", r, err)
		}
	})
}

func TestStartNeedsTheKeysOfStoredValues(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		first, box := keys(t, db, clk, 1)
		if err := first.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		other, _ := keys(t, db, clk, 2)
		c := &secretsql.Columns[slices.IndexFunc(secretsql.Columns, func(c secretsql.Column) bool { return c.Table == "webhooks" })]
		sample(t, db, c, func(bound, _ string) []byte { return box.Seal([]byte("x"), bound) }, "a")

		missing, ok := errors.AsType[*secretsql.MissingKeyError](other.Check(t.Context()))
		if !ok || missing.ID != ids(box)[0] {
			t.Fatalf("the key is not missed: %v", missing)
		}
		for _, says := range []string{string(ids(box)[0]), "1 in webhooks", "admin secrets rotate", "admin secrets forget"} {
			if !strings.Contains(missing.Error(), says) {
				t.Errorf("%q is not in %s", says, missing)
			}
		}
		if err := other.Forget(t.Context(), missing.ID); err != nil {
			t.Fatal(err)
		}
		if err := other.Check(t.Context()); err != nil {
			t.Errorf("a forgotten key: %v", err)
		}
		// A value that no key opens stands in the way of retiring any.
		third, _ := keys(t, db, clk, 3, 2)
		r, err := third.Rotate(t.Context(), nil)
		if err != nil || r.Done() || len(r.Broken) != 1 || !strings.HasPrefix(r.Broken[0], "webhooks tenant_id-a/webhook_id-a: ") || len(r.Retired) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A key whose last value is gone is not missed.
func TestUnusedKeyCanBeTakenAway(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for n := byte(1); n < 4; n++ {
			k, _ := keys(t, db, clock.NewFake(), n)
			if err := k.Check(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestRotateMindsRunningServers(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		serving, old := keys(t, db, clk, 1)
		if err := serving.Report(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
		both, _ := keys(t, db, clk, 2, 1)
		if r, err := both.Rotate(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "the server n1 does not have the key") {
			t.Errorf("a server cannot read what is sealed: %+v, %v", r, err)
		}
		// It is started with both: it can read, but seals with the old one still.
		ready, _ := keys(t, db, clk, 1, 2)
		if err := ready.Report(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
		r, err := both.Rotate(t.Context(), nil)
		if err != nil || r.Done() || len(r.Sealing) != 1 || r.Sealing[0].Node != "n1" || r.Sealing[0].KeyIDs[0] != ids(old)[0] {
			t.Errorf("%+v, %v", r, err)
		}
		clk.Advance(4 * secretsql.Beat) // it was killed
		if r, err := both.Rotate(t.Context(), nil); err != nil || !r.Done() || len(r.Retired) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if err := both.Report(t.Context(), "n2"); err != nil {
			t.Fatal(err)
		}
		if err := both.Stopped(t.Context(), "n2"); err != nil {
			t.Fatal(err)
		}
		if all, err := both.Servers(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%v, %v", all, err)
		}
	})
}

// A rotation that is cut off goes on where it was, and a value that a server
// changes meanwhile is the server's.
func TestRotateIsResumable(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		before, old := keys(t, db, clk, 1)
		if err := before.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := &secretsql.Columns[slices.IndexFunc(secretsql.Columns, func(c secretsql.Column) bool { return c.Table == "sensors" })]
		const rows = 450 // three batches
		var names []string
		for i := range rows {
			names = append(names, fmt.Sprintf("%03d", i))
		}
		sample(t, db, c, func(bound, _ string) []byte { return old.Seal([]byte("x"), bound) }, names...)
		both, box := keys(t, db, clk, 2, 1)
		ctx, cut := context.WithCancel(t.Context())
		_, err := both.Rotate(ctx, func(string, int) { cut() })
		if err == nil {
			t.Fatal("it was not cut off")
		}
		counts, err := both.Count(t.Context())
		if err != nil || total(counts, ids(box)[0]) != 200 || total(counts, ids(old)[0]) != rows-200 {
			t.Fatalf("%+v, %v", counts, err)
		}
		changed := false
		r, err := both.Rotate(t.Context(), func(string, int) {
			if changed {
				return
			}
			changed = true
			sample(t, db, c, func(bound, _ string) []byte { return old.Seal([]byte("late"), bound) }, "zzz")
		})
		if err != nil || !r.Done() || r.Resealed != rows-200+1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestKeptSecretsOutliveKeys(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clk := clock.NewFake()
		first, box := keys(t, db, clk, 1)
		kept, err := first.Kept(t.Context(), "signin/recovery")
		if err != nil || !bytes.Equal(kept, box.Derive("signin/recovery")) {
			t.Fatalf("hashes from before are not of this secret: %v", err)
		}
		both, _ := keys(t, db, clk, 2, 1)
		if _, err := both.Rotate(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		after, _ := keys(t, db, clk, 2)
		if again, err := after.Kept(t.Context(), "signin/recovery"); err != nil || !bytes.Equal(again, kept) {
			t.Errorf("%v", err)
		}
	})
}

// A server of another cluster is found by its keys, unless it has stopped.
func TestStrangersOnTheDatabase(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := clock.NewFake()
		keys := func(all ...byte) *secretsql.Keys {
			var masters [][]byte
			for _, n := range all {
				masters = append(masters, bytes.Repeat([]byte{n}, 32))
			}
			box, err := secret.NewBox(masters...)
			if err != nil {
				t.Fatal(err)
			}
			return secretsql.New(db, box, c)
		}
		if err := keys(1, 2).Report(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
		for name, k := range map[string]*secretsql.Keys{"the same": keys(1, 2), "rotated": keys(3, 2), "one": keys(2)} {
			if err := k.CheckServers(t.Context(), "n2"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		stranger, ok := errors.AsType[*secretsql.StrangerError](keys(3).CheckServers(t.Context(), "n2"))
		if !ok || stranger.Server.Node != "n1" || !strings.Contains(stranger.Error(), "n1") {
			t.Errorf("another key: %v", stranger)
		}
		if err := keys(3).CheckServers(t.Context(), "n1"); err != nil {
			t.Errorf("the node itself, with a new key: %v", err)
		}
		c.Advance(2 * time.Minute)
		if err := keys(3).CheckServers(t.Context(), "n2"); err != nil {
			t.Errorf("of one that has stopped: %v", err)
		}
	})
}
