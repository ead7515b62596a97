package settingsql_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/operation/setting"
	"agentd/internal/operation/setting/settingsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type limits struct {
	Steps  int            `json:"steps" minimum:"1" default:"5" doc:"x"`
	Names  map[string]int `json:"names" doc:"x"`
	APIKey secret.String  `json:"api_key"`
}

// recorder is an audit.Recorder.
type recorder struct{ entries []audit.Entry }

func (r *recorder) Record(_ txn.Tx, _ authz.Caller, e audit.Entry) error {
	r.entries = append(r.entries, e)
	return nil
}

type node struct {
	*setting.Service
	section *setting.Section[limits]
	seen    int // steps of the newest value
}

// start returns a node with one section.
func start(t *testing.T, db *sqldb.DB, box *secret.Box, log audit.Recorder, sealed bool) *node {
	t.Helper()
	n := &node{Service: setting.New(setting.Deps{
		Store: settingsql.New(db), Writer: db, Clock: clock.System{}, Box: box, Audit: log, Logger: slog.New(slog.DiscardHandler),
	})}
	n.section = setting.Add(n.Service, &setting.Section[limits]{
		Name: "limits", Secret: sealed, Initial: limits{Steps: 5, Names: map[string]int{"a": 1}},
		Changed: func(v *limits) { n.seen = v.Steps },
		Check: func(v *limits) error {
			if v.Steps > 100 {
				return fault.BadFields(fault.Field{Field: "steps", Message: "is too much"})
			}
			return nil
		},
	})
	if err := n.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) patch(t *testing.T, patch string) error {
	t.Helper()
	who := authz.Caller{TenantID: ident.New()}
	return n.section.Update(t.Context(), who, func(v *limits) error { return n.section.Merge(v, jsontext.Value(patch)) }, func(v *limits) any { return v })
}

// A section has its initial value until it is set; a change is merged, checked, recorded
// without secrets, sealed where it has any, and read by other nodes (rule D17-settings).
func TestSections(t *testing.T) {
	t.Parallel()
	for name, sealed := range map[string]bool{"plain": false, "sealed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				box, err := secret.NewBox(bytes.Repeat([]byte{7}, 32))
				if err != nil {
					t.Fatal(err)
				}
				log := &recorder{}
				one, two := start(t, db, box, log, sealed), start(t, db, box, log, sealed)
				if v := one.section.Get(); v.Steps != 5 || one.section.IsSet() || one.seen != 5 {
					t.Errorf("at first: %+v", v)
				}
				if err := one.patch(t, `{"steps":7,"names":{"b":2},"api_key":"sk-0123456789"}`); err != nil {
					t.Fatal(err)
				}
				if err := one.patch(t, `{"names":{"a":null,"c":3}}`); err != nil {
					t.Fatal(err)
				}
				for _, wrong := range []string{`{"steps":0}`, `{"steps":101}`, `{"names":{"a":"x"}}`} {
					if err := one.patch(t, wrong); !fault.Is(err, fault.Invalid) {
						t.Errorf("%s: %v", wrong, err)
					}
				}
				check := func(n *node, when string) {
					t.Helper()
					v := n.section.Get()
					if v.Steps != 7 || len(v.Names) != 2 || v.Names["b"] != 2 || v.Names["c"] != 3 || v.APIKey.Reveal() != "sk-0123456789" || n.seen != 7 || !n.section.IsSet() {
						t.Errorf("%s: %+v %q", when, v, v.APIKey.Reveal())
					}
				}
				check(one, "where it was changed")
				if two.section.Get().Steps != 5 {
					t.Errorf("another node before it read: %+v", two.section.Get())
				}
				two.Reload("limits")
				two.Reload("unknown")
				check(two, "another node")
				check(start(t, db, box, log, sealed), "a node that starts")
				if err := one.patch(t, `{"steps":null}`); err != nil || one.section.Get().Steps != 5 {
					t.Errorf("a member that is null: %+v, %v", one.section.Get(), err)
				}
				if len(log.entries) != 3 || log.entries[0].Action != "setting.updated" || log.entries[0].TargetID != "limits" {
					t.Fatalf("recorded: %+v", log.entries)
				}
				if d := string(log.entries[0].Details); !strings.Contains(d, `"steps":5`) || !strings.Contains(d, `"steps":7`) || strings.Contains(d, "sk-0") {
					t.Errorf("recorded: %s", d)
				}
				row, err := settingsql.New(db).Get(t.Context(), "limits")
				if err != nil || row.Version != 3 {
					t.Fatalf("%+v, %v", row, err)
				}
				if sealed != !bytes.Contains(append(row.Body, row.Sealed...), []byte("sk-0123456789")) {
					t.Errorf("stored: %q %q", row.Body, row.Sealed)
				}
			})
		})
	}
}

// A change whose notification was lost is found by looking.
func TestServe(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		box, err := secret.NewBox(bytes.Repeat([]byte{7}, 32))
		if err != nil {
			t.Fatal(err)
		}
		one, two := start(t, db, box, nil, true), start(t, db, box, nil, true)
		if err := one.patch(t, `{"steps":9}`); err != nil {
			t.Fatal(err)
		}
		changed := make(chan struct{})
		two.section.Changed = func(v *limits) {
			if v.Steps == 9 {
				close(changed)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); two.Serve(ctx) }()
		<-changed
		cancel()
		<-done
	})
}
