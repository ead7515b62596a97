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
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// Maximum lengths of texts, in characters.
const (
	maxSlug   = 64
	maxReason = 2000
)

var slugLetters = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Creation describes a tenant to create.
type Creation struct {
	_ struct{} `json:"-" name:"AdminTenantCreate"`

	Name       string        `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Name of the company, as people see it."`
	Slug       string        `json:"slug,omitzero" maxLength:"64" doc:"Lower-case letters and digits joined by single hyphens. Default: derived from the name."`
	Plan       string        `json:"plan,omitzero" maxLength:"100" doc:"ID of a plan. Default: the default plan."`
	Settings   schema.Object `json:"settings,omitzero" doc:"The company's settings, by name."`
	OwnerEmail string        `json:"owner_email,omitzero" maxLength:"254" doc:"Email with which the first owner signs in."`
	OwnerKey   *bool         `json:"owner_key,omitzero" doc:"Whether to create a key for the owner. Default: true. Without a key owner_email is required."`
}

// Created is a new tenant with its owner and the owner's key, which no other
// response shows.
type Created struct {
	_ struct{} `json:"-" name:"AdminTenantCreated"`
	Tenant
	route.Repetition

	UserID  string          `json:"user_id" required:"true" doc:"ID of the owner."`
	KeyID   string          `json:"key_id,omitzero"`
	RawKey  identity.RawKey `json:"raw_key,omitzero"`
	Warning string          `json:"warning,omitzero"`
}

// WithoutSecret implements route.ShownOnce.
func (c Created) WithoutSecret() any {
	if c.RawKey != "" {
		c.RawKey, c.Warning, c.Repetition = "", "", route.Repeated
	}
	return c
}

// Create creates a tenant, its owner and the owner's key. Errors: fault.Invalid
// with the invalid fields; fault.Conflict for a slug that is taken.
func (s *Service) Create(ctx context.Context, who authz.Caller, c Creation) (Created, error) {
	var invalid []fault.Field
	if message := identity.BadName(c.Name); message != "" {
		invalid = append(invalid, fault.Field{Field: "name", Message: message})
	}
	invalid = append(invalid, s.invalidChoices(c.Slug, c.Plan)...)
	invalid = append(invalid, identity.BadRedaction(jsontext.Value(c.Settings))...)
	keyless := c.OwnerKey != nil && !*c.OwnerKey
	if keyless && strings.TrimSpace(c.OwnerEmail) == "" {
		invalid = append(invalid, fault.Field{Field: "owner_email", Message: "is required if owner_key is false: the owner could not sign in"})
	}
	if message := identity.BadEmail(c.OwnerEmail); message != "" {
		invalid = append(invalid, fault.Field{Field: "owner_email", Message: message})
	}
	if invalid != nil {
		return Created{}, fault.BadFields(invalid...)
	}
	var created Created
	err := s.Tenants.Add(ctx, identity.NewTenant{
		Name: strings.TrimSpace(c.Name), Slug: c.Slug, Plan: c.Plan, Settings: jsontext.Value(c.Settings), OwnerEmail: c.OwnerEmail,
		Keyless: keyless,
	}, func(tx txn.Tx, t identity.Tenant, m identity.Member, g identity.Grant) error {
		created = Created{
			Tenant: s.shown(Tenant{
				TenantID: t.TenantID, Name: t.Name, Slug: t.Slug, Status: t.Status, Plan: t.Plan, Settings: schema.Object(t.Settings),
				PrimaryEmail: m.Email, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
			}),
			UserID: m.UserID, KeyID: g.KeyID, RawKey: g.RawKey,
		}
		if g.KeyID != "" {
			created.Warning = "Store raw_key now: it cannot be retrieved again."
		}
		tx.AfterCommit(s.OnChange)
		err := s.recordBoth(tx, who, "created", t.TenantID, details("name", t.Name, "slug", t.Slug, "plan", t.Plan))
		if err != nil {
			return err
		}
		return txn.Answer(tx, created)
	})
	return created, publicError(err)
}

// invalidChoices returns what is invalid with a slug and a plan, which may be
// empty.
func (s *Service) invalidChoices(slug, plan string) (invalid []fault.Field) {
	if slug != "" && (len(slug) > maxSlug || !slugLetters.MatchString(slug)) {
		message := fmt.Sprintf("must be lower-case letters and digits joined by single hyphens, at most %d characters", maxSlug)
		invalid = append(invalid, fault.Field{Field: "slug", Message: message})
	}
	if plan != "" && !s.Plans.Known(plan) {
		invalid = append(invalid, fault.Field{Field: "plan", Message: "is not one of the plans: " + s.Plans.Names()})
	}
	return invalid
}

