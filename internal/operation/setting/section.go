package setting

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// maxSection bounds the bytes of a section.
const maxSection = 1 << 20

// Section is a group of settings of type T, a struct of JSON. Its fields of type
// secret.String are write-only.
type Section[T any] struct {
	Name   string // as in its path: model-catalog
	Secret bool   // it has secrets: it is sealed as a whole
	// Initial is the value where nothing is set: the program's configuration.
	Initial T
	// Check validates a value. Errors: fault.BadFields. Nil: all values are good.
	Check func(*T) error
	// Changed is called with each value that this node begins to use; it must not change it.
	// Nil: who needs the value calls Get.
	Changed func(*T)

	service *Service
	loading sync.Mutex
	now     atomic.Pointer[current[T]]
}

type current[T any] struct {
	value   T
	version int64
	set     bool // there is a stored value
}

// Add adds a section to a service. It panics if there is one of its name.
func Add[T any](s *Service, section *Section[T]) *Section[T] {
	if s.sections[section.Name] != nil {
		panic("setting: there are two sections " + section.Name)
	}
	section.service = s
	section.now.Store(&current[T]{value: section.Initial})
	s.sections[section.Name] = section
	return section
}

// Get returns the value. It must not be changed.
func (s *Section[T]) Get() *T { return &s.now.Load().value }

// IsSet reports whether the value is a stored one.
func (s *Section[T]) IsSet() bool { return s.now.Load().set }

func (s *Section[T]) version() int64 { return s.now.Load().version }

func (s *Section[T]) load(ctx context.Context) error {
	s.loading.Lock() // so that an older value does not replace a newer one
	defer s.loading.Unlock()
	row, err := s.service.Store.Get(ctx, s.Name)
	if err != nil {
		return fmt.Errorf("the settings %s: %w", s.Name, err)
	}
	if row.Version < s.version() {
		return nil
	}
	value, err := s.decode(&row)
	if err != nil {
		return fmt.Errorf("the settings %s: %w", s.Name, err)
	}
	s.now.Store(&current[T]{*value, row.Version, row.set()})
	if s.Changed != nil {
		s.Changed(value)
	}
	return nil
}

func (s *Section[T]) sealedFor() string { return "operator_settings/" + s.Name }

// revealed writes secrets as they are.
var revealed = json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, v secret.String) error {
	return enc.WriteToken(jsontext.String(v.Reveal()))
}))

// decode returns a value of its own of a stored section.
func (s *Section[T]) decode(row *Row) (*T, error) {
	body := row.Body
	if !row.set() {
		var err error
		if body, err = json.Marshal(&s.Initial, revealed); err != nil {
			return nil, err
		}
	} else if s.Secret {
		var err error
		if body, err = s.service.Box.Open(row.Sealed, s.sealedFor()); err != nil {
			return nil, err
		}
	}
	value := new(T)
	return value, json.Unmarshal(body, value)
}

func (s *Section[T]) encode(row *Row, value *T) error {
	body, err := json.Marshal(value, revealed, json.Deterministic(true))
	if err != nil {
		return err
	}
	if len(body) > maxSection {
		return fault.New(fault.Invalid, "", "The settings %s would have %d bytes; at most %d are kept.", s.Name, len(body), maxSection)
	}
	if s.Secret {
		row.Body, row.Sealed = nil, s.service.Box.Seal(body, s.sealedFor())
	} else {
		row.Body, row.Sealed = body, nil
	}
	return nil
}

// Update changes the stored value in a transaction of its own, and records what it was
// and what it is in the audit log, without secrets. change may be called again. answer
// returns what the caller is answered. Errors: those of change and Check.
func (s *Section[T]) Update(ctx context.Context, who authz.Caller, change func(*T) error, answer func(*T) any) error {
	err := s.service.Writer.Write(ctx, func(tx txn.Tx) error {
		value, err := s.updateTx(tx, who, change)
		if err != nil {
			return err
		}
		return txn.Answer(tx, answer(value))
	})
	if err == nil {
		s.service.changed(s.Name)
	}
	return err
}

// Reset removes the stored value: the program's configuration holds again.
func (s *Section[T]) Reset(ctx context.Context, who authz.Caller, answer any) error {
	err := s.service.Writer.Write(ctx, func(tx txn.Tx) error {
		row, err := s.service.Store.LockTx(tx, s.Name)
		if err != nil {
			return err
		}
		value, err := s.decode(&row)
		if err != nil {
			return err
		}
		before, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			return err
		}
		row.Body, row.Sealed = nil, nil
		if err := s.putTx(tx, &row); err != nil {
			return err
		}
		if err := s.record(tx, who, before, &s.Initial); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
	if err == nil {
		s.service.changed(s.Name)
	}
	return err
}

// updateTx changes the stored value and returns the new one.
func (s *Section[T]) updateTx(tx txn.Tx, who authz.Caller, change func(*T) error) (*T, error) {
	row, err := s.service.Store.LockTx(tx, s.Name)
	if err != nil {
		return nil, err
	}
	value, err := s.decode(&row)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	if err := change(value); err != nil {
		return nil, err
	}
	if s.Check != nil {
		if err := s.Check(value); err != nil {
			return nil, err
		}
	}
	if err := s.encode(&row, value); err != nil {
		return nil, err
	}
	if err := s.putTx(tx, &row); err != nil {
		return nil, err
	}
	return value, s.record(tx, who, before, value)
}

func (s *Section[T]) putTx(tx txn.Tx, row *Row) error {
	row.Section, row.UpdatedAt = s.Name, s.service.Clock.Now()
	row.Version++
	return s.service.Store.PutTx(tx, row)
}

// export implements section.
func (s *Section[T]) export() (jsontext.Value, bool, error) {
	now := s.now.Load()
	body, err := json.Marshal(&now.value, json.Deterministic(true))
	return body, now.set, err
}

// importTx implements section. What a document leaves out is as in the program's
// configuration; secrets, which no document has, stay.
func (s *Section[T]) importTx(tx txn.Tx, who authz.Caller, body jsontext.Value) error {
	_, err := s.updateTx(tx, who, func(value *T) error {
		if !s.Secret {
			fresh, err := s.decode(&Row{})
			if err != nil {
				return err
			}
			*value = *fresh
		}
		return s.Merge(value, body)
	})
	return err
}

func (s *Section[T]) record(tx txn.Tx, who authz.Caller, before jsontext.Value, value *T) error {
	after, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return err
	}
	details, err := json.Marshal(struct {
		Before jsontext.Value `json:"before"`
		After  jsontext.Value `json:"after"`
	}{before, after})
	if err != nil {
		return err
	}
	return audit.Write(s.service.Audit, tx, who, audit.Entry{
		Action: "setting.updated", TargetType: "setting", TargetID: s.Name, Details: details,
	})
}
