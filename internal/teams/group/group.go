// Package group holds what teams, missions and initiatives have in common: members
// whose runs are ordinary runs, and events that clients follow.
package group

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
)

// Runs is the port to runs; *run.Service implements it.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Cancel(ctx context.Context, tenant, id string) (run.CancelAnswer, error)
}

// Start starts the run of a member, unless an earlier worker has: the id of the run
// follows from what it is for.
func Start(ctx context.Context, runs Runs, who authz.Caller, req run.Request) error {
	_, err := runs.Create(ctx, who, req)
	if f := fault.From(err); f != nil && f.Kind == fault.Conflict && f.Code == "ALREADY_EXISTS" {
		return nil
	}
	return err
}

// Refused reports whether an error of Start is a refusal, which a repetition does not
// change.
func Refused(err error) bool {
	f := fault.From(err)
	return f != nil && f.Kind != fault.Internal && f.Kind != fault.Unavailable
}

// Result returns the text of a run that has ended; of one that did not complete,
// why, in one sentence.
func Result(r *run.Run) (text, sentence string, err error) {
	if r.Status == run.Completed {
		var out run.Output
		err = json.Unmarshal(r.Output, &out)
		return out.Text, "", err
	}
	if r.Error != nil && *r.Error != "" {
		return "", *r.Error, nil
	}
	return "", "Its run ended as " + string(r.Status) + ".", nil
}

// Object reads the JSON object in a text that may have words around it, and reports
// whether there is one that fits.
func Object(text string, into any) bool {
	start, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	return start >= 0 && end > start && json.Unmarshal([]byte(text[start:end+1]), into) == nil
}

// Given is what one agent gives another to do.
type Given struct {
	AgentID string // that it is given to
	Message string
	Sources []string // untrusted ones that the message may have content of
}

// Judge asks the rules of the company whether an agent may give another one a
// message. record, if not nil, is for the transaction that stores what follows.
// Errors: fault.Forbidden where a rule forbids it.
func Judge(ctx context.Context, g policy.Governor, of policy.Run, given Given) (record txn.Op, err error) {
	if g == nil {
		return nil, nil
	}
	arguments, err := json.Marshal(map[string]string{"agent_id": given.AgentID, "message": given.Message})
	if err != nil {
		return nil, err
	}
	ruling, err := g.Judge(ctx, of, policy.Act{Actions: []string{"delegate", "message"}, Arguments: arguments, Sources: given.Sources})
	if err != nil {
		return nil, err
	}
	if len(ruling.Findings) > 0 {
		record = func(tx txn.Tx) error { return g.RecordTx(tx, of, ruling) }
	}
	if ruling.Effect >= policy.Approve {
		err = fault.New(fault.Forbidden, run.CodePolicyBlocked, "A rule of the company forbids this agent the task. %s", ruling.Reason())
	}
	return record, err
}
