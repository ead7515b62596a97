package audit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	gocmp "github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// operator makes a tenant the operator's.
func (r *rig) operator(tenant string) {
	r.t.Helper()
	if err := r.exec(`UPDATE tenants SET operator = ? WHERE tenant_id = ?`, true, tenant); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) watch() *audit.Watch { return audit.NewWatch(r.Log, slog.New(slog.DiscardHandler)) }

func (r *rig) flush(w *audit.Watch) {
	r.t.Helper()
	if err := w.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// log lists the entries of a tenant, newest first.
func (r *rig) log(tenant string) []audit.Record {
	r.t.Helper()
	all, err := r.Store.List(r.t.Context(), tenant, audit.Filter{Limit: 10_000})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

type sighted struct {
	Operation, Code string
	Count           int
	First           time.Time `json:"first_at"`
	Last            time.Time `json:"last_at"`
	Overflow        bool
}

func detailsOf(t *testing.T, r audit.Record) (d sighted) {
	t.Helper()
	if err := json.Unmarshal(r.Details, &d, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	return d
}

// What has the same kind, credential, address and target is one entry with a
// count, in the log of the company, or in the operator's where none is known.
func TestWatchCounts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ours := r.tenant("ours")
		r.operator(ours)
		w := r.watch()
		start := r.clock.Now()
		wrong := audit.Sighting{
			Who: authz.Caller{Address: "192.0.2.1", RequestID: "r1"}, Action: audit.SignInFailed, Operation: "verifyOtpCode", Code: "VERIFICATION_FAILED",
		}
		for range 3 {
			w.Note(wrong)
			r.clock.Advance(time.Second)
		}
		elsewhere := wrong
		elsewhere.Who.Address = "2001:db8:1:2:3::4" // one network of 64 bits is one address
		w.Note(elsewhere)
		elsewhere.Who.Address = "2001:db8:1:2::5"
		w.Note(elsewhere)
		w.Note(audit.Sighting{Who: r.who, Action: audit.AccessRefused, Operation: "createRun", Code: "MISSING_SCOPE"})
		w.Note(audit.Sighting{Who: r.who, Action: "file.downloaded", Operation: "downloadFileContent", Target: "file", TargetID: "one"})
		r.flush(w)
		r.flush(w) // writes nothing again

		got := r.log(ours)
		if len(got) != 2 || len(r.log(r.who.TenantID)) != 2 {
			t.Fatalf("%+v, %+v", got, r.log(r.who.TenantID))
		}
		for _, e := range got {
			want := sighted{Operation: "verifyOtpCode", Code: "VERIFICATION_FAILED", Count: 3, First: start, Last: start.Add(2 * time.Second)}
			address := "192.0.2.1"
			if e.Address != address {
				address, want.Count, want.First, want.Last = "2001:db8:1:2::/64", 2, start.Add(3*time.Second), start.Add(3*time.Second)
			}
			if diff := gocmp.Diff(want, detailsOf(t, e)); diff != "" || e.Address != address || e.Method != audit.Anonymous || e.ActorIn != "" || e.RequestID != "" {
				t.Errorf("%+v %s", e, diff)
			}
		}
		for _, e := range r.log(r.who.TenantID) {
			if e.KeyID != r.who.KeyID || e.UserID != r.who.UserID || e.Method != "api_key" || e.RequestID != "request-1" || e.ActorIn != r.who.TenantID {
				t.Errorf("%+v", e)
			}
			if e.Action == "file.downloaded" && (e.Target != "file" || e.TargetID != "one") {
				t.Errorf("%+v", e)
			}
		}
	})
}

// However many strangers there are, what they leave is bounded, and counted.
func TestStrangersCannotFillTheLog(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ours := r.tenant("ours")
		r.operator(ours)
		w := r.watch()
		const strangers, members = 20_000, 3000
		for range 2 {
			for i := range strangers {
				w.Note(audit.Sighting{Who: authz.Caller{Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}, Action: audit.SignInFailed})
			}
			for range members {
				who := r.who
				who.Address = ident.New()
				w.Note(audit.Sighting{Who: who, Action: audit.AccessRefused})
			}
			r.flush(w)
		}
		count := func(tenant string) (entries, sightings, overflows int) {
			for _, e := range r.log(tenant) {
				d := detailsOf(t, e)
				entries++
				sightings += d.Count
				if d.Overflow {
					overflows++
					if e.Address != "" || e.KeyID != "" {
						t.Errorf("%+v", e)
					}
				}
			}
			return entries, sightings, overflows
		}
		if entries, sightings, overflows := count(ours); entries != 200+10+2 || sightings != 2*strangers || overflows != 2 {
			t.Errorf("strangers: %d entries for %d, %d overflows", entries, sightings, overflows)
		}
		if entries, sightings, overflows := count(r.who.TenantID); entries != 1000+60+2 || sightings != 2*members || overflows != 2 {
			t.Errorf("members: %d entries for %d, %d overflows", entries, sightings, overflows)
		}
		w.Note(audit.Sighting{Who: authz.Caller{TenantID: ours}, Action: audit.AccessRefused}) // others have room
		r.flush(w)
		if entries, _, _ := count(ours); entries != 213 {
			t.Errorf("%d entries", entries)
		}
	})
}

