package opconfig

import (
	"time"

	"agentd/internal/base/route"
	"agentd/internal/execution/run"
	"agentd/internal/operation/setting"
)

// durability is the sections about what of a run is stored, and how long runs wait.
type durability struct {
	persistence *setting.Section[Persistence]
	long        *setting.Section[LongRunning]
}

// firstDurability is what holds until the operator sets something else.
func firstDurability() (Persistence, LongRunning) {
	d := run.FirstDefaults()
	return Persistence{SnapshotMS: 50}, LongRunning{
		ApprovalMS: d.ApprovalTimeout.Milliseconds(), ModelWaitMS: d.ModelWait.Milliseconds(), Steps: d.MaxSteps,
	}
}

func (d *durability) addTo(s *setting.Service) {
	stored, long := firstDurability()
	d.persistence = setting.Add(s, &setting.Section[Persistence]{Name: "persistence", Initial: stored})
	d.long = setting.Add(s, &setting.Section[LongRunning]{Name: "long-running", Initial: long})
}

// Persistence is how soon what happens in a step is stored. The result of each step is
// stored before the next one begins, whatever is set.
type Persistence struct {
	_ struct{} `json:"-" name:"AdminConfigPersistence"`

	SnapshotMS int64 `json:"snapshot_interval_ms" minimum:"10" maximum:"60000" doc:"Milliseconds after which text that a model is still writing is stored. More means fewer writes to the database; text that is not stored is lost if the node dies, and its step is done again."`
}

// SnapshotEvery returns after how long text of a running step is stored.
func (d *durability) SnapshotEvery() time.Duration {
	return time.Duration(d.persistence.Get().SnapshotMS) * time.Millisecond
}

// LongRunning is for how long runs go on and wait whose agents do not say.
type LongRunning struct {
	_ struct{} `json:"-" name:"AdminConfigLongRunning"`

	ApprovalMS  int64 `json:"default_approval_timeout_ms" minimum:"1000" maximum:"31536000000" doc:"Milliseconds that an approval, a question or an authorization waits for a person, of agents without policies.approval_timeout_ms. It holds for waits that begin from now on."`
	ModelWaitMS int64 `json:"default_model_wait_ms" minimum:"0" maximum:"86400000" doc:"Milliseconds that a step waits for a model that is down or overloaded, of agents without model_retry.max_elapsed_ms; 0: a failure ends the run."`
	Steps       int64 `json:"default_max_steps" minimum:"1" maximum:"100000" doc:"Steps of runs without resource_limits.max_steps, also of those under way. runtime.max_steps is a cap on all runs."`
}

// RunDefaults returns for how long runs go on and wait whose agents do not say.
func (d *durability) RunDefaults() run.Defaults {
	l := d.long.Get()
	return run.Defaults{
		ApprovalTimeout: time.Duration(l.ApprovalMS) * time.Millisecond, ModelWait: time.Duration(l.ModelWaitMS) * time.Millisecond,
		MaxSteps: l.Steps,
	}
}

// durabilityRoutes returns the operations of these sections. Their ids are those of the
// reference.
func (d *durability) durabilityRoutes() (all []route.Route) {
	all = setting.Routes(d.persistence, setting.Published[Persistence]{
		Name: "persistence", GetID: "getAdminPersistenceConfig", PutID: "updateAdminPersistenceConfig", What: "how soon text is stored",
		Doc:     "How soon what a model is writing is stored. The result of a step always is before the next step begins.",
		Example: `{"snapshot_interval_ms": 50}`,
	})
	all = append(all, setting.Routes(d.long, setting.Published[LongRunning]{
		Name: "long-running", GetID: "getAdminLongRunningConfig", PutID: "updateAdminLongRunningConfig", What: "how long runs wait and go on",
		Doc:     "For how long runs wait for people and for models, and how many steps they take, if their agents do not say.",
		Example: `{"default_max_steps": 200}`,
	})...)
	for i := range all {
		all[i].Tag = "Admin Config"
	}
	return all
}
