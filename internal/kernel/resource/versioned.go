package resource

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

// Versions declares that a kind's configuration is recorded with every
// creation and update. T has two fields for it beside the configuration:
//
//	VersionNo string `json:"version" readOnly:"true"` // of the newest version
//	Changelog string `json:"-"`                       // names the version that an update records
type Versions[T any] struct {
	Config    func(*T) any     // points to the struct that versions record: a part of T, embedded in it
	Number    func(*T) *string // points to VersionNo
	Changelog func(*T) *string // points to Changelog
	Keep      int              // newest versions that are kept; default 50
	// InUse reports whether a version is used, and is kept beyond Keep. nil: none is.
	InUse func(tx txn.Tx, tenant, id string, number int64) (bool, error)
	Keys  []string // deprecated names under which the list repeats its items
}

// The changelogs of versions whose creator gave none.
const (
	initialVersion  = "Initial version"
	versionBefore   = "Auto-versioned before update"
	versionAfter    = "Auto-versioned after update"
	versionRollback = "Rollback to version %d"
	versionManual   = "Manual snapshot"
)

// Versioned is a [Store] whose resources have versions. [NewVersioned] returns
// one; [VersionRoutes] lists the operations on versions.
//
// Versions are documents of a hidden kind (Name + "_version"), without routes,
// changes or events of their own. They are written in the transaction of the
// change that they record, and deleted with their resource.
type Versioned[T any] struct {
	*Store[T]
	Versions[T]
	docs  *Store[versionDoc]
	types versionTypes
}

// versionDoc is a version as it is stored.
type versionDoc struct {
	Meta  `json:"-"`
	Owner map[string]string `json:",inline"` // the resource's id, under Kind.IDField

	Number    int64         `json:"version"`
	Changelog string        `json:"changelog"`
	CreatedBy string        `json:"created_by"`
	Config    schema.Object `json:"config"`
}

// Version is a recorded configuration.
type Version struct {
	ID         string
	ResourceID string
	TenantID   string
	Number     int64
	Changelog  string
	CreatedAt  time.Time
	CreatedBy  string // user id
	Config     schema.Object
}

// NewVersioned returns the store of a kind with versions. The kind's own hooks
// run before the one that records a version. It panics when NewStore does.
func NewVersioned[T any](k Kind[T], versions Versions[T], deps Deps) *Versioned[T] {
	versions.Keep = cmp.Or(versions.Keep, 50)
	v := &Versioned[T]{Versions: versions}
	k.Before = inOrder(k.Before, v.before)
	k.After = inOrder(k.After, v.after)
	v.Store = NewStore(k, deps)
	owner := func(d *versionDoc) string { return d.Owner[v.IDField] }
	quiet := deps
	quiet.Outbox = NoOutbox{}
	v.docs = NewStore(Kind[versionDoc]{
		Name:    k.Name + "_version",
		Indexes: []Index[versionDoc]{{Name: "owner", Of: owner}},
		Unique:  Index[versionDoc]{Name: "number", Of: func(d *versionDoc) string { return versionKey(owner(d), d.Number) }},
	}, quiet)
	v.types = v.publishVersions()
	return v
}

// inOrder returns a hook that calls others in order until one fails.
func inOrder[T any](hooks ...func(*Edit[T]) error) func(*Edit[T]) error {
	return func(e *Edit[T]) error {
		for _, hook := range hooks {
			if hook == nil {
				continue
			}
			if err := hook(e); err != nil {
				return err
			}
		}
		return nil
	}
}

func versionKey(id string, number int64) string { return id + "/" + strconv.FormatInt(number, 10) }

// before sets the number of the version that a write will record.
func (v *Versioned[T]) before(e *Edit[T]) error {
	switch e.Action {
	case Created:
		*v.Number(e.New) = "1"
	case Updated:
		newest, err := v.newest(e)
		if err != nil {
			return err
		}
		*v.Number(e.New) = strconv.FormatInt(newest+1, 10)
	}
	return nil
}

// newest returns the number of the version that records the resource as it is
// before an update. If the newest version differs from the resource, as after a
// write that recorded none, newest records one first.
func (v *Versioned[T]) newest(e *Edit[T]) (int64, error) {
	number, err := strconv.ParseInt(*v.Number(e.Old), 10, 64)
	if err != nil {
		return 0, err
	}
	old := metaOf(e.Old)
	newest, err := v.findTx(e.Tx, old.TenantID, old.ID, number)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return 0, err
	}
	if newest != nil {
		if same, err := v.records(newest, e.Old); same || err != nil {
			return number, err
		}
	}
	return number + 1, v.recordTx(e.Tx, e.Who, e.Old, number+1, versionBefore)
}

