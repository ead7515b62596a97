package live

import (
	"reflect"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/route"
	"agentd/internal/execution/session"
)

type (
	readyData struct {
		Event       string    `json:"event"`
		LastEventID string    `json:"last_event_id" doc:"Where the stream begins."`
		Kinds       []string  `json:"kinds" doc:"Kinds whose changes are sent."`
		Timestamp   time.Time `json:"timestamp"`
	}
	changedData struct {
		Event   string         `json:"event"`
		Kind    string         `json:"kind" doc:"What has changed: run, session, approval, notification, agent or another kind of resource."`
		ID      string         `json:"id" doc:"Its id."`
		Op      string         `json:"op" doc:"created, updated, deleted, or the name of the action that moved it to another state."`
		Version int64          `json:"version,omitzero" doc:"Of a kind that has versions: that of the row."`
		At      time.Time      `json:"at" doc:"When the row was read."`
		Row     jsontext.Value `json:"row,omitzero" doc:"The thing as its list shows it with fields=summary; absent after a deletion."`
	}
	gapData struct {
		Event  string `json:"event"`
		Reason string `json:"reason" doc:"Why, for a person."`
	}
	countsData struct {
		Event  string         `json:"event"`
		Runs   map[string]any `json:"runs,omitzero" doc:"How many runs are in each state in which they have not ended, up to 1,000 each."`
		Inbox  map[string]any `json:"inbox,omitzero" doc:"How many things of each kind wait for a person, up to 1,000 each."`
		Unread map[string]any `json:"unread,omitzero" doc:"How many notifications the caller has not read."`
	}
)

// Events are the messages of the stream.
var Events = route.Events{Name: "ChangeEvent", Tag: "event", Also: session.Published(), Of: []route.Event{
	{Name: "ready", Data: reflect.TypeFor[readyData](), Doc: "The stream is open."},
	{
		Name: "changed", Data: reflect.TypeFor[changedData](),
		Doc: "Something was created, changed or deleted: at most four times a second for one thing, with its newest state.",
	},
	{Name: "counts", Data: reflect.TypeFor[countsData](), Doc: "Numbers that have changed, at most once a second."},
	{Name: "gap", Data: reflect.TypeFor[gapData](), Doc: "Changes are missing here: load the lists that you show again."},
}}

// Routes returns the operations.
func (s *Service) Routes() []route.Route {
	return []route.Route{
		route.Stream(route.Row{
			Method: "GET", Path: "/api/v1/changes/stream", ID: "streamChanges", Tag: "Changes",
			Summary: "Stream what changes in your company",
			Doc: "One stream for everything that a page shows. `changed` has the new row of what was created, changed or deleted; " +
				"each kind needs the scope that its list needs. `counts` has numbers for badges. The events of the runs and sessions that " +
				"`follow` names are those of their own streams, without an SSE id. Last-Event-ID resumes for a minute after the end; " +
				"later, and after a loss, `gap` says that lists are to be loaded again.",
			Errors: []int{400, 404}, Events: &Events,
		}, s.open),
	}
}
