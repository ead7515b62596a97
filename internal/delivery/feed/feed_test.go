package feed_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/feed"
	"agentd/internal/delivery/feed/feedsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestReadTold keeps what groups tell once, and finds it by time, group and type, of one
// company. Every combination of filters is read, so that its plan is looked at.
func TestReadTold(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := feedsql.New(db)
		for i := range 30 {
			told := feed.Told{
				TenantID: "acme", At: noon.Add(time.Duration(i/2) * time.Second), ID: fmt.Sprintf("e%02d", i), Type: feed.TickStart, CompanyID: "c1",
				Body: feed.Body{Summary: fmt.Sprint(i)},
			}
			if i%3 == 0 {
				told.Type, told.CompanyID, told.TeamID = feed.RoundStart, "", "t1"
			}
			for range 2 { // a transaction may run again
				if err := db.Write(t.Context(), func(tx txn.Tx) error { return s.AppendTx(tx, told) }); err != nil {
					t.Fatal(err)
				}
			}
		}
		count := func(tenant string, q feed.Query) (n int) {
			q.Limit = 100
			parts, err := s.Read(t.Context(), tenant, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range parts {
				n += len(p.Entries)
			}
			return n
		}
		for name, c := range map[string]struct {
			q    feed.Query
			want int
		}{
			"all":             {feed.Query{}, 30},
			"initiative":      {feed.Query{CompanyID: "c1"}, 20},
			"team":            {feed.Query{TeamID: "t1"}, 10},
			"team, other":     {feed.Query{TeamID: "t2"}, 0},
			"agent":           {feed.Query{AgentID: "a"}, 0},
			"type":            {feed.Query{Types: []string{feed.RoundStart}}, 10},
			"type of others":  {feed.Query{Types: []string{feed.RunFailed, feed.AgentCreated}}, 0},
			"since":           {feed.Query{Since: noon.Add(10 * time.Second)}, 10},
			"before":          {feed.Query{Before: noon.Add(10 * time.Second)}, 22},
			"type and team":   {feed.Query{TeamID: "t1", Types: []string{feed.TickStart}}, 0},
			"agent, since":    {feed.Query{AgentID: "a", Since: noon, Before: noon}, 0},
			"both groups":     {feed.Query{TeamID: "t1", CompanyID: "c1"}, 0},
			"type and before": {feed.Query{CompanyID: "c1", Types: []string{feed.TickStart}, Before: noon}, 1},
		} {
			if got := count("acme", c.q); got != c.want {
				t.Errorf("%s: %d entries, want %d", name, got, c.want)
			}
		}
		if got := count("other", feed.Query{}); got != 0 {
			t.Errorf("another company reads %d entries", got)
		}
		short, err := s.Read(t.Context(), "acme", feed.Query{Limit: 5, Types: []string{feed.RoundStart}, CompanyID: ""})
		if err != nil || len(short) != 1 || len(short[0].Entries) < 5 || short[0].Entries[0].ID != "e27" {
			t.Errorf("%v, %v", short, err)
		}
	})
}

// names knows one team.
type names struct{}

func (names) AgentName(context.Context, string, string) (string, error) {
	return "", fault.NewNotFound("agent")
}
func (names) TeamName(context.Context, string, string) (string, error) { return "The team", nil }
func (names) InitiativeName(context.Context, string, string) (string, error) {
	return "", fault.NewNotFound("initiative")
}

// parts is a store with given parts.
type parts []feed.Part

func (p parts) Read(context.Context, string, feed.Query) ([]feed.Part, error) { return p, nil }

// TestOrderOfSources shows nothing that is older than where a source stopped, and goes on
// there.
func TestOrderOfSources(t *testing.T) {
	t.Parallel()
	at := func(seconds int, id, kind string) feed.Entry {
		e := feed.Entry{ID: id, Type: kind, At: noon.Add(time.Duration(seconds) * time.Second)}
		if strings.HasPrefix(kind, "team.") {
			e.TeamID = "t"
		}
		return e
	}
	s := &feed.Service{Names: names{}, Store: parts{
		{Entries: []feed.Entry{at(9, "nine", feed.RoundStart), at(3, "three", feed.RunFailed)}, Until: noon.Add(3 * time.Second)},
		{Entries: []feed.Entry{at(5, "five", feed.RoundEnd), at(1, "one", feed.TickEnd)}},
	}}
	entries, next, err := s.ReadPage(t.Context(), "acme", feed.Query{Limit: 10}, feed.Position{})
	var all []string
	for i := range entries {
		all = append(all, entries[i].ID+": "+entries[i].Title)
	}
	want := "nine: The team began a round, five: The team ended its last round, three: A run of something that was deleted failed"
	if got := strings.Join(all, ", "); err != nil || got != want || !next.At.Equal(noon.Add(3*time.Second)) {
		t.Errorf("%s, then %v, %v", got, next, err)
	}
	entries, next, err = s.ReadPage(t.Context(), "acme", feed.Query{Limit: 1}, feed.Position{At: noon.Add(9 * time.Second), ID: "nine"})
	if err != nil || len(entries) != 1 || entries[0].ID != "five" || next.ID != "five" {
		t.Errorf("%v, then %v, %v", entries, next, err)
	}
}
