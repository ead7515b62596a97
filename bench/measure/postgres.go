package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/bench/load"
	"agentd/internal/store/sqldb/sqldbtest"
)

// floorTables are the least that a run has to keep.
const floorTables = `
CREATE TABLE runs (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), tenant TEXT, status TEXT, body JSONB, at TIMESTAMPTZ DEFAULT now());
CREATE INDEX ON runs (tenant, at);
CREATE TABLE steps (id BIGSERIAL PRIMARY KEY, run UUID, body JSONB);
CREATE TABLE events (run UUID, seq INT, body JSONB, PRIMARY KEY (run, seq));
CREATE TABLE work (key TEXT PRIMARY KEY, due TIMESTAMPTZ, owner TEXT);`

// floorRun is what a run writes into them: two transactions, each of them one
// round trip.
const floorRun = `\startpipeline
BEGIN;
INSERT INTO runs (tenant, status, body) VALUES ('t', 'queued', jsonb_build_object('m', repeat('x', 200)));
INSERT INTO work VALUES (gen_random_uuid()::text, now(), 'n');
INSERT INTO steps (run, body) VALUES (gen_random_uuid(), jsonb_build_object('m', repeat('x', 200)));
COMMIT;
\endpipeline
\startpipeline
BEGIN;
INSERT INTO steps (run, body) VALUES (gen_random_uuid(), jsonb_build_object('m', repeat('x', 200)));
INSERT INTO events VALUES (gen_random_uuid(), 1, jsonb_build_object('m', repeat('x', 200)));
INSERT INTO runs (tenant, status, body) VALUES ('t', 'done', jsonb_build_object('m', repeat('x', 200)));
DELETE FROM work WHERE key = 'none';
COMMIT;
\endpipeline
`

// database is a temporary PostgreSQL server with a database for agentd and one
// for the floor.
type database struct {
	port, script string
	pgbench      string
	stop         func()
}

// sharedSecret is what the servers on one database seal with.
var sharedSecret = base64.StdEncoding.EncodeToString(make([]byte, 32))

const (
	ownDatabase   = "agentd"
	floorDatabase = "floor"
)

func (b *bench) startDatabase() (*database, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	d := &database{port: port, script: filepath.Join(b.dir, "floor.sql")}
	psql, err := sqldbtest.Program("psql")
	if err == nil {
		d.pgbench, err = sqldbtest.Program("pgbench")
	}
	if err != nil {
		return nil, err
	}
	if d.stop, err = sqldbtest.StartDurable(port, ownDatabase, floorDatabase); err != nil {
		return nil, err
	}
	err = os.WriteFile(d.script, []byte(floorRun), 0o600)
	if err == nil {
		err = command(psql, "-q", "-h", "127.0.0.1", "-p", port, "-U", "postgres", "-c", floorTables, floorDatabase).Run()
	}
	if err != nil {
		d.stop()
	}
	return d, err
}

// url is where agentd finds its database.
func (d *database) url() string {
	return "postgres://postgres@" + net.JoinHostPort("127.0.0.1", d.port) + "/" + ownDatabase + "?sslmode=disable"
}