// records reports whether a version holds the configuration of t.
func (v *Versioned[T]) records(d *versionDoc, t *T) (bool, error) {
	recorded := reflect.New(reflect.TypeOf(v.Config(t)).Elem()).Interface()
	if err := json.Unmarshal(d.Config, recorded); err != nil {
		return false, err
	}
	one, err := json.Marshal(recorded)
	if err != nil {
		return false, err
	}
	two, err := json.Marshal(v.Config(t))
	return bytes.Equal(one, two), err
}

// after records the configuration that a write stored.
func (v *Versioned[T]) after(e *Edit[T]) error {
	switch e.Action {
	case Created:
		return v.recordTx(e.Tx, e.Who, e.New, 1, initialVersion)
	case Updated:
		number, err := strconv.ParseInt(*v.Number(e.New), 10, 64)
		if err != nil {
			return err
		}
		return v.recordTx(e.Tx, e.Who, e.New, number, cmp.Or(*v.Changelog(e.New), versionAfter))
	case Deleted:
		return v.deleteTx(e.Tx, e.Who, metaOf(e.Old))
	}
	return nil
}

// recordTx writes a version, and deletes the one that is then beyond Keep.
func (v *Versioned[T]) recordTx(tx txn.Tx, who authz.Caller, t *T, number int64, changelog string) error {
	config, err := json.Marshal(v.Config(t))
	if err != nil {
		return err
	}
	m := metaOf(t)
	err = v.docs.CreateTx(tx, who, &versionDoc{
		Owner: map[string]string{v.IDField: m.ID}, Number: number, Changelog: changelog, CreatedBy: who.UserID, Config: config,
	})
	if err != nil || number <= int64(v.Keep) {
		return err
	}
	if number%sweepEvery == 0 {
		return v.sweepTx(tx, who, m, number-int64(v.Keep))
	}
	old, err := v.findTx(tx, m.TenantID, m.ID, number-int64(v.Keep))
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return v.dropTx(tx, who, m, old)
}

// sweepEvery is after how many versions those are looked at again that were kept
// because they were in use.
const sweepEvery = 10

// sweepTx deletes the versions up to a number that are not in use.
func (v *Versioned[T]) sweepTx(tx txn.Tx, who authz.Caller, m *Meta, upTo int64) error {
	all, err := v.docs.ListTx(tx, m.TenantID, Find{Where: map[string]string{"owner": m.ID}, Limit: maxKept})
	for _, d := range all {
		if err == nil && d.Number <= upTo {
			err = v.dropTx(tx, who, m, d)
		}
	}
	return err
}

// maxKept bounds how many versions of a resource are read in one step.
const maxKept = 500

// dropTx deletes a version unless it is in use.
func (v *Versioned[T]) dropTx(tx txn.Tx, who authz.Caller, m *Meta, d *versionDoc) error {
	if v.InUse != nil {
		if used, err := v.InUse(tx, m.TenantID, m.ID, d.Number); err != nil || used {
			return err
		}
	}
	return v.docs.DeleteTx(tx, who, d.ID)
}

// deleteTx removes all versions of a resource.
func (v *Versioned[T]) deleteTx(tx txn.Tx, who authz.Caller, m *Meta) error {
	all, err := v.docs.ListTx(tx, m.TenantID, Find{Where: map[string]string{"owner": m.ID}, Limit: maxKept})
	for _, d := range all {
		if err == nil {
			err = v.docs.DeleteTx(tx, who, d.ID)
		}
	}
	return err
}

func (v *Versioned[T]) allOf(id string) Find {
	return Find{Where: map[string]string{"owner": id}, Limit: 2 * v.Keep}
}

func (v *Versioned[T]) findTx(tx txn.Tx, tenant, id string, number int64) (*versionDoc, error) {
	return v.only(v.docs.ListTx(tx, tenant, Find{Unique: versionKey(id, number), Limit: 1}))
}