// Change is a change of a tenant by the operator. Nil fields stay.
type Change struct {
	_ struct{} `json:"-" name:"AdminTenantUpdate"`

	Name     *string       `json:"name,omitzero" minLength:"1" maxLength:"200" doc:"Name of the company, as people see it."`
	Slug     *string       `json:"slug,omitzero" minLength:"1" maxLength:"64" doc:"Lower-case letters and digits joined by single hyphens; no other company has it."`
	Plan     *string       `json:"plan,omitzero" minLength:"1" maxLength:"100" doc:"ID of a plan."`
	Settings schema.Object `json:"settings,omitzero" doc:"Merged into the settings; null removes a member."`
}

// Update changes a tenant. Errors: fault.NotFound; fault.Invalid with the
// invalid fields; fault.Conflict for a slug that is taken.
func (s *Service) Update(ctx context.Context, who authz.Caller, id string, c Change) (Tenant, error) {
	var invalid []fault.Field
	if c.Name != nil {
		if message := identity.BadName(*c.Name); message != "" {
			invalid = append(invalid, fault.Field{Field: "name", Message: message})
		}
	}
	invalid = append(invalid, identity.BadRedaction(jsontext.Value(c.Settings))...)
	if invalid = append(invalid, s.invalidChoices(ptr.Value(c.Slug), ptr.Value(c.Plan))...); invalid != nil {
		return Tenant{}, fault.BadFields(invalid...)
	}
	return change(ctx, s, who, id, "updated", itself, func(tx txn.Tx, t *Tenant) (jsontext.Value, error) {
		before := *t
		t.Name = cmp.Or(strings.TrimSpace(ptr.Value(c.Name)), t.Name)
		t.Slug, t.Plan = cmp.Or(ptr.Value(c.Slug), t.Slug), cmp.Or(ptr.Value(c.Plan), t.Plan)
		tx.AfterCommit(s.OnChange)
		if t.Plan != before.Plan {
			tx.AfterCommit(func() { s.OnPlanChange(id) })
		}
		settings, err := schema.MergePatch(jsontext.Value(t.Settings), jsontext.Value(c.Settings))
		t.Settings = schema.Object(settings)
		return changes("name", before.Name, t.Name, "slug", before.Slug, t.Slug, "plan", before.Plan, t.Plan), err
	})
}

// SettingsChange is a change of the operator's settings of a tenant. Nil fields
// stay.
type SettingsChange struct {
	PurgeProtection *bool     `json:"purge_protection,omitzero"`
	EgressAllowlist *[]string `json:"egress_allowlist,omitzero"` // empty: anywhere
	LegalHold       *bool     `json:"legal_hold,omitzero"`
	MaxRetention    *int64    `json:"max_retention_days,omitzero"` // 0: none
}

// SettingsAnswer shows the operator's settings of a tenant.
type SettingsAnswer struct {
	_ struct{} `json:"-" name:"AdminTenantSettings"`

	TenantID string `json:"tenant_id" required:"true"`
	Settings struct {
		PurgeProtection bool     `json:"purge_protection" required:"true"`
		EgressAllowlist []string `json:"egress_allowlist" required:"true" doc:"Empty: any public host."`
		LegalHold       bool     `json:"legal_hold" required:"true"`
		MaxRetention    int64    `json:"max_retention_days" required:"true" doc:"0: none."`
	} `json:"settings" required:"true"`
}

// held are the operator's settings that are members of Tenant.Settings, where the
// company's owner can read them.
type held struct {
	LegalHold    bool  `json:"legal_hold"`
	MaxRetention int64 `json:"max_retention_days"`
}

// held returns the operator's members of the settings. A member of another type
// counts as absent.
func (t *Tenant) held() (h held) {
	var members map[string]jsontext.Value
	if json.Unmarshal(t.Settings, &members) != nil {
		return held{}
	}
	h.LegalHold = members["legal_hold"].Kind() == 't'
	if days := members["max_retention_days"]; days.Kind() != '0' || json.Unmarshal(days, &h.MaxRetention) != nil {
		h.MaxRetention = 0
	}
	return h
}

// UnderHold reports whether nothing of the tenant's data may be deleted.
func (t *Tenant) UnderHold() bool { return t.held().LegalHold }

// hold stores the members of the settings that c changes.
func (t *Tenant) hold(c SettingsChange) error {
	patch, err := json.Marshal(SettingsChange{LegalHold: c.LegalHold, MaxRetention: c.MaxRetention})
	if err != nil {
		return err
	}
	settings, err := schema.MergePatch(jsontext.Value(t.Settings), patch)
	t.Settings = schema.Object(settings)
	return err
}

func settingsOf(t Tenant) (a SettingsAnswer) {
	a.TenantID, a.Settings.PurgeProtection, a.Settings.EgressAllowlist = t.TenantID, t.PurgeProtection, t.EgressAllowlist
	a.Settings.LegalHold, a.Settings.MaxRetention = t.held().LegalHold, t.held().MaxRetention
	if a.Settings.EgressAllowlist == nil {
		a.Settings.EgressAllowlist = []string{}
	}
	return a
}

