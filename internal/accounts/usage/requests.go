package usage

import (
	"context"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// tally counts the requests to the model proxy in one period.
type tally struct {
	since   int64 // when the period began, Unix seconds
	stored  int64 // by all nodes, as far as is known
	waiting int64 // let through here, and not stored yet
}

func (t *tally) all() int64 { return t.stored + t.waiting }

// tallies are those of the minute, the hour and the day, as quota.Requests has
// them. Those of minutes are never stored: they are this node's.
type tallies [3]tally

var lengths = [3]int64{60, 60 * 60, 24 * 60 * 60}

// turn begins anew what is over.
func (t *tallies) turn(now time.Time) {
	for i := range t {
		if since := now.Unix() - now.Unix()%lengths[i]; t[i].since != since {
			t[i] = tally{since: since}
		}
	}
}

// keys of the periods of the hour and the day, among those of usage_counters.
func (t *tallies) keys() (hour, day string) {
	return "p:" + time.Unix(t[1].since, 0).UTC().Format("2006-01-02T15"), "p:" + dayOf(time.Unix(t[2].since, 0))
}

// stores says whether a plan limits what is counted over nodes.
func stores(l *quota.Limits) bool { return l.RequestsPerHour != nil || l.RequestsPerDay != nil }

// MayProxy implements quota.Proxy. Requests are counted as they are let through:
// exactly on one node; what other nodes let through is known within a second.
func (s *Service) MayProxy(ctx context.Context, tenant string, target *model.Target) error {
	v, err := s.standing(ctx, tenant)
	if err != nil {
		return err
	}
	if target != nil && !v.plan.Allows(target.Provider, target.Model) {
		return fault.New(fault.Forbidden, quota.CodeModel, "The company's plan does not have the model %s/%s. GET /api/v1/llm/models lists those that there are; an operator changes plans.",
			target.Provider, target.Model)
	}
	now := s.Clock.Now()
	if err := v.mayAsk(now); err != nil {
		return err
	}
	st := s.of(tenant)
	if stores(&v.plan.Limits) {
		if err := s.readRequests(ctx, tenant, st, now); err != nil {
			return err
		}
		defer s.gathered.asked(tenant)
	}
	return st.letThrough(&v.plan.Limits, now)
}

func (st *standing) letThrough(l *quota.Limits, now time.Time) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.requests.turn(now)
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

// readRequests reads what all nodes stored, where that is not known freshly.
func (s *Service) readRequests(ctx context.Context, tenant string, st *standing, now time.Time) error {
	st.mu.Lock()
	st.requests.turn(now)
	fresh := now.Sub(st.requestsAt) < freshFor && !now.Before(st.requestsAt)
	hour, day := st.requests.keys()
	began := st.requests
	st.mu.Unlock()
	if fresh {
		return nil
	}
	totals, err := s.Store.ListTotals(ctx, tenant, hour, day)
	if err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for i, t := range totals {
		if at := &st.requests[i+1]; at.since == began[i+1].since {
			at.stored = t.Runs // what is stored at this moment may be in it or not: the next reading knows
		}
	}
	st.requestsAt = now
	return nil
}

// unstored gives what waits to be stored, by the periods' keys.
func (st *standing) unstored() (requests map[string]int64, of tallies) {
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

// storedNow notes that what was unstored is stored.
func (st *standing) storedNow(was tallies) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i := 1; i < len(was); i++ {
		if at := &st.requests[i]; at.since == was[i].since {
			at.stored += was[i].waiting
			at.waiting -= was[i].waiting
		}
	}
}
