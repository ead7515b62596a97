package usage

import (
	"context"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// requestCounter counts the requests to the model proxy in one period.
type requestCounter struct {
	since   int64 // when the period began, Unix seconds
	stored  int64 // by all nodes, as last read
	waiting int64 // admitted here, not stored yet
}

func (t *requestCounter) all() int64 { return t.stored + t.waiting }

// requestCounters are the counters of the minute, the hour and the day, in the
// order of quota.Requests. The minute is never stored: it counts this node only.
type requestCounters [3]requestCounter

var lengths = [3]int64{60, 60 * 60, 24 * 60 * 60}

// roll resets the counters of periods that have ended.
func (t *requestCounters) roll(now time.Time) {
	for i := range t {
		if since := now.Unix() - now.Unix()%lengths[i]; t[i].since != since {
			t[i] = requestCounter{since: since}
		}
	}
}

// keys returns the keys of the hour and the day in usage_counters.
func (t *requestCounters) keys() (hour, day string) {
	return "p:" + time.Unix(t[1].since, 0).UTC().Format("2006-01-02T15"), "p:" + dayOf(time.Unix(t[2].since, 0))
}

// limitsAllNodes reports whether a plan has a limit that counts the requests of
// all nodes.
func limitsAllNodes(l *quota.Limits) bool { return l.RequestsPerHour != nil || l.RequestsPerDay != nil }

// AllowProxyCall implements quota.Proxy. Requests are counted when they are admitted:
// exactly on this node; those of other nodes are known within a second.
func (p *proxyMeter) AllowProxyCall(ctx context.Context, tenant string, target *model.Target) error {
	v, err := p.tenants.current(ctx, tenant)
	if err != nil {
		return err
	}
	if target != nil && !v.plan.Allows(target.Provider, target.Model) {
		return fault.New(fault.Forbidden, quota.CodeModel,
			"The company's plan does not include the model %s/%s. GET /api/v1/llm/models lists the available ones; "+
				"the operator can change the plan.",
			target.Provider, target.Model)
	}
	now := p.clock.Now()
	if err := v.checkModelCall(now); err != nil {
		return err
	}
	st := p.tenants.state(tenant)
	if limitsAllNodes(&v.plan.Limits) {
		if err := p.readRequests(ctx, tenant, st, now); err != nil {
			return err
		}
		defer p.pending.addRequests(tenant)
	}
	return st.admit(&v.plan.Limits, now)
}

func (st *tenantState) admit(l *quota.Limits, now time.Time) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.requests.roll(now)
	for i, r := range quota.Requests {
		if limit := l.Of(r); limit != nil && st.requests[i].all() >= *limit {
			return quota.Refuse(r, *limit, st.requests[i].all(), now)
		}
	}
	for i := range st.requests {
		st.requests[i].waiting++
	}
	return nil
}

// readRequests reads the counters that all nodes stored, unless they were read
// less than freshFor ago.
func (p *proxyMeter) readRequests(ctx context.Context, tenant string, st *tenantState, now time.Time) error {
	st.mu.Lock()
	st.requests.roll(now)
	fresh := now.Sub(st.requestsAt) < freshFor && !now.Before(st.requestsAt)
	hour, day := st.requests.keys()
	began := st.requests
	st.mu.Unlock()
	if fresh {
		return nil
	}
	totals, err := p.store.ListTotals(ctx, tenant, hour, day)
	if err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for i, t := range totals {
		if at := &st.requests[i+1]; at.since == began[i+1].since {
			at.stored = t.Runs // may miss what is being stored right now; the next read includes it
		}
	}
	st.requestsAt = now
	return nil
}

// unstored returns what is not stored yet, by the keys of the periods.
func (st *tenantState) unstored() (requests map[string]int64, of requestCounters) {
	st.mu.Lock()
	defer st.mu.Unlock()
	requests = map[string]int64{}
	hour, day := st.requests.keys()
	for key, n := range map[string]int64{hour: st.requests[1].waiting, day: st.requests[2].waiting} {
		if n > 0 {
			requests[key] = n
		}
	}
	return requests, st.requests
}

// markStored records that what unstored returned is stored.
func (st *tenantState) markStored(counters requestCounters) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i := 1; i < len(counters); i++ {
		if at := &st.requests[i]; at.since == counters[i].since {
			at.stored += counters[i].waiting
			at.waiting -= counters[i].waiting
		}
	}
}