// Configure changes the operator's settings of a tenant. Errors: fault.NotFound;
// fault.Invalid, naming the entry of a list.
func (s *Service) Configure(ctx context.Context, who authz.Caller, id string, c SettingsChange) (SettingsAnswer, error) {
	if c.EgressAllowlist != nil && len(*c.EgressAllowlist) > 0 {
		if invalid := s.CheckEgress(*c.EgressAllowlist); invalid != nil {
			return SettingsAnswer{}, fault.BadFields(invalid...)
		}
	}
	return change(ctx, s, who, id, "settings_updated", settingsOf, func(tx txn.Tx, t *Tenant) (jsontext.Value, error) {
		if err := t.hold(c); err != nil {
			return nil, err
		}
		if c.LegalHold != nil {
			tx.AfterCommit(s.OnChange)
		}
		if c.PurgeProtection != nil {
			t.PurgeProtection = *c.PurgeProtection
		}
		if c.EgressAllowlist != nil {
			t.EgressAllowlist = *c.EgressAllowlist
			tx.AfterCommit(func() { s.OnEgress(id) })
		}
		return marshal(c)
	})
}

func itself(t Tenant) Tenant { return t }

// change applies do, which returns the details of the audit entry, to a locked
// tenant. It stores and records the change, and returns its answer.
func change[A any](
	ctx context.Context, s *Service, who authz.Caller, id, action string,
	answer func(Tenant) A, do func(txn.Tx, *Tenant) (jsontext.Value, error),
) (a A, err error) {
	err = s.DB.Write(ctx, func(tx txn.Tx) error {
		t, err := s.Store.LockTx(tx, id)
		if err != nil {
			return err
		}
		if err := route.Match(tx.Context(), answer(s.shown(t))); err != nil {
			return err
		}
		details, err := do(tx, &t)
		if err != nil {
			return err
		}
		t.UpdatedAt = s.Clock.Now()
		if err := s.Store.UpdateTx(tx, t); err != nil {
			return err
		}
		if err := s.recordBoth(tx, who, action, id, details); err != nil {
			return err
		}
		a = answer(s.shown(t))
		return txn.Answer(tx, a)
	})
	return a, publicError(err)
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

// Suspend suspends a tenant. Suspending it again changes the reason. Errors:
// fault.NotFound; fault.Forbidden for the operator's own tenant.
func (s *Service) Suspend(ctx context.Context, who authz.Caller, id, reason string) (Suspension, error) {
	reason = strings.TrimSpace(reason)
	if utf8.RuneCountInString(reason) > maxReason {
		return Suspension{}, fault.BadFields(fault.Field{Field: "reason", Message: fmt.Sprintf("is longer than %d characters", maxReason)})
	}
	answer := func(t Tenant) Suspension {
		return Suspension{Suspended: true, TenantID: t.TenantID, Reason: t.SuspensionReason}
	}
	return change(ctx, s, who, id, "suspended", answer, func(tx txn.Tx, t *Tenant) (jsontext.Value, error) {
		if t.Operator {
			return nil, operatorProtected("suspended")
		}
		if now := s.Clock.Now(); t.Status != identity.Suspended {
			t.Status, t.SuspendedAt = identity.Suspended, &now
		}
		t.SuspensionReason = reason
		s.notifyNodes(tx)
		return details("reason", reason), nil
	})
}

// Reactivate ends a suspension. It changes nothing for an active tenant. Errors:
// fault.NotFound.
func (s *Service) Reactivate(ctx context.Context, who authz.Caller, id string) (Reactivation, error) {
	answer := func(t Tenant) Reactivation { return Reactivation{Reactivated: true, TenantID: t.TenantID} }
	return change(ctx, s, who, id, "reactivated", answer, func(tx txn.Tx, t *Tenant) (jsontext.Value, error) {
		t.Status, t.SuspendedAt, t.SuspensionReason = identity.Active, nil, ""
		s.notifyNodes(tx)
		// Like all items of this package it belongs to the operator's tenant,
		// which cannot be suspended, so it is never held back.
		return nil, s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: resuming + id, TenantID: who.TenantID})
	})
}

// notifyNodes notifies every node of a suspension, a reactivation or a purge,
// once it is committed.
func (s *Service) notifyNodes(tx txn.Tx) {
	s.InvalidateAll(tx)
	tx.AfterCommit(s.OnChange)
}

func operatorProtected(what string) error {
	return fault.New(fault.Forbidden, "", "The operator's own company cannot be %s.", what)
}

// details returns pairs of names and texts as a JSON object, without empty
// texts.
func details(pairs ...string) jsontext.Value {
	object := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		if name, text := pair[0], pair[1]; text != "" {
			object[name] = text
		}
	}
	out, _ := marshal(object) // strings only: never fails
	return out
}

// changes returns those triples of name, old and new text that differ.
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
	out, _ := marshal(object) // strings only: never fails
	return out
}

func marshal(v any) (jsontext.Value, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// counts returns how many rows were deleted so far.
func (p Purge) counts() (all map[string]int64, err error) {
	err = json.Unmarshal(p.Counts, &all)
	return all, err
}
