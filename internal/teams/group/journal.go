package group

import (
	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/event"
)

// Told is an event of a group as others see it.
type Told struct {
	TenantID string
	GroupID  string
	TeamID   string // "": the group is not the run of a team
	Seq      int64
	Event    event.Entry
}

// Teller receives events of groups in the commit that makes them true, which may run
// again.
type Teller func(tx txn.Tx, t Told) error

// Journal collects the events of a group until the commit that makes them true. It
// belongs to whoever holds the group.
type Journal struct {
	Log    event.Log
	Hub    *event.Hub
	Clock  clock.Clock
	Tenant string
	Stream string // id of the group
	Seq    *int64 // of the group's last event; stored with the group
	Tell   Teller // nil: nobody is notified
	TeamID string // of the run of a team, for Tell

	entries []event.Entry
}

// Emit adds an event. data is encoded as JSON.
func (j *Journal) Emit(name string, data any) {
	enc, err := json.Marshal(data, json.Deterministic(true))
	if err != nil {
		enc = []byte("{}")
	}
	*j.Seq++
	j.entries = append(j.entries, event.Entry{Name: name, At: j.Clock.Now(), Data: enc})
}

// AppendTx stores what was collected, in the commit that makes it true. It may be
// called again, as its transaction may.
func (j *Journal) AppendTx(tx txn.Tx) error {
	if len(j.entries) == 0 {
		return nil
	}
	if err := j.Log.Append(j.Tenant, j.Stream, event.Segment{First: j.first(), Entries: j.entries})(tx); err != nil || j.Tell == nil {
		return err
	}
	for i, e := range j.entries {
		if err := j.Tell(tx, Told{j.Tenant, j.Stream, j.TeamID, j.first() + int64(i), e}); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) first() int64 { return *j.Seq - int64(len(j.entries)) + 1 }

// Publish sends what was collected to those who follow the group, after the commit.
// final: nothing comes after it.
func (j *Journal) Publish(final bool) {
	if len(j.entries) == 0 {
		return
	}
	b := event.Batch{Stream: j.Stream, Prev: j.first() - 1, Final: final}
	for i, e := range j.entries {
		b.Events = append(b.Events, event.Event{Seq: j.first() + int64(i), Name: e.Name, At: e.At, Data: e.Data})
	}
	j.Hub.Publish(b)
	j.entries = nil
}
