package main

import (
	"cmp"
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/bench/load"

	_ "modernc.org/sqlite"
)

const (
	key       = "svc_benchkey_0123456789abcdefghijklmnopqrstuv"
	chatPath  = "/v1/chat/completions"
	agentBody = `{"name":"bench {{n}}","model":{"provider":"openai_compat","model_ref":"sim-model","capabilities":{}},` +
		`"prompts":{"system":"You are brief."}}`
	firstToken = `"content":"tok0` // of what the simulated models say
	lastToken  = "tok19"
)

var calculatingAgent = strings.TrimSuffix(agentBody, "}") + `,"built_in_tools":["calculator"]}`

// scenario is one part of the comparison.
type scenario struct {
	name string
	long bool // not part of -quick
	run  func(*bench) error
}

var scenarios = []scenario{
	{"start", false, coldStart},
	{"chat", false, chat},
	{"paced", false, paced},
	{"proxy", false, proxy},
	{"proxy-paced", false, pacedProxy},
	{"proxy-large", false, largeAnswers},
	{"proxy-soak", true, soakedProxy},
	{"wires", false, wires},
	{"steps", false, steps},
	{"teams", false, teamRuns},
	{"governance", false, governed},
	{"evaluations", false, evaluations},
	{"agents", false, agents},
	{"once", false, once},
	{"limits", false, limits},
	{"webhooks", false, webhooks},
	{"webhooks-hang", false, hangingReceivers},
	{"webhooks-kill", true, killedSender},
	{"streams", false, streams},
	{"machines", false, machines},
	{"visitors", true, visitors},
	{"commands", false, commands},
	{"postgres", false, onPostgres},
	{"million", true, million},
}

