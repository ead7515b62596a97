package usage

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
)

// EventKind is the resource.Change.Kind of events. The change's ID is that of
// the event, and its Action is Threshold or Exceeded. Subscribers read the event
// with [Service.Event].
const EventKind = "quota"

// Actions of the changes.
const (
	Threshold = "threshold"
	Exceeded  = "exceeded"
)

// warnAt is the percentage of a plan's limit at which people are notified.
const warnAt = 80

// BudgetResource is the Resource of events of budgets. Their amounts are in
// billionths of a US dollar.
const BudgetResource quota.Resource = "budget_usd"

// Event records that a counter or a budget passed a mark: the warning threshold
// or the limit.
type Event struct {
	TenantID  string
	ID        string
	Type      string // quota.threshold | quota.exceeded
	Resource  quota.Resource
	Period    string
	Used      int64
	Limit     int64
	ResetsAt  time.Time
	CreatedAt time.Time
}

// Percent returns how much of the limit is used, rounded down.
func (e *Event) Percent() int64 {
	if e.Limit <= 0 {
		return 100
	}
	return int64(float64(e.Used) / float64(e.Limit) * 100)
}

// Data returns the payload of the event's webhooks.
func (e *Event) Data() jsontext.Value {
	amount := func(n int64) float64 {
		if e.Resource == BudgetResource {
			return float64(n) / 1e9
		}
		return float64(n)
	}
	text, err := json.Marshal(struct {
		Resource quota.Resource `json:"resource"`
		Used     float64        `json:"used"`
		Limit    float64        `json:"limit"`
		Percent  int64          `json:"percent"`
		ResetsAt time.Time      `json:"resets_at"`
	}{e.Resource, amount(e.Used), amount(e.Limit), e.Percent(), e.ResetsAt})
	if err != nil {
		panic(err) // our own types always encode
	}
	return text
}

// recordEvents stores an event for each mark that a transaction's totals have
// passed, unless there is one already.
func (s *meter) recordEvents(tx txn.Tx, tenant string, st *tenantState, v *view, now time.Time) error {
	for _, e := range v.passed(now) {
		key := fmt.Sprintf("%s/%s/%s/%d", e.Type, e.Resource, e.Period, e.Limit)
		if st.seen(key) {
			continue
		}
		e.TenantID, e.ID, e.CreatedAt = tenant, ident.New(), now
		added, err := s.store.CreateEventTx(tx, e)
		if err != nil {
			return err
		}
		if added {
			action := Exceeded
			if e.Type == TypeThreshold {
				action = Threshold
			}
			err := s.outbox.Append(tx, resource.Change{
				Kind: EventKind, Action: action, TenantID: tenant, ID: e.ID, Name: string(e.Resource), Version: 1, At: now,
			})
			if err != nil {
				return err
			}
		}
		tx.AfterCommit(func() { st.markSeen(key) })
	}
	return nil
}

// Types of events.
const (
	TypeThreshold = "quota.threshold"
	TypeExceeded  = "quota.exceeded"
)

// passed returns an event for each mark that a view has passed.
func (v *view) passed(now time.Time) (all []Event) {
	add := func(past bool, e Event, kind string) {
		if past {
			e.Type = kind
			all = append(all, e)
		}
	}
	for _, r := range quota.Refilling {
		limit := v.plan.Limits.Of(r)
		if limit == nil || *limit == 0 { // a limit of 0 has no percentage
			continue
		}
		period := v.month
		if r.Period() == quota.Day {
			period = v.day
		}
		e := Event{Resource: r, Period: period, Used: v.of(r), Limit: *limit, ResetsAt: r.Period().End(now)}
		add(float64(e.Used) >= float64(e.Limit)*warnAt/100, e, TypeThreshold)
		add(e.Used >= e.Limit, e, TypeExceeded)
	}
	if b := v.budget; b != nil {
		from, to := b.Period.bounds(now)
		e := Event{Resource: BudgetResource, Period: string(b.Period) + "/" + dayOf(from), Used: v.spent(), Limit: b.LimitNano, ResetsAt: to}
		add(e.Used >= b.mark(b.Soft), e, TypeThreshold)
		add(e.Used >= b.mark(b.Hard), e, TypeExceeded)
	}
	return all
}

func (st *tenantState) seen(key string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.seenEvents[key]
}

func (st *tenantState) markSeen(key string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.seenEvents[key] = true
}
