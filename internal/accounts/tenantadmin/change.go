package tenantadmin

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// Longest texts, in characters.
const (
	mostSlug   = 64
	mostReason = 2000
)

var slugLetters = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Creation is what a tenant is made of.
type Creation struct {
	_ struct{} `json:"-" name:"AdminTenantCreate"`

	Name       string        `json:"name" required:"true" minLength:"1" maxLength:"200"`
	Slug       string        `json:"slug,omitzero" maxLength:"64" doc:"Lower-case letters and digits, in words that are joined by single hyphens. Made from the name if it is left out."`
	Plan       string        `json:"plan,omitzero" maxLength:"100" doc:"Id of a plan; the default one if it is left out."`
	Settings   schema.Object `json:"settings,omitzero"`
	OwnerEmail string        `json:"owner_email,omitzero" maxLength:"254" doc:"Of its first owner, who signs in with it."`
	OwnerKey   *bool         `json:"owner_key,omitzero" doc:"Whether the owner gets a key, which the answer shows once: true if it is left out. Without a key the owner needs an owner_email."`
}

// Created is a new tenant with its owner, and with the owner's key, which is
// shown this once.
type Created struct {
	_ struct{} `json:"-" name:"AdminTenantCreated"`
	Tenant

	UserID  string          `json:"user_id" required:"true" doc:"The owner."`
	KeyID   string          `json:"key_id,omitzero"`
	RawKey  identity.RawKey `json:"raw_key,omitzero"`
	Warning string          `json:"warning,omitzero"`
}

// Create makes a tenant, its owner and the owner's key. Errors: fault.Invalid
// with the wrong fields; fault.Conflict for a slug that is taken.
func (s *Service) Create(ctx context.Context, who authz.Caller, c Creation) (Created, error) {
	var wrong []fault.Field
	if message := identity.BadName(c.Name); message != "" {
		wrong = append(wrong, fault.Field{Field: "name", Message: message})
	}
	wrong = append(wrong, s.badChoice(c.Slug, c.Plan)...)
	keyless := c.OwnerKey != nil && !*c.OwnerKey
	if keyless && strings.TrimSpace(c.OwnerEmail) == "" {
		wrong = append(wrong, fault.Field{Field: "owner_email", Message: "is needed if the owner gets no key: nobody could get in"})
	}
	if message := identity.BadEmail(c.OwnerEmail); message != "" {
		wrong = append(wrong, fault.Field{Field: "owner_email", Message: message})
	}
	if wrong != nil {
		return Created{}, fault.BadFields(wrong...)
	}
	var made Created
	err := s.Tenants.Add(ctx, identity.NewTenant{
		Name: strings.TrimSpace(c.Name), Slug: c.Slug, Plan: c.Plan, Settings: jsontext.Value(c.Settings), OwnerEmail: c.OwnerEmail, Keyless: keyless,
	}, func(tx txn.Tx, t identity.Tenant, m identity.Member, g identity.Grant) error {
		made = Created{
			Tenant: s.shown(Tenant{
				TenantID: t.TenantID, Name: t.Name, Slug: t.Slug, Status: t.Status, Plan: t.Plan, Settings: schema.Object(t.Settings),
				PrimaryEmail: m.Email, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
			}),
			UserID: m.UserID, KeyID: g.KeyID, RawKey: g.RawKey,
		}
		if g.KeyID != "" {
			made.Warning = "Store raw_key now: it is not kept and cannot be shown again."
		}
		err := s.recordBoth(tx, who, "created", t.TenantID, details("name", t.Name, "slug", t.Slug, "plan", t.Plan))
		if err != nil {
			return err
		}
		return txn.Answer(tx, made)
	})
	return made, absent(err)
}