func newRequest(method, url, body string) (*http.Request, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// pair measures two plans in turn, and returns the median of each.
func (b *bench) pair(own, beside load.Plan) (load.Result, load.Result, error) {
	all, err := b.inTurn(beside, own)
	if err != nil {
		return load.Result{}, load.Result{}, err
	}
	return all[1], all[0], nil
}

// inTurn measures plans turn by turn, because the speed of a shared machine changes
// within minutes, and returns the median of each.
func (b *bench) inTurn(plans ...load.Plan) ([]load.Result, error) {
	measured := make([][]load.Result, len(plans))
	for range b.runs {
		for i, plan := range plans {
			plan.Measure, plan.Warm = b.span, b.span/4
			r, err := load.Run(plan)
			if err != nil {
				return nil, err
			}
			if r.Failed > 0 || r.OK == 0 {
				return nil, fmt.Errorf("%s %s: %d answers, %d failures, the first: %s",
					plan.Request.Method, plan.Request.Path, r.OK, r.Failed, r.FirstError)
			}
			measured[i] = append(measured[i], r)
		}
	}
	medians := make([]load.Result, len(plans))
	for i, results := range measured {
		medians[i] = median(results)
	}
	return medians, nil
}

func median(results []load.Result) load.Result {
	slices.SortFunc(results, func(a, b load.Result) int { return cmp.Compare(a.PerSecond, b.PerSecond) })
	return results[len(results)/2]
}

func rate(r load.Result) string { return fmt.Sprintf("%.0f/s", r.PerSecond) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

const mib = 1 << 20

func coldStart(b *bench) error {
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	var took []time.Duration
	var idle []int64
	for range max(b.runs, 3) {
		p, err := b.start(b.agentd, sim)
		if err != nil {
			return err
		}
		time.Sleep(2 * time.Second) // until it is idle
		u, err := load.Of(p.pid())
		p.stop()
		if err != nil {
			return err
		}
		took, idle = append(took, p.took), append(idle, u.Private)
	}
	slices.Sort(took)
	slices.Sort(idle)
	middle := len(took) / 2
	b.report("first 200 after a cold start", "", "", milliseconds(took[middle]), atMost(200, " ms"))
	b.report("idle, private memory", "", "", float64(idle[middle])/mib, atMost(20, " MiB"))
	return nil
}

// chatOf is a chat completion with a model, or with an agent as one.
func chatOf(model string, stream bool) load.Request {
	return load.Request{
		Method: "POST", Path: chatPath, Key: key,
		Body: fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"Say something in twenty tokens."}]}`, model, stream),
	}
}

// chat compares a persisted run with the floor of one.
func chat(b *bench) error {
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	floor, err := b.start(b.floor, sim)
	if err != nil {
		return err
	}
	defer floor.stop()
	own, err := b.start(b.agentd, sim)
	if err != nil {
		return err
	}
	defer own.stop()
	agent, err := own.newAgent()
	if err != nil {
		return err
	}
	for _, stream := range []bool{false, true} {
		kind := map[bool]string{false: "plain", true: "streamed"}[stream]
		for _, clients := range []int{1, 16, 64, 256} {
			mine, theirs, err := b.pair(
				load.Plan{Addr: own.addr, Request: chatOf(agent, stream), Clients: clients, Want: lastToken},
				load.Plan{Addr: floor.addr, Request: chatOf("sim-model", stream), Clients: clients, Want: lastToken})
			if err != nil {
				return err
			}
			what := fmt.Sprintf("chat completions, %s, clients: %d", kind, clients)
			if clients == 1 {
				b.report(what+": p50", mine.P50.String(), theirs.P50.String(), float64(mine.P50)/float64(theirs.P50), atMost(2, ""))
				continue
			}
			b.report(what, rate(mine), rate(theirs), mine.PerSecond/theirs.PerSecond, atLeast(.5))
		}
	}
	u, err := load.Of(own.pid())
	if err == nil {
		b.report("peak memory, up to 256 clients", "", "", float64(u.Peak)/mib, atMost(120, " MiB"))
		err = b.reportHeld(own)
	}
	return err
}

// paced compares streams at the pace of a real model: how late the first token
// is, and what a stream costs.
func paced(b *bench) error {
	sim, err := b.start(b.sim, nil, "-ttft", "50ms", "-delay", "10ms")
	if err != nil {
		return err
	}
	defer sim.stop()
	floor, err := b.start(b.floor, sim)
	if err != nil {
		return err
	}
	defer floor.stop()
	own, err := b.start(b.agentd, sim)
	if err != nil {
		return err
	}
	defer own.stop()
	agent, err := own.newAgent()
	if err != nil {
		return err
	}
	plan := func(p *process, model string) load.Plan {
		return load.Plan{Addr: p.addr, Request: chatOf(model, true), Clients: 256, Want: lastToken, Mark: firstToken, PID: p.pid()}
	}
	mine, direct, err := b.pair(plan(own, agent), plan(sim, "sim-model"))
	if err != nil {
		return err
	}
	b.report("paced streams, 256 clients: first token later than the model's", mine.MarkedP50.String(), direct.MarkedP50.String(),
		milliseconds(mine.MarkedP50-direct.MarkedP50), atMost(2, " ms"))
	mine, theirs, err := b.pair(plan(own, agent), plan(floor, "sim-model"))
	if err != nil {
		return err
	}
	b.report("paced streams, 256 clients: CPU of a stream", mine.CPU.String(), theirs.CPU.String(),
		float64(mine.CPU)/float64(theirs.CPU), atMost(2, ""))
	return nil
}

// toolRounds is how many calls the runs make whose steps are measured. With the
// last answer that is so many model calls and one more, and twice so many steps
// and one more. The floor makes two commits for each model call, so that as
// many of its requests as there are model calls ask and store as often.
const toolRounds = 20

// startToolModel starts a simulated model that calls tools, which other yardsticks need
// not do.
func (b *bench) startToolModel() (*process, error) {
	own := b.sim
	own.name = "simmodel"
	return b.start(own, nil, "-tool-rounds", strconv.Itoa(toolRounds))
}

// steps measures what the engine adds to each step of a run with tools.
func steps(b *bench) error {
	sim, err := b.startToolModel()
	if err != nil {
		return err
	}
	defer sim.stop()
	floor, err := b.start(b.floor, sim)
	if err != nil {
		return err
	}
	defer floor.stop()
	p, err := b.start(b.agentd, sim)
	if err != nil {
		return err
	}
	defer p.stop()
	agent, err := p.newAgentOf(calculatingAgent)
	if err != nil {
		return err
	}
	mine, theirs, err := b.pair(
		load.Plan{Addr: p.addr, Request: chatOf(agent, false), Clients: 1, Want: lastToken},
		load.Plan{Addr: floor.addr, Request: chatOf("sim-model", false), Clients: 1, Want: lastToken})
	if err != nil {
		return err
	}
	const calls, all = toolRounds + 1, 2*toolRounds + 1
	beside := calls * theirs.P50
	what := fmt.Sprintf("a run of %d steps", all)
	b.report(what+": added to each, p50", (mine.P50 / all).String(), (beside / all).String(), milliseconds(mine.P50-beside)/all,
		atMost(1, " ms"))
	b.report(what+": p50", mine.P50.String(), beside.String(), float64(mine.P50)/float64(beside), atMost(3, ""))
	return nil
}

// agents compares plain resources with a handler that does nothing.
func agents(b *bench) error {
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	hello, err := b.start(b.hello, nil)
	if err != nil {
		return err
	}
	defer hello.stop()
	own, err := b.start(b.agentd, sim)
	if err != nil {
		return err
	}
	defer own.stop()
	agent := ""
	for range 100 {
		if agent, err = own.newAgent(); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		what    string
		request load.Request
		want    string
		ratio   float64
	}{
		{"read an agent", load.Request{Method: "GET", Path: "/api/v1/agents/" + agent}, agent, .3},
		{"a page of 20 agents", load.Request{Method: "GET", Path: "/api/v1/agents?limit=20"}, `"has_more":true`, .1},
		{"create an agent", load.Request{Method: "POST", Path: "/api/v1/agents", Body: agentBody}, "agent_id", .08},
	} {
		bare := load.Plan{Addr: hello.addr, Request: c.request, Clients: 64, Want: "hello"}
		bare.Request.Path = "/hello"
		c.request.Key = key
		mine, theirs, err := b.pair(load.Plan{Addr: own.addr, Request: c.request, Clients: 64, Want: c.want}, bare)
		if err != nil {
			return err
		}
		b.report(c.what+", 64 clients", rate(mine), rate(theirs), mine.PerSecond/theirs.PerSecond, atLeast(c.ratio))
	}
	return nil
}

// once compares writes that carry an Idempotency-Key with those that carry none.
func once(b *bench) error {
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	own, err := b.start(b.agentd, sim)
	if err != nil {
		return err
	}
	defer own.stop()
	agent, err := own.newAgent()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what    string
		request load.Request
		want    string
	}{
		{"create an agent", load.Request{Method: "POST", Path: "/api/v1/agents", Body: agentBody, Key: key}, "agent_id"},
		{"start a run", load.Request{
			Method: "POST", Path: "/api/v1/runs", Body: fmt.Sprintf(`{"agent_id":%q,"input":{"message":"Hello."}}`, agent), Key: key,
		}, "run_id"},
	} {
		for _, clients := range []int{1, 16} {
			bare := load.Plan{Addr: own.addr, Request: c.request, Clients: clients, Want: c.want}
			keyed := bare
			keyed.Request.Once = true
			mine, theirs, err := b.pair(keyed, bare)
			if err != nil {
				return err
			}
			b.report(fmt.Sprintf("%s with an Idempotency-Key, %d at once: p50", c.what, clients), mine.P50.String(), theirs.P50.String(),
				float64(mine.P50)/float64(theirs.P50), atMost(1.15, ""))
		}
	}
	return nil
}

// limits compares reading an agent while three rate limits are counted, none of
// which is reached, with reading one without limits.
func limits(b *bench) error {
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	limited := b.agentd
	limited.env = func(addr, dir string, model *process) []string {
		return append(b.agentd.env(addr, dir, model), "AGENTD_RATE_LIMITS=tenant=1000000/s,key=1000000/s,endpoint=1000000/s")
	}
	var plans []load.Plan
	for _, what := range []program{limited, b.agentd} {
		p, err := b.start(what, sim)
		if err != nil {
			return err
		}
		defer p.stop()
		agent, err := p.newAgent()
		if err != nil {
			return err
		}
		plans = append(plans, load.Plan{
			Addr: p.addr, Request: load.Request{Method: "GET", Path: "/api/v1/agents/" + agent, Key: key}, Clients: 64, Want: agent,
		})
	}
	with, without, err := b.pair(plans[0], plans[1])
	if err != nil {
		return err
	}
	b.report("read an agent with rate limits, 64 clients", rate(with), rate(without), with.PerSecond/without.PerSecond, atLeast(.9))
	return nil
}

// million compares a page of runs in a table of a thousand with one in a table
// of a million. The rows are copies of a real run, made in the database.
func million(b *bench) error {
	sim, err := b.start(b.sim, nil)
	if err != nil {
		return err
	}
	defer sim.stop()
	few, err := b.startWithRuns(sim, 1_000)
	if err != nil {
		return err
	}
	defer few.stop()
	many, err := b.startWithRuns(sim, 1_000_000)
	if err != nil {
		return err
	}
	defer many.stop()
	plan := func(p *process) load.Plan {
		return load.Plan{Addr: p.addr, Request: load.Request{Method: "GET", Path: "/api/v1/runs?limit=20", Key: key}, Clients: 1,
			Want: `"has_more":true`}
	}
	mine, theirs, err := b.pair(plan(many), plan(few))
	if err != nil {
		return err
	}
	b.report("a page of 20 of 1,000,000 runs, against one of 1,000", mine.P50.String(), theirs.P50.String(),
		float64(mine.P50)/float64(theirs.P50), atMost(1.3, ""))
	return nil
}

// startWithRuns starts agentd with so many runs that have ended.
func (b *bench) startWithRuns(sim *process, n int) (*process, error) {
	p, err := b.start(b.agentd, sim)
	if err != nil {
		return nil, err
	}
	if err := p.fill(n); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) fill(n int) error {
	agent, err := p.newAgent()
	if err != nil {
		return err
	}
	if status, answer, err := p.ask("POST", chatPath, chatOf(agent, false).Body); err != nil || status != http.StatusOK {
		return fmt.Errorf("the run to copy answered %d: %s: %w", status, answer, err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(p.dir, "agentd.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		return err
	}
	defer db.Close()
	var columns, copies string
	err = db.QueryRow(`SELECT group_concat(name), group_concat(
		CASE name WHEN 'run_id' THEN 'printf(''%08x-0000-7000-8000-%012x'', n / 1000, n)' ELSE name END)
		FROM pragma_table_info('runs')`).Scan(&columns, &copies)
	if err != nil {
		return err
	}
	_, err = db.Exec(fmt.Sprintf(`WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
		INSERT INTO runs (%s) SELECT %s FROM numbers, (SELECT %[1]s FROM runs LIMIT 1)`, columns, copies), n-1)
	if err != nil {
		return err
	}
	_, err = db.Exec("PRAGMA wal_checkpoint(TRUNCATE)") // a real table grew over days, not in the WAL
	return err
}
