package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	gocmp "github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/store/auditsql"
	"agentd/internal/store/worksql"
)

// export returns the lines of an export.
func (r *rig) export(who authz.Caller, in audit.ExportIn) (lines []audit.Line, err error) {
	r.t.Helper()
	all, err := r.ExportLines(r.t.Context(), who, &in)
	if err != nil {
		return nil, err
	}
	for text, err := range all {
		if err != nil {
			return lines, err
		}
		var l audit.Line
		if err := json.Unmarshal(text, &l); err != nil {
			r.t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func targets(lines []audit.Line) (all []string) {
	for _, l := range lines {
		all = append(all, l.TargetID)
	}
	return all
}

// An export can be resumed after any line, and has each entry once.
func TestExport(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		start := r.clock.Now()
		var want []string
		for i := range 1201 { // more than two pages
			want = append(want, fmt.Sprint(i))
		}
		r.write(func(tx txn.Tx) error {
			for i, target := range want {
				if i%3 == 0 {
					r.clock.Advance(time.Second) // three have the same time
				}
				if err := r.Record(tx, r.who, audit.Entry{Action: "a", TargetType: "thing", TargetID: target}); err != nil {
					return err
				}
			}
			return nil
		})
		r.did(r.caller(r.tenant("second")), "a", "of another")
		r.clock.Advance(10*time.Second - 1)
		if got, err := r.export(r.who, audit.ExportIn{From: r.clock.Now().Add(-10 * time.Second)}); err != nil || len(got) != 0 {
			t.Errorf("an entry of less than ten seconds is exported: %+v, %v", got, err)
		}
		r.clock.Advance(time.Minute)
		whole, err := r.export(r.who, audit.ExportIn{})
		if err != nil || len(whole) != len(want) {
			t.Fatalf("%d lines, %v", len(whole), err)
		}
		var resumed []audit.Line
		for after := ""; ; after = resumed[len(resumed)-1].Cursor {
			got, err := r.export(r.who, audit.ExportIn{After: after, Limit: "500"})
			if err != nil {
				t.Fatal(err)
			}
			if len(got) == 0 {
				break
			}
			resumed = append(resumed, got...)
		}
		seen := map[string]bool{}
		for i, l := range resumed {
			if seen[l.TargetID] || l.Cursor != whole[i].Cursor || i > 0 && l.At.Before(resumed[i-1].At) {
				t.Fatalf("line %d: %+v", i, l)
			}
			seen[l.TargetID] = true
		}
		if len(seen) != len(want) {
			t.Errorf("%d entries", len(seen))
		}
		some, err := r.export(r.who, audit.ExportIn{From: start.Add(2 * time.Second), To: start.Add(3 * time.Second)})
		if err != nil || len(some) != 3 {
			t.Errorf("%v, %v", targets(some), err)
		}
		for _, after := range []string{"x", "1/", "/" + ident.New(), whole[0].EntryID} {
			if _, err := r.export(r.who, audit.ExportIn{After: after}); !fault.Is(err, fault.Invalid) {
				t.Errorf("after=%s: %v", after, err)
			}
		}
	})
}

func TestExportOfAnothersLog(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		theirs := r.caller(r.tenant("second"))
		r.did(theirs, "a", "one")
		r.clock.Advance(time.Minute)
		if _, err := r.export(r.who, audit.ExportIn{TenantID: theirs.TenantID}); !fault.Is(err, fault.Forbidden) {
			t.Error(err)
		}
		operator := r.who
		operator.Operator = true
		got, err := r.export(operator, audit.ExportIn{TenantID: theirs.TenantID})
		if err != nil || len(got) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		for _, tenant := range []string{theirs.TenantID, r.who.TenantID} {
			log := r.log(tenant)
			if len(log) == 0 || log[0].Action != "audit.cross_tenant_read" || !strings.Contains(string(log[0].Details), "export") {
				t.Errorf("%+v", log)
			}
		}
	})
}

// siem is a receiver that fails as long as it is down.
type siem struct {
	down bool
	got  []string
}

func (s *siem) Push(_ context.Context, lines []audit.Line) error {
	if s.down {
		return errors.New("it is down")
	}
	if len(lines) > 100 {
		return errors.New("too many")
	}
	s.got = append(s.got, targets(lines)...)
	return nil
}

// lost is a writer whose next transaction is lost, as by a crash.
type lost struct {
	txn.Writer
	next bool
}

func (l *lost) Write(ctx context.Context, do func(txn.Tx) error) error {
	if l.next {
		l.next = false
		return errors.New("the process died")
	}
	return l.Writer.Write(ctx, do)
}

func TestPush(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.did(r.who, "a", "before")
		store, receiver, writer := auditsql.New(r.db), &siem{}, &lost{Writer: r.db}
		queue := worksql.New(r.db, r.clock, nil)
		p := &audit.Pusher{Store: store, Queue: queue, Writer: writer, Clock: r.clock, Receiver: receiver, Lease: time.Minute}
		enable := func(p *audit.Pusher) {
			t.Helper()
			if err := p.Enable(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		push := func() error {
			t.Helper()
			r.clock.Advance(2 * time.Minute)
			held, err := queue.Claim(t.Context(), audit.PushKind, "node", 2, time.Minute)
			if err != nil || len(held) != 1 {
				t.Fatalf("%+v, %v", held, err)
			}
			return p.Handle(t.Context(), held[0])
		}
		expect := func(want ...string) {
			t.Helper()
			if diff := gocmp.Diff(want, receiver.got); diff != "" {
				t.Error(diff)
			}
			receiver.got = nil
		}
		enable(p)
		enable(p) // as each node does
		other := r.caller(r.tenant("second"))
		r.did(r.who, "a", "one")
		r.did(other, "a", "two")
		if err := push(); err != nil {
			t.Fatal(err)
		}
		expect("one", "two")

		receiver.down = true
		r.did(r.who, "a", "three")
		if err := push(); err == nil {
			t.Error("a receiver that is down is no error")
		}
		receiver.down = false
		writer.next = true // after the receiver has it
		if err := push(); err == nil {
			t.Error("a crash is no error")
		}
		if err := push(); err != nil {
			t.Fatal(err)
		}
		expect("three", "three")

		var many []string
		for i := range 250 {
			many = append(many, fmt.Sprint(i))
			r.did(r.who, "a", fmt.Sprint(i))
		}
		if err := push(); err != nil {
			t.Fatal(err)
		}
		expect(many...)

		r.did(r.who, "a", "four")
		enable(&audit.Pusher{Store: store, Queue: queue, Writer: r.db, Clock: r.clock})
		r.did(r.who, "a", "five")
		if left, err := store.ListUnsent(t.Context(), 10); err != nil || len(left) != 0 {
			t.Errorf("%+v, %v", left, err)
		}
		if held, err := queue.Claim(t.Context(), audit.PushKind, "node", 1, time.Minute); err != nil || len(held) != 0 {
			t.Errorf("%+v, %v", held, err)
		}
	})
}
