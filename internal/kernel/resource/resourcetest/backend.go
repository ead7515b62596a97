// Package resourcetest is what every backend and every kind of package
// resource must pass.
package resourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// Backend tests an implementation of resource.Backend. It works in new tenants,
// so the database may hold other data.
func Backend(t *testing.T, backend resource.Backend, writer txn.Writer) {
	tests := map[string]func(*testing.T, bench){
		"absent":         testAbsent,
		"round_trip":     testRoundTrip,
		"tenancy":        testTenancy,
		"compare_set":    testCompareAndSet,
		"races":          testRaces,
		"unique":         testUnique,
		"lists":          testLists,
		"unusual_values": testUnusualValues,
		"rollback":       testRollback,
		"paging_in_flux": testPagingInFlux,
		"words":          testWords,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, bench{backend, writer, ident.New()})
		})
	}
}

// bench is a backend with a tenant for one test.
type bench struct {
	resource.Backend
	txn.Writer
	tenant string
}

const kind = "thing"

func (b bench) doc() resource.Doc {
	at := time.Date(2026, 9, 10, 12, 0, 0, 123456000, time.UTC)
	return resource.Doc{
		Kind: kind, Tenant: b.tenant, ID: ident.New(), Version: 1,
		CreatedAt: at, UpdatedAt: at, Body: jsontext.Value(`{"name":"one"}`),
	}
}

func (b bench) put(t *testing.T, doc resource.Doc, was int64) error {
	t.Helper()
	return b.Write(t.Context(), func(tx txn.Tx) error { return b.PutTx(tx, doc, was) })
}

