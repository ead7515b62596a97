package agent

import (
	"crypto/rand"
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/txn"
)

// Traffic is how new runs of an agent are divided among its versions.
type Traffic struct {
	_ struct{} `json:"-" name:"AgentTraffic"`

	Entries   []TrafficEntry  `json:"entries" required:"true"`
	UpdatedAt time.Time       `json:"updated_at" required:"true"`
	Rollout   *TrafficRollout `json:"rollout,omitzero" doc:"How it is decided which version stays; absent: people decide."`
}

// TrafficEntry is the share of a version.
type TrafficEntry struct {
	_ struct{} `json:"-" name:"AgentTrafficEntry"`

	Version int64   `json:"version" required:"true" minimum:"1" doc:"Number of a version of the agent."`
	Weight  float64 `json:"weight" required:"true" minimum:"0" maximum:"100" doc:"Percent of the new runs that use it. All weights together are 100."`
}

// TrafficRollout decides which of two versions stays, by their results.
type TrafficRollout struct {
	_ struct{} `json:"-" name:"AgentTrafficRollout"`

	Candidate int64  `json:"candidate_version" required:"true" minimum:"1" doc:"The version that is tried; the other one is the baseline."`
	Metric    string `json:"metric" enum:"success_rate,duration_ms,cost_usd" default:"success_rate" doc:"What is compared: the share of runs that complete, or the mean duration or cost of those that do."`
	MinRuns   int    `json:"min_runs" minimum:"20" maximum:"5000" default:"100" doc:"How many ended runs of each version the decision needs. At a quarter and a half of them it is looked whether the candidate is worse already."`
	Promote   string `json:"promote" enum:"better,not_worse,manual" default:"not_worse" doc:"When the candidate gets all runs: better, if it is significantly better; not_worse, unless it is significantly worse; manual, a person decides. A candidate that is significantly worse always loses all runs."`
	Looks     int    `json:"looks" readOnly:"true" doc:"How often the versions were compared, up to 3."`
	Outcome   string `json:"outcome,omitzero" readOnly:"true" enum:"promoted,rolled_back,undecided" doc:"How it ended; absent while it goes on."`
	Reason    string `json:"reason,omitzero" readOnly:"true" doc:"Why, in one sentence."`
}

// Choose returns the version of a new run: in a session always the same one while the
// entries stay, and otherwise one by chance. The session of nobody is "". 0: there is no
// entry.
func (t *Traffic) Choose(session string) int64 {
	if t == nil || len(t.Entries) == 0 {
		return 0
	}
	at := 100 * share(session)
	for _, e := range t.Entries {
		if at -= e.Weight; at < 0 {
			return e.Version
		}
	}
	last := slices.IndexFunc(t.Entries, func(e TrafficEntry) bool { return e.Weight > 0 })
	return t.Entries[max(last, 0)].Version // by rounding nothing was chosen
}

// share returns a number from 0 up to 1: of a session always the same one.
func share(session string) float64 {
	var n uint64
	if session == "" {
		var b [8]byte
		rand.Read(b[:]) // never fails
		n = binary.BigEndian.Uint64(b[:])
	} else {
		h := fnv.New64a()
		h.Write([]byte(session)) // never fails
		n = mix(h.Sum64())
	}
	return float64(n>>11) / math.Exp2(53)
}

// mix spreads the bits of a hash whose upper ones differ little between similar ids: the
// finalizer of SplitMix64.
func mix(n uint64) uint64 {
	n ^= n >> 30
	n *= 0xbf58476d1ce4e5b9
	n ^= n >> 27
	n *= 0x94d049bb133111eb
	return n ^ n>>31
}

// Uses reports whether new runs may use a version.
func (t *Traffic) Uses(version int64) bool {
	return t != nil && slices.ContainsFunc(t.Entries, func(e TrafficEntry) bool { return e.Version == version })
}

// SetTrafficTx changes how new runs are divided among versions. Errors: fault.NotFound.
func (a *Agents) SetTrafficTx(tx txn.Tx, who authz.Caller, id string, change func(g *Agent) error) (*Agent, error) {
	return a.store.AmendTx(tx, who, id, "traffic_set", change)
}

// versionInUse reports whether a version is kept: new runs may use it, or one that has not
// ended does.
func (a *Agents) versionInUse(
	byRuns func(tx txn.Tx, tenant, id string, version int64) (bool, error),
) func(tx txn.Tx, tenant, id string, version int64) (bool, error) {
	return func(tx txn.Tx, tenant, id string, version int64) (bool, error) {
		g, err := a.store.GetTx(tx, tenant, id)
		if err != nil || g.Traffic.Uses(version) {
			return err == nil, err
		}
		if byRuns == nil {
			return false, nil
		}
		return byRuns(tx, tenant, id, version)
	}
}
