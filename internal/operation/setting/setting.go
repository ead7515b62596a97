// Package setting keeps what the operator sets while the program runs: sections, each a
// typed group of settings with its defaults and its validation. A stored section wins over
// the program's configuration. Its value is read from memory, and a change acts on every
// node within two seconds, without a restart.
//
// A section is a value of [Section], which its area adds to the [Service] and reads by
// [Section.Get]. [Routes] makes its operations.
package setting

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// Refresh is how often a node looks for changes of others whose notification was lost.
const Refresh = time.Second

// Row is a stored section.
type Row struct {
	Section   string
	Version   int64  // 0: nothing is set
	Body      []byte // JSON; empty where Sealed is set
	Sealed    []byte // of sections with secrets
	UpdatedAt time.Time
}

// set reports whether the section has a value: one that was reset has none.
func (r *Row) set() bool { return len(r.Body) > 0 || len(r.Sealed) > 0 }

// Store is the port to stored sections. They are the operator's, so they have no tenant.
type Store interface {
	// ListVersions returns the versions of all sections that were ever set.
	ListVersions(ctx context.Context) (map[string]int64, error)
	// Get returns a section; a row without a version if nothing is set.
	Get(ctx context.Context, section string) (Row, error)
	// LockTx is Get, and locks the section until commit, also one that is not set.
	LockTx(tx txn.Tx, section string) (Row, error)
	// PutTx replaces a section that LockTx locked.
	PutTx(tx txn.Tx, r *Row) error
}

// Deps holds what the service depends on.
type Deps struct {
	Store  Store
	Writer txn.Writer
	Clock  clock.Clock
	Box    *secret.Box
	Audit  audit.Recorder
	Logger *slog.Logger
	// OnChange notifies every node of a change of a section: they call Reload.
	OnChange func(section string)
}

// Service has the sections. Add sections before Load; then it is safe for concurrent use.
type Service struct {
	Deps

	sections map[string]section
}

// section is a Section of any type.
type section interface {
	load(ctx context.Context) error
	version() int64
	// export returns the value without secrets, and whether it is a stored one.
	export() (body jsontext.Value, set bool, err error)
	importTx(tx txn.Tx, who authz.Caller, body jsontext.Value) error
}

// New returns a service without sections.
func New(d Deps) *Service { return &Service{Deps: d, sections: map[string]section{}} }

// Load reads all sections.
func (s *Service) Load(ctx context.Context) error {
	for _, section := range s.sections {
		if err := section.load(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Reload reads a section again that was changed. An error is logged: the value that is in
// use stays, and Serve tries again.
func (s *Service) Reload(name string) {
	section := s.sections[name]
	if section == nil { // of another version of the program
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := section.load(ctx); err != nil {
		s.Logger.Warn("settings could not be read; those in use stay", "section", name, "err", err)
	}
}

// changed has every node use a new value, this one at once, so that the caller reads what
// it wrote.
func (s *Service) changed(name string) {
	s.Reload(name)
	if s.OnChange != nil {
		s.OnChange(name)
	}
}

// Serve looks for changes of other nodes until ctx ends.
func (s *Service) Serve(ctx context.Context) {
	tick := time.NewTicker(Refresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		versions, err := s.Store.ListVersions(ctx)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				s.Logger.Debug("settings could not be checked for changes", "err", err)
			}
			continue
		}
		for name, version := range versions {
			if section := s.sections[name]; section != nil && section.version() != version {
				s.Reload(name)
			}
		}
	}
}