func (b bench) mustPut(t *testing.T, docs ...resource.Doc) {
	t.Helper()
	for _, doc := range docs {
		if err := b.put(t, doc, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func (b bench) remove(t *testing.T, doc resource.Doc) error {
	return b.Write(t.Context(), func(tx txn.Tx) error { return b.DeleteTx(tx, doc.Kind, doc.Tenant, doc.ID, doc.Version) })
}

// bare returns the document as reads return it.
func bare(doc resource.Doc) resource.Doc {
	doc.Index, doc.Unique, doc.Words = [resource.Slots]string{}, "", nil
	return doc
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("error is %v, want %v", got, want)
	}
}

func testAbsent(t *testing.T, b bench) {
	doc := b.doc()
	_, err := b.Get(t.Context(), kind, b.tenant, doc.ID)
	wantErr(t, err, resource.ErrAbsent)
	err = b.Write(t.Context(), func(tx txn.Tx) error {
		_, err := b.LockTx(tx, kind, b.tenant, doc.ID)
		return err
	})
	wantErr(t, err, resource.ErrAbsent)
	wantErr(t, b.put(t, doc, 1), resource.ErrStale)
	wantErr(t, b.remove(t, doc), resource.ErrStale)
	docs, err := b.List(t.Context(), resource.Query{Kind: kind, Tenant: b.tenant, Limit: 5})
	if err != nil || len(docs) != 0 {
		t.Errorf("list of nothing: %v, %v", docs, err)
	}
}

func testRoundTrip(t *testing.T, b bench) {
	doc := b.doc()
	doc.Body = jsontext.Value(`{"text":"nul \u0000, ünïcödé 🙂, quotes \" and ' and ?","big":"` + strings.Repeat("x", 50_000) + `"}`)
	doc.Index = [resource.Slots]string{"a", "b", "", "d"}
	b.mustPut(t, doc)
	check := func(want resource.Doc) {
		t.Helper()
		got, err := b.Get(t.Context(), kind, b.tenant, doc.ID)
		if diff := cmp.Diff(bare(want), got); err != nil || diff != "" {
			t.Errorf("get: %v %s", err, diff)
		}
		err = b.Write(t.Context(), func(tx txn.Tx) (err error) {
			got, err = b.LockTx(tx, kind, b.tenant, doc.ID)
			return err
		})
		if diff := cmp.Diff(bare(want), got); err != nil || diff != "" {
			t.Errorf("get for update: %v %s", err, diff)
		}
	}
	check(doc)
	doc.Version, doc.Body, doc.UpdatedAt = 2, jsontext.Value(`{}`), doc.UpdatedAt.Add(time.Hour)
	if err := b.put(t, doc, 1); err != nil {
		t.Fatal(err)
	}
	check(doc)
}

func testTenancy(t *testing.T, b bench) {
	doc := b.doc()
	doc.Unique = "u"
	b.mustPut(t, doc)
	for _, other := range []resource.Doc{
		{Kind: kind, Tenant: ident.New(), ID: doc.ID, Version: 1, Body: doc.Body, Unique: "u"},
		{Kind: "other", Tenant: b.tenant, ID: doc.ID, Version: 1, Body: doc.Body, Unique: "u"},
	} {
		_, err := b.Get(t.Context(), other.Kind, other.Tenant, doc.ID)
		wantErr(t, err, resource.ErrAbsent)
		wantErr(t, b.put(t, other, 1), resource.ErrStale)
		wantErr(t, b.remove(t, other), resource.ErrStale)
		docs, err := b.List(t.Context(), resource.Query{Kind: other.Kind, Tenant: other.Tenant, Limit: 5})
		if err != nil || len(docs) != 0 {
			t.Errorf("another one's list has %v, %v", docs, err)
		}
		if err := b.put(t, other, 0); err != nil {
			t.Errorf("the same id and unique value elsewhere: %v", err)
		}
	}
}

func testCompareAndSet(t *testing.T, b bench) {
	doc := b.doc()
	b.mustPut(t, doc)
	wantErr(t, b.put(t, doc, 0), resource.ErrTaken)
	doc.Version = 3
	wantErr(t, b.put(t, doc, 2), resource.ErrStale)
	wantErr(t, b.remove(t, doc), resource.ErrStale)
	doc.Version = 2
	if err := b.put(t, doc, 1); err != nil {
		t.Fatal(err)
	}
	wantErr(t, b.put(t, doc, 1), resource.ErrStale)
	if err := b.remove(t, doc); err != nil {
		t.Fatal(err)
	}
	wantErr(t, b.put(t, doc, 2), resource.ErrStale)
}

func testRaces(t *testing.T, b bench) {
	doc := b.doc()
	b.mustPut(t, doc)
	const writers = 8
	raise := func(ctx context.Context, read func(txn.Tx) (resource.Doc, error)) error {
		return b.Write(ctx, func(tx txn.Tx) error {
			now, err := read(tx)
			if err != nil {
				return err
			}
			was := now.Version
			now.Version++
			return b.PutTx(tx, now, was)
		})
	}
	var wg sync.WaitGroup
	won := make([]error, 2*writers)
	for i := range writers {
		wg.Go(func() {
			won[i] = raise(t.Context(), func(tx txn.Tx) (resource.Doc, error) {
				return b.LockTx(tx, kind, b.tenant, doc.ID)
			})
		})
	}
	wg.Wait()
	for _, err := range won[:writers] {
		if err != nil {
			t.Errorf("a writer that locks: %v", err)
		}
	}
	stale, err := b.Get(t.Context(), kind, b.tenant, doc.ID)
	if err != nil || stale.Version != 1+writers {
		t.Fatalf("version %d after %d writes, %v", stale.Version, writers, err)
	}
	for i := range writers {
		wg.Go(func() {
			won[writers+i] = raise(t.Context(), func(txn.Tx) (resource.Doc, error) { return stale, nil })
		})
	}
	wg.Wait()
	wins := 0
	for _, err := range won[writers:] {
		if err == nil {
			wins++
		} else {
			wantErr(t, err, resource.ErrStale)
		}
	}
	if wins != 1 {
		t.Errorf("%d writers of one version won", wins)
	}
}

func testUnique(t *testing.T, b bench) {
	one, two := b.doc(), b.doc()
	one.Unique, two.Unique = "same", "same"
	b.mustPut(t, one)
	wantErr(t, b.put(t, two, 0), resource.ErrTaken)
	two.Unique = ""
	b.mustPut(t, two, b.doc()) // "" is not unique
	two.Unique, two.Version = "same", 2
	wantErr(t, b.put(t, two, 1), resource.ErrTaken)
	one.Version = 2
	if err := b.put(t, one, 1); err != nil {
		t.Errorf("keeping the own value: %v", err)
	}
	b.wantList(t, resource.Query{Unique: "same"}, one.ID)
	one.Version, one.Unique = 3, "freed"
	if err := b.put(t, one, 2); err != nil {
		t.Fatal(err)
	}
	if err := b.put(t, two, 1); err != nil {
		t.Errorf("taking a freed value: %v", err)
	}
	if err := b.remove(t, two); err != nil {
		t.Fatal(err)
	}
	three := b.doc()
	three.Unique = "same"
	b.mustPut(t, three)
}

// wantList compares a list's ids, read outside and inside of a transaction.
func (b bench) wantList(t *testing.T, q resource.Query, want ...string) {
	t.Helper()
	q.Kind, q.Tenant = kind, b.tenant
	if q.Limit == 0 {
		q.Limit = 100
	}
	outside, err := b.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var inside []resource.Doc
	err = b.Write(t.Context(), func(tx txn.Tx) (err error) {
		inside, err = b.ListTx(tx, q)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, docs := range [][]resource.Doc{outside, inside} {
		var got []string
		for _, doc := range docs {
			got = append(got, doc.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("list %+v\n got %v\nwant %v", q, got, want)
		}
	}
}

func testLists(t *testing.T, b bench) {
	var ids []string
	for i := range 6 {
		doc := b.doc()
		doc.Index = [resource.Slots]string{"all", fmt.Sprint("mod", i%2), "", fmt.Sprint(i)}
		b.mustPut(t, doc)
		ids = append(ids, doc.ID)
	}
	down := slices.Clone(ids)
	slices.Reverse(down)
	b.wantList(t, resource.Query{}, down...)
	b.wantList(t, resource.Query{Asc: true}, ids...)
	b.wantList(t, resource.Query{Limit: 2}, down[:2]...)
	b.wantList(t, resource.Query{Limit: 2, After: down[1]}, down[2:4]...)
	b.wantList(t, resource.Query{Asc: true, Limit: 2, After: ids[1]}, ids[2:4]...)
	b.wantList(t, resource.Query{After: down[5]})
	b.wantList(t, resource.Query{Filter: [resource.Slots]string{1: "mod0"}}, ids[4], ids[2], ids[0])
	b.wantList(t, resource.Query{Filter: [resource.Slots]string{1: "mod0"}, After: ids[4], Limit: 1}, ids[2])
	b.wantList(t, resource.Query{Filter: [resource.Slots]string{0: "all", 1: "mod1"}, Asc: true}, ids[1], ids[3], ids[5])
	b.wantList(t, resource.Query{Filter: [resource.Slots]string{1: "mod1", 3: "3"}}, ids[3])
	b.wantList(t, resource.Query{Filter: [resource.Slots]string{2: "nobody"}})

	full, err := b.List(t.Context(), resource.Query{Kind: kind, Tenant: b.tenant, Limit: 1})
	want := b.doc()
	want.ID = down[0]
	if diff := cmp.Diff([]resource.Doc{want}, full); err != nil || diff != "" {
		t.Errorf("a listed document: %v %s", err, diff)
	}

	moved := b.doc()
	moved.ID, moved.Version, moved.Index = ids[0], 2, [resource.Slots]string{1: "mod1"}
	if err := b.put(t, moved, 1); err != nil {
		t.Fatal(err)
	}
	b.wantList(t, resource.Query{Filter: [resource.Slots]string{1: "mod0"}}, ids[4], ids[2])
	b.wantList(t, resource.Query{Filter: [resource.Slots]string{0: "all"}}, ids[5], ids[4], ids[3], ids[2], ids[1])
}

func testUnusualValues(t *testing.T, b bench) {
	long := strings.Repeat("long", 5000)
	for _, value := range []string{
		"nul\x00", "nul", "\x00", `back\slash`, `back\\slash`, `back\x00slash`, `\0`, "bad\xffbytes", "ünï", "🙂", long, long + "r", "'; --", "%_",
	} {
		doc := b.doc()
		doc.Index, doc.Unique = [resource.Slots]string{value, value, value, value}, value
		if err := b.put(t, doc, 0); err != nil {
			t.Errorf("%.20q: %v", value, err)
			continue
		}
		for slot := range resource.Slots {
			var filter [resource.Slots]string
			filter[slot] = value
			b.wantList(t, resource.Query{Filter: filter}, doc.ID)
		}
		b.wantList(t, resource.Query{Unique: value}, doc.ID)
	}
}

func testRollback(t *testing.T, b bench) {
	kept, changed, removed, added := b.doc(), b.doc(), b.doc(), b.doc()
	removed.Unique = "freed"
	b.mustPut(t, kept, changed, removed)
	boom := errors.New("boom")
	err := b.Write(t.Context(), func(tx txn.Tx) error {
		next := changed
		next.Version, next.Body, next.Index = 2, jsontext.Value(`{"name":"two"}`), [resource.Slots]string{"x"}
		if err := errors.Join(
			b.PutTx(tx, next, 1), b.DeleteTx(tx, kind, b.tenant, removed.ID, 1), b.PutTx(tx, added, 0),
		); err != nil {
			return err
		}
		docs, err := b.ListTx(tx, resource.Query{Kind: kind, Tenant: b.tenant, Asc: true, Limit: 9})
		if err != nil {
			return err
		}
		if len(docs) != 3 || docs[1].Version != 2 || docs[2].ID != added.ID {
			t.Errorf("a transaction does not see its own writes: %v", docs)
		}
		return boom
	})
	wantErr(t, err, boom)
	b.wantList(t, resource.Query{Asc: true}, kept.ID, changed.ID, removed.ID)
	b.wantList(t, resource.Query{Filter: [resource.Slots]string{"x"}})
	got, err := b.Get(t.Context(), kind, b.tenant, changed.ID)
	if diff := cmp.Diff(bare(changed), got); err != nil || diff != "" {
		t.Errorf("after the rollback: %v %s", err, diff)
	}
}

// testPagingInFlux pages through a list that grows and shrinks meanwhile:
// documents that are there all the time must be listed exactly once.
func testPagingInFlux(t *testing.T, b bench) {
	var steady []string
	var fleeting []resource.Doc
	for i := range 30 {
		doc := b.doc()
		b.mustPut(t, doc)
		if i%3 == 0 {
			fleeting = append(fleeting, doc)
		} else {
			steady = append(steady, doc.ID)
		}
	}
	for _, asc := range []bool{false, true} {
		seen := map[string]int{}
		for after := ""; ; {
			docs, err := b.List(t.Context(), resource.Query{Kind: kind, Tenant: b.tenant, Asc: asc, After: after, Limit: 4})
			if err != nil {
				t.Fatal(err)
			}
			for _, doc := range docs {
				seen[doc.ID]++
			}
			if len(docs) < 4 || len(seen) > 100 {
				break
			}
			after = docs[3].ID
			if !asc {
				b.mustPut(t, b.doc())
			}
			if len(fleeting) > 5 || asc && len(fleeting) > 0 {
				if err := b.remove(t, fleeting[0]); err != nil {
					t.Fatal(err)
				}
				fleeting = fleeting[1:]
			}
		}
		for _, id := range steady {
			if seen[id] != 1 {
				t.Errorf("asc %t: %s came %d times", asc, id, seen[id])
			}
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("asc %t: %s came %d times", asc, id, n)
			}
		}
	}
}