// Strangers at the links of a company do not use up the room of its own credentials.
func TestStrangersSpendTheirOwn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w := r.watch()
		for i := range 5000 {
			who := authz.Caller{TenantID: r.who.TenantID, Address: fmt.Sprintf("10.0.%d.%d", i>>8, i&255)}
			w.Note(audit.Sighting{Who: who, Action: "sensor.call_refused", Target: "sensor", TargetID: "one"})
		}
		for range 300 {
			who := r.who
			who.Address = ident.New()
			w.Note(audit.Sighting{Who: who, Action: audit.AccessRefused})
		}
		r.flush(w)
		entries, sightings := map[string]int{}, map[string]int{}
		for _, e := range r.log(r.who.TenantID) {
			entries[e.Action]++
			sightings[e.Action] += detailsOf(t, e).Count
		}
		if diff := gocmp.Diff(map[string]int{"sensor.call_refused": 201, audit.AccessRefused: 300}, entries); diff != "" {
			t.Error(diff)
		}
		if diff := gocmp.Diff(map[string]int{"sensor.call_refused": 5000, audit.AccessRefused: 300}, sightings); diff != "" {
			t.Error(diff)
		}
	})
}

// The rows of all companies together are bounded as well.
func TestWatchOfManyCompanies(t *testing.T) {
	t.Parallel()
	m := &memory{}
	w := audit.NewWatch(&audit.Log{Store: m, Writer: m, Clock: clock.NewFake()}, slog.New(slog.DiscardHandler))
	const all = 30_000
	for i := range all {
		w.Note(audit.Sighting{Who: authz.Caller{TenantID: fmt.Sprintf("tenant-%d", i), Address: "192.0.2.1"}, Action: audit.AccessRefused})
	}
	if n := w.Rows(); n != 2*4096+1 {
		t.Errorf("%d rows in memory", n)
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	noted, overflow := 0, 0
	for _, e := range m.all {
		noted += detailsOf(t, e).Count
		if e.TenantID == "operator" {
			overflow = detailsOf(t, e).Count
		}
	}
	if noted != all || overflow != all-2*4096 || len(m.all) != 2*4096+1 {
		t.Errorf("%d entries for %d, %d without a company", len(m.all), noted, overflow)
	}
}

// broken is a writer that fails as long as it is down.
type broken struct {
	txn.Writer
	down bool
}

func (b *broken) Write(ctx context.Context, do func(txn.Tx) error) error {
	if b.down {
		return errors.New("the database is away")
	}
	return b.Writer.Write(ctx, do)
}

func TestWatchOutlastsTheDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		writer := &broken{Writer: r.db, down: true}
		r.Log.Writer = writer
		w := r.watch()
		for range 3 {
			w.Note(audit.Sighting{Who: r.who, Action: audit.AccessRefused})
			if err := w.Flush(t.Context()); err == nil {
				t.Error("there is no error")
			}
		}
		writer.down = false
		r.flush(w)
		if n := len(r.log(r.who.TenantID)); n != 3 {
			t.Errorf("%d entries", n)
		}
		if err := r.exec(`UPDATE tenants SET status = 'deleted' WHERE tenant_id = ?`, r.who.TenantID); err != nil {
			t.Fatal(err)
		}
		w.Note(audit.Sighting{Who: r.who, Action: audit.AccessRefused})
		r.flush(w)
		if n := len(r.log(r.who.TenantID)); n != 3 {
			t.Errorf("%d entries of a company that is gone", n)
		}
	})
}

// memory is a store of what is appended alone.
type memory struct {
	audit.Store
	mu  sync.Mutex
	all []audit.Record
}

func (m *memory) AppendTx(_ txn.Tx, r audit.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, r)
	return nil
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}

func (m *memory) GetOwnerTx(_ txn.Tx, tenant string) (string, error) {
	return cmp.Or(tenant, "operator"), nil
}

func (m *memory) Write(_ context.Context, do func(txn.Tx) error) error {
	return do(nil)
}

func TestWatchWritesEachMinuteAndAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		w := audit.NewWatch(&audit.Log{Store: m, Writer: m, Clock: clock.System{}}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.Serve(ctx); close(done) }()
		note := func() {
			w.Note(audit.Sighting{Who: authz.Caller{TenantID: "t"}, Action: audit.AccessRefused})
			synctest.Wait()
		}
		note()
		if m.count() != 0 {
			t.Errorf("%d entries at once", m.count())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.count() != 1 {
			t.Errorf("%d entries after a minute", m.count())
		}
		note()
		cancel()
		<-done
		if m.count() != 2 {
			t.Errorf("%d entries at the end", m.count())
		}
	})
}