// badChoice says what is wrong with a slug and a plan, which may be empty.
func (s *Service) badChoice(slug, plan string) (wrong []fault.Field) {
	if slug != "" && (len(slug) > mostSlug || !slugLetters.MatchString(slug)) {
		wrong = append(wrong, fault.Field{Field: "slug", Message: fmt.Sprintf("is not lower-case letters and digits in words joined by single hyphens, %d characters at most", mostSlug)})
	}
	if plan != "" && !s.Plans.Known(plan) {
		wrong = append(wrong, fault.Field{Field: "plan", Message: "it is not one of the plans: " + s.Plans.Names()})
	}
	return wrong
}

// Change is what the operator changes of a tenant. What is nil stays.
type Change struct {
	_ struct{} `json:"-" name:"AdminTenantUpdate"`

	Name     *string       `json:"name,omitzero" minLength:"1" maxLength:"200"`
	Slug     *string       `json:"slug,omitzero" minLength:"1" maxLength:"64"`
	Plan     *string       `json:"plan,omitzero" minLength:"1" maxLength:"100"`
	Settings schema.Object `json:"settings,omitzero" doc:"Members are merged into the settings; null takes one away."`
}

// Update changes a tenant. Errors: fault.NotFound; fault.Invalid with the
// wrong fields; fault.Conflict for a slug that is taken.
func (s *Service) Update(ctx context.Context, who authz.Caller, id string, c Change) (Tenant, error) {
	var wrong []fault.Field
	if c.Name != nil {
		if message := identity.BadName(*c.Name); message != "" {
			wrong = append(wrong, fault.Field{Field: "name", Message: message})
		}
	}
	if wrong = append(wrong, s.badChoice(ptr.Value(c.Slug), ptr.Value(c.Plan))...); wrong != nil {
		return Tenant{}, fault.BadFields(wrong...)
	}
	return change(ctx, s, who, id, "updated", whole, func(tx txn.Tx, t *Tenant) (jsontext.Value, error) {
		before := *t
		t.Name = cmp.Or(strings.TrimSpace(ptr.Value(c.Name)), t.Name)
		t.Slug, t.Plan = cmp.Or(ptr.Value(c.Slug), t.Slug), cmp.Or(ptr.Value(c.Plan), t.Plan)
		if t.Plan != before.Plan {
			tx.AfterCommit(func() { s.PlanChanged(id) })
		}
		settings, err := schema.MergePatch(jsontext.Value(t.Settings), jsontext.Value(c.Settings))
		t.Settings = schema.Object(settings)
		return changes("name", before.Name, t.Name, "slug", before.Slug, t.Slug, "plan", before.Plan, t.Plan), err
	})
}

// Protection is what the operator set for a tenant.
type Protection struct {
	_ struct{} `json:"-" name:"AdminTenantSettings"`

	TenantID string `json:"tenant_id" required:"true"`
	Settings struct {
		PurgeProtection bool `json:"purge_protection" required:"true"`
	} `json:"settings" required:"true"`
}

// Protect says whether a tenant may be purged. Errors: fault.NotFound.
func (s *Service) Protect(ctx context.Context, who authz.Caller, id string, on bool) (Protection, error) {
	answer := func(t Tenant) (p Protection) {
		p.TenantID, p.Settings.PurgeProtection = t.TenantID, t.PurgeProtection
		return p
	}
	return change(ctx, s, who, id, "settings_updated", answer, func(_ txn.Tx, t *Tenant) (jsontext.Value, error) {
		t.PurgeProtection = on
		return jsontext.Value(fmt.Sprintf(`{"purge_protection":%t}`, on)), nil
	})
}

func whole(t Tenant) Tenant { return t }

// change applies do to a locked tenant, stores and records it, and answers.
func change[A any](ctx context.Context, s *Service, who authz.Caller, id, action string, answer func(Tenant) A, do func(txn.Tx, *Tenant) (jsontext.Value, error)) (a A, err error) {
	err = s.DB.Write(ctx, func(tx txn.Tx) error {
		t, err := s.Store.LockTx(tx, id)
		if err != nil {
			return err
		}
		told, err := do(tx, &t)
		if err != nil {
			return err
		}
		t.UpdatedAt = s.Clock.Now()
		if err := s.Store.UpdateTx(tx, t); err != nil {
			return err
		}
		if err := s.recordBoth(tx, who, action, id, told); err != nil {
			return err
		}
		a = answer(s.shown(t))
		return txn.Answer(tx, a)
	})
	return a, absent(err)
}