func (v *Versioned[T]) only(found []*versionDoc, err error) (*versionDoc, error) {
	if err == nil && len(found) == 0 {
		err = fault.NewNotFound("version of " + v.one())
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

func (v *Versioned[T]) version(d *versionDoc) Version {
	return Version{
		ID: d.ID, ResourceID: d.Owner[v.IDField], TenantID: d.TenantID, Number: d.Number,
		Changelog: d.Changelog, CreatedAt: d.CreatedAt, CreatedBy: d.CreatedBy, Config: d.Config,
	}
}

// GetVersion reads a version. Errors: fault.NotFound, also for a version that is
// no longer kept.
func (v *Versioned[T]) GetVersion(ctx context.Context, tenant, id string, number int64) (Version, error) {
	d, err := v.only(v.docs.List(ctx, tenant, Find{Unique: versionKey(id, number), Limit: 1}))
	if err != nil {
		return Version{}, err
	}
	return v.version(d), nil
}

// ListVersions returns the versions of a resource that are kept, newest first.
// Errors: fault.NotFound for the resource.
func (v *Versioned[T]) ListVersions(ctx context.Context, tenant, id string) ([]Version, error) {
	if _, err := v.Read(ctx, tenant, id); err != nil {
		return nil, err
	}
	all, err := v.docs.List(ctx, tenant, v.allOf(id))
	if err != nil {
		return nil, err
	}
	// By number and not by id: nodes whose clocks differ make ids that do not
	// sort as the versions were written.
	slices.SortFunc(all, func(x, y *versionDoc) int { return cmp.Compare(y.Number, x.Number) })
	versions := make([]Version, len(all))
	for i, d := range all {
		versions[i] = v.version(d)
	}
	return versions, nil
}

// snapshot records the configuration as it is now.
func (v *Versioned[T]) snapshot(ctx context.Context, who authz.Caller, id, changelog string) (any, error) {
	return v.answerVersion(ctx, who, id, func(_ txn.Tx, t *T) error {
		*v.Changelog(t) = cmp.Or(changelog, versionManual)
		return nil
	})
}

// rollback restores the configuration of a version, which becomes a new
// version. Fields that did not exist when it was recorded get their defaults.
func (v *Versioned[T]) rollback(ctx context.Context, who authz.Caller, id string, number int64) (any, error) {
	if err := v.CheckRollback(ctx, who.TenantID, id, number); err != nil {
		return nil, err
	}
	return v.answerVersion(ctx, who, id, func(tx txn.Tx, t *T) error {
		old, err := v.findTx(tx, who.TenantID, id, number)
		if err != nil {
			return err
		}
		*v.Changelog(t) = fmt.Sprintf(versionRollback, number)
		return v.restore(t, old)
	})
}

// RollbackTx restores the configuration of a version where the resource is still at
// another version, and returns the number of the version that this makes; 0 if it is at
// another by now. Call CheckRollback before the transaction. Errors: fault.NotFound.
func (v *Versioned[T]) RollbackTx(tx txn.Tx, who authz.Caller, id string, from, to int64) (int64, error) {
	t, err := v.GetTx(tx, who.TenantID, id)
	if err != nil || *v.Number(t) != strconv.FormatInt(from, 10) {
		return 0, err
	}
	old, err := v.findTx(tx, who.TenantID, id, to)
	if err != nil {
		return 0, err
	}
	t, err = v.UpdateTx(tx, who, id, func(t *T) error {
		*v.Changelog(t) = fmt.Sprintf(versionRollback, to)
		return v.restore(t, old)
	})
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(*v.Number(t), 10, 64)
}

// CheckRollback checks the addresses that a rollback would bring back: what the
// company may reach can have changed since.
func (v *Versioned[T]) CheckRollback(ctx context.Context, tenant, id string, number int64) error {
	if v.Addresses == nil {
		return nil
	}
	now, err := v.Get(ctx, tenant, id)
	if err != nil {
		return err
	}
	then, err := v.only(v.docs.List(ctx, tenant, Find{Unique: versionKey(id, number), Limit: 1}))
	if err != nil {
		return err
	}
	restored := *now
	if err := v.restore(&restored, then); err != nil {
		return err
	}
	return v.CheckAddresses(ctx, tenant, now, &restored)
}

func (v *Versioned[T]) restore(t *T, d *versionDoc) error {
	reflect.ValueOf(v.Config(t)).Elem().Set(reflect.ValueOf(v.Config(v.Blank())).Elem())
	members, err := schema.Members([]byte(d.Config))
	if err != nil {
		return err
	}
	for _, m := range members {
		f := v.byName[m.Name]
		if f == nil {
			continue // a field that the configuration had once
		}
		at := f.at(t)
		at.SetZero() // decoding into a default would merge with it
		if err := json.Unmarshal(m.Value, at.Addr().Interface(), stored); err != nil {
			return err
		}
	}
	return nil
}

// answerVersion updates a resource and answers the version that records it, in
// the commit of the update.
func (v *Versioned[T]) answerVersion(ctx context.Context, who authz.Caller, id string, change func(txn.Tx, *T) error) (any, error) {
	var answer any
	err := v.deps.Writer.Write(ctx, func(tx txn.Tx) error {
		t, err := v.UpdateTx(tx, who, id, func(t *T) error { return change(tx, t) })
		if err != nil {
			return err
		}
		number, err := strconv.ParseInt(*v.Number(t), 10, 64)
		if err != nil {
			return err
		}
		recorded, err := v.findTx(tx, who.TenantID, id, number)
		if err != nil {
			return err
		}
		answer = v.shown(v.version(recorded)).Interface()
		return txn.Answer(tx, answer)
	})
	return answer, err
}
