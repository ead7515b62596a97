package sqldb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A list by labels walks the rows of the one that the fewest have, or another
// filter's index where these are many.
func TestListsByLabelsWalkTheFewest(t *testing.T) {
	t.Parallel()
	type filter struct {
		Status []string  `filter:"status IN (?)" index:"runs_status"`
		After  time.Time `filter:"created_at >= ?" index:"primary key"`
	}
	filters := sqldb.FiltersOf[filter]()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		labels, tenant := sqldb.Labels{Table: `run_labels`, ID: `run_id`}, ident.New()
		for i := range 1100 {
			metadata := fmt.Sprintf(`{"channel":"web","order":"%d","shop":"one"}`, i)
			if err := db.Write(t.Context(), labels.Insert(tenant, ident.New(), time.Now(), []byte(metadata))); err != nil {
				t.Fatal(err)
			}
		}
		failed, since := filter{Status: []string{"failed"}}, filter{After: time.Now()}
		for _, c := range []struct {
			labels map[string]string
			filter filter
			want   string // the label that is walked; "": no label is
		}{
			{map[string]string{"channel": "web"}, filter{}, "channel"},
			{map[string]string{"channel": "web"}, since, "channel"},
			{map[string]string{"channel": "web"}, failed, ""},
			{map[string]string{"order": "7"}, failed, "order"},
			{map[string]string{"channel": "web", "order": "7"}, filter{}, "order"},
			{map[string]string{"channel": "web", "order": "7"}, failed, "order"},
			{map[string]string{"channel": "web", "shop": "one"}, failed, ""},
			{map[string]string{"channel": "web", "shop": "one"}, filter{}, "channel"},
			{map[string]string{"order": "none", "channel": "none"}, failed, "channel"},
			{nil, failed, ""},
		} {
			from, args, err := filters.SelectBy(t.Context(), db, labels, c.labels, `runs`, tenant, &c.filter, page.Window{Limit: 5})
			if err != nil {
				t.Fatal(err)
			}
			walked := ""
			if strings.HasPrefix(from, `(SELECT`) {
				walked = args[1].(string)
			}
			if walked != c.want {
				t.Errorf("%v with %+v walks %q, not %q:\n%s", c.labels, c.filter, walked, c.want, from)
			}
			rows, err := db.Query(t.Context(), `SELECT run_id FROM `+from, args...)
			if err != nil {
				t.Errorf("%s: %v", from, err)
				continue
			}
			rows.Close()
		}
	})
}