var perSecond = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// floor returns how many runs a second the database takes from so many clients that
// do nothing else.
func (d *database) floor(clients int, span time.Duration) (float64, error) {
	out, err := exec.Command(d.pgbench, "-n", "-M", "prepared", "-h", "127.0.0.1", "-p", d.port, "-U", "postgres",
		"-c", strconv.Itoa(clients), "-j", "1", "-T", strconv.Itoa(max(1, int(span.Seconds()))), "-f", d.script, floorDatabase).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w\n%s", err, out)
	}
	found := perSecond.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("pgbench said: %s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// onPostgres compares persisted runs over PostgreSQL with what the database alone
// does with the rows of as many: of one company and of ten, and through two servers
// on one database.
func onPostgres(b *bench) error {
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	d, err := b.startDatabase()
	if errors.Is(err, sqldbtest.ErrNotInstalled) {
		fmt.Fprintln(os.Stderr, "measure: no runs over PostgreSQL:", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer d.stop()
	over := b.agentd
	over.env = func(addr, dir string, model *process) []string {
		return append(b.agentd.env(addr, dir, model), "AGENTD_DATABASE_URL="+d.url(), "AGENTD_SECRET_KEY="+sharedSecret)
	}
	own, err := b.start(over, sim)
	if err != nil {
		return err
	}
	defer own.stop()
	one, err := own.newAsker(key)
	if err != nil {
		return err
	}
	companies, err := own.newAskers(10)
	if err != nil {
		return err
	}
	single := map[int]float64{}
	for _, of := range []struct {
		name   string
		askers []asker
	}{{"one company", []asker{one}}, {"ten companies", companies}} {
		for _, clients := range []int{1, 16, 64} {
			if clients < len(of.askers) {
				continue
			}
			mine, theirs, err := b.besideDatabase(d, clients, []*process{own}, of.askers)
			if err != nil {
				return err
			}
			what := fmt.Sprintf("runs over PostgreSQL, %s, clients: %d", of.name, clients)
			b.report(what, rate(mine), fmt.Sprintf("%.0f/s", theirs), mine.PerSecond/theirs, atLeast(.5))
			if len(of.askers) == 1 {
				single[clients] = mine.PerSecond / theirs
			}
		}
	}
	second, err := b.start(over, sim)
	if err != nil {
		return err
	}
	defer second.stop()
	for _, clients := range []int{16, 64} {
		mine, theirs, err := b.besideDatabase(d, clients, []*process{own, second}, []asker{one})
		if err != nil {
			return err
		}
		b.report(fmt.Sprintf("the same, two servers, clients: %d, against one server", clients), rate(mine), "",
			mine.PerSecond/theirs/single[clients], atLeast(1))
	}
	return nil
}

// besideDatabase measures runs and the floor turn by turn, as [bench.pair] does.
// The clients are spread over servers and askers.
func (b *bench) besideDatabase(d *database, clients int, servers []*process, askers []asker) (load.Result, float64, error) {
	var mine []load.Result
	var theirs []float64
	for range b.runs {
		floor, err := d.floor(clients, b.span)
		if err != nil {
			return load.Result{}, 0, err
		}
		var plans []load.Plan
		parts := max(len(servers), min(len(askers), clients))
		for i := range parts {
			a := askers[i%len(askers)]
			plans = append(plans, load.Plan{Addr: servers[i%len(servers)].addr, Request: a.request(), Clients: clients*(i+1)/parts - clients*i/parts,
				Want: lastToken, Warm: b.span / 4, Measure: b.span})
		}
		r, err := load.RunAll(plans)
		if err == nil && (r.Failed > 0 || r.OK == 0) {
			err = fmt.Errorf("%d answers, %d failures, the first: %s", r.OK, r.Failed, r.FirstError)
		}
		if err != nil {
			return r, 0, err
		}
		theirs, mine = append(theirs, floor), append(mine, r)
	}
	slices.Sort(theirs)
	return median(mine), theirs[len(theirs)/2], nil
}

// asker is a company's key and its agent.
type asker struct{ key, agent string }

func (a asker) request() load.Request {
	r := chatOf(a.agent, false)
	r.Key = a.key
	return r
}

// newAsker makes an agent of the company of a key.
func (p *process) newAsker(key string) (asker, error) {
	c := &company{p: p, key: key}
	var made struct {
		ID string `json:"agent_id"`
	}
	err := c.call("POST", "/api/v1/agents", strings.ReplaceAll(agentBody, "{{n}}", "agent"), &made)
	return asker{key, made.ID}, err
}

// newAskers makes so many companies with an agent each.
func (p *process) newAskers(n int) ([]asker, error) {
	operator := &company{p: p, key: key}
	all := make([]asker, n)
	for i := range all {
		var made struct {
			Key string `json:"raw_key"`
		}
		err := operator.call("POST", "/api/v1/admin/tenants", fmt.Sprintf(`{"name":"company %d","slug":"company-%[1]d"}`, i), &made)
		if err != nil {
			return nil, err
		}
		if all[i], err = p.newAsker(made.Key); err != nil {
			return nil, err
		}
	}
	return all, nil
}