// Suspension answers a suspension.
type Suspension struct {
	_ struct{} `json:"-" name:"AdminTenantSuspended"`

	Suspended bool   `json:"suspended" required:"true"`
	TenantID  string `json:"tenant_id" required:"true"`
	Reason    string `json:"reason" required:"true"`
}

// Reactivation answers a reactivation.
type Reactivation struct {
	_ struct{} `json:"-" name:"AdminTenantReactivated"`

	Reactivated bool   `json:"reactivated" required:"true"`
	TenantID    string `json:"tenant_id" required:"true"`
}

// Suspend shuts a tenant out. Suspending again changes the reason. Errors:
// fault.NotFound; fault.Forbidden for the operator's own.
func (s *Service) Suspend(ctx context.Context, who authz.Caller, id, reason string) (Suspension, error) {
	reason = strings.TrimSpace(reason)
	if utf8.RuneCountInString(reason) > mostReason {
		return Suspension{}, fault.BadFields(fault.Field{Field: "reason", Message: fmt.Sprintf("is longer than %d characters", mostReason)})
	}
	answer := func(t Tenant) Suspension {
		return Suspension{Suspended: true, TenantID: t.TenantID, Reason: t.SuspensionReason}
	}
	return change(ctx, s, who, id, "suspended", answer, func(tx txn.Tx, t *Tenant) (jsontext.Value, error) {
		if t.Operator {
			return nil, operators("suspended")
		}
		if now := s.Clock.Now(); t.Status != identity.Suspended {
			t.Status, t.SuspendedAt = identity.Suspended, &now
		}
		t.SuspensionReason = reason
		s.tell(tx)
		return details("reason", reason), nil
	})
}

// Reactivate lets a tenant in again. Where it is in already that changes
// nothing. Errors: fault.NotFound.
func (s *Service) Reactivate(ctx context.Context, who authz.Caller, id string) (Reactivation, error) {
	answer := func(t Tenant) Reactivation { return Reactivation{Reactivated: true, TenantID: t.TenantID} }
	return change(ctx, s, who, id, "reactivated", answer, func(tx txn.Tx, t *Tenant) (jsontext.Value, error) {
		t.Status, t.SuspendedAt, t.SuspensionReason = identity.Active, nil, ""
		s.tell(tx)
		// In the name of the operator's tenant, as everything of this package:
		// no tenant's state holds it back.
		return nil, s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: unparking + id, TenantID: who.TenantID})
	})
}

// tell has every node know of a change of who is let in, once it is committed.
func (s *Service) tell(tx txn.Tx) {
	s.Forget(tx)
	tx.AfterCommit(s.Changed)
}

func operators(what string) error {
	return fault.New(fault.Forbidden, "", "The operator's own company cannot be %s.", what)
}

// details are pairs of names and texts as a JSON object; empty ones are left
// out.
func details(pairs ...string) jsontext.Value {
	object := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		if name, text := pair[0], pair[1]; text != "" {
			object[name] = text
		}
	}
	out, _ := marshal(object) // strings alone
	return out
}

// changes are the triples of name, old and new text that differ.
func changes(triples ...string) jsontext.Value {
	type change struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	object := map[string]change{}
	for triple := range slices.Chunk(triples, 3) {
		if from, to := triple[1], triple[2]; from != to {
			object[triple[0]] = change{from, to}
		}
	}
	out, _ := marshal(object) // strings alone
	return out
}

func marshal(v any) (jsontext.Value, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// counts gives what was deleted so far.
func (p Purge) counts() (all map[string]int64, err error) {
	err = json.Unmarshal(p.Counts, &all)
	return all, err
}
