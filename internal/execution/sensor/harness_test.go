package sensor_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/sensor"
	"agentd/internal/execution/sensor/sensorsql"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// harness is a service over a real database, with a fake clock and an engine that
// only stores runs.
type harness struct {
	*sensor.Service
	t      *testing.T
	db     *sqldb.DB
	clock  *clock.Fake
	agents *agent.Agents
	store  *sensorsql.Store
	runs   *runsql.Store
	who    authz.Caller

	mu      sync.Mutex
	suspend bool
	refuse  error
	log     []audit.Entry
}

// Start implements run.Starter.
func (r *harness) Start(ctx context.Context, rec *run.Record, _ *run.AgentSpec) error {
	if r.refuse != nil {
		return r.refuse
	}
	return r.db.Write(ctx, func(tx txn.Tx) error {
		if err := r.runs.Create(rec)(tx); err != nil {
			return err
		}
		_, err := rec.Admit(tx, rec)
		return err
	})
}

// Record implements audit.Recorder.
func (r *harness) Record(_ txn.Tx, _ authz.Caller, e audit.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, e)
	return nil
}

func each(t *testing.T, test func(t *testing.T, r *harness)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, newHarness(t, db)) })
}

func newHarness(t *testing.T, db *sqldb.DB) *harness {
	t.Helper()
	r := &harness{
		t: t, db: db, clock: clock.NewFake(), store: sensorsql.New(db), runs: runsql.New(db),
		who: authz.Caller{TenantID: ident.New(), UserID: ident.New()},
	}
	box, err := secret.NewBox(make([]byte, 32))
	r.fatal(err)
	cursors := page.NewCursors(make([]byte, 32))
	queue := worksql.New(db, r.clock, nil)
	r.agents = agent.New(resource.Deps{
		Backend: resourcesql.New(db), Writer: db, Outbox: resource.NewSubscribers(queue, db, r.clock), Cursors: cursors, Clock: r.clock,
	}, agent.Options{})
	runs := &run.Service{Runs: r.runs, Writer: db, Queue: queue, Agents: run.AgentSource{Agents: r.agents}, Starter: r, Clock: r.clock}
	r.Service = sensor.New(sensor.Deps{
		Store: r.store, Writer: db, Clock: r.clock, Cursors: cursors, Box: box, Audit: r,
		Public:    func() string { return "https://agents.example.com" },
		Suspended: func(context.Context, string) (bool, error) { return r.suspend, nil },
	})
	r.Connect(runs, r.agents.Store())
	return r
}

func (r *harness) fatal(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *harness) agent() string {
	r.t.Helper()
	g := r.agents.Store().Blank()
	g.Name = "Ada"
	r.fatal(r.agents.Store().Create(r.t.Context(), r.who, g))
	return g.ID
}

// do calls an operation with values by the names of parameters, and a body that is
// JSON or a message.
func (r *harness) do(id string, values map[string]string, body any) (any, error) {
	routes := r.Routes()
	at := slices.IndexFunc(routes, func(one route.Route) bool { return one.ID == id })
	in := reflect.New(routes[at].In)
	for f := range routes[at].In.Fields() {
		field := in.Elem().FieldByIndex(f.Index)
		if f.Name != "Body" {
			field.SetString(values[f.Tag.Get("path")+f.Tag.Get("header")+f.Tag.Get("query")])
			continue
		}
		if m, ok := body.(route.Message); ok {
			field.Set(reflect.ValueOf(m))
		} else if err := schema.For(f.Type).DecodeInto([]byte(body.(string)), field.Addr().Interface(), false); err != nil {
			return nil, err
		}
	}
	return routes[at].Call(r.t.Context(), r.who, in.Interface())
}

// sensor creates a sensor; more has further members of the body.
func (r *harness) sensor(agentID, more string) *sensor.View {
	r.t.Helper()
	got, err := r.do("createSensor", nil, `{"agent_id":"`+agentID+`"`+more+`}`)
	r.fatal(err)
	return got.(*sensor.View)
}

// fill creates active sensors of an agent.
func (r *harness) fill(agentID string, n int) {
	r.t.Helper()
	r.fatal(r.db.Write(r.t.Context(), func(tx txn.Tx) error {
		for range n {
			of := &sensor.Sensor{TenantID: r.who.TenantID, ID: ident.New(), AgentID: agentID, MaxTriggers: 1, CreatedAt: r.clock.Now()}
			if created, err := r.store.CreateTx(tx, of); err != nil || !created {
				return errors.Join(errors.New("not created"), err)
			}
		}
		return nil
	}))
}

func (r *harness) read(id string) *sensor.View {
	r.t.Helper()
	got, err := r.do("getSensor", map[string]string{"sensorId": id}, nil)
	r.fatal(err)
	return got.(*sensor.View)
}

// post calls a sensor, signed if it has a secret, and returns the run's id.
func (r *harness) post(v *sensor.View, body string, headers ...string) (string, error) {
	signature := ""
	if v.Secret != "" {
		signature = sensor.Sign(v.Secret, []byte(body))
	}
	return r.send(v.WebhookID, signature, body, headers...)
}

func (r *harness) send(id, signature, body string, headers ...string) (string, error) {
	m := route.Message{Header: map[string][]string{}, Data: []byte(body)}
	for i := 0; i+1 < len(headers); i += 2 {
		m.Header[headers[i]] = append(m.Header[headers[i]], headers[i+1])
	}
	got, err := r.do("sensorWebhook", map[string]string{"webhookId": id, "X-Sensor-Signature": signature}, m)
	return reflect.ValueOf(got).FieldByName("RunID").String(), err
}

// started lists the agent's runs, oldest first.
func (r *harness) started(agentID string) []run.Run {
	r.t.Helper()
	all, err := r.runs.List(r.t.Context(), r.who.TenantID, run.Filter{AgentID: agentID}, page.Window{Ascending: true, Limit: 1000})
	r.fatal(err)
	return all
}

// is fails the test unless err is a fault of a kind and a code.
func is(t *testing.T, err error, kind fault.Kind, code string) *fault.Error {
	t.Helper()
	f := fault.From(err)
	if f == nil || f.Kind != kind || f.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return f
}

func (r *harness) advance(d time.Duration) { r.clock.Advance(d) }
