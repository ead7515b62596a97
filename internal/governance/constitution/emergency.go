package constitution

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/audit"
)

// maxSafeHours bounds how long a safe mode that ends by itself lasts: ten years.
const maxSafeHours = 87600

// EmergencyState is whether the agents of a company may act.
type EmergencyState struct {
	_ struct{} `json:"-" name:"EmergencyState"`

	Mode        string     `json:"mode" required:"true" enum:"normal,safe_mode"`
	Reason      string     `json:"reason,omitzero"`
	ActivatedAt *time.Time `json:"activated_at,omitzero"`
	ActivatedBy string     `json:"activated_by,omitzero" doc:"The member who began it."`
	Deadline    *time.Time `json:"deadline,omitzero" doc:"When it ends by itself; absent: never."`
}

type safeModeIn struct {
	Body struct {
		_ struct{} `json:"-" name:"SafeModeActivate"`

		Reason        string  `json:"reason" required:"true" minLength:"1" maxLength:"4000" doc:"Why, for the ledger and for whoever reads the state."`
		DeadlineHours float64 `json:"deadline_hours,omitzero" minimum:"0" maximum:"87600" doc:"After how many hours it ends by itself; 0 or left out: it does not."`
	}
}

// Deactivation is the answer to the end of a safe mode.
type Deactivation struct {
	_ struct{} `json:"-" name:"SafeModeDeactivation"`

	OK   bool   `json:"ok" required:"true"`
	Mode string `json:"mode" required:"true" enum:"normal"`
}

func (s *Service) emergencyRoutes() []route.Route {
	row := func(method, path, id, summary, doc string, refusals ...int) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1/governance/emergency" + path, ID: id, Tag: "Governance", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"agents:write"}, Role: authz.Owner, Errors: refusals,
		}
	}
	state := row("GET", "/state", "getEmergencyState", "Get the emergency state", "In safe mode no agent of the company may act.")
	state.Scopes, state.Role = []authz.Scope{"agents:read"}, ""
	begin := row("POST", "/safe-mode", "activateSafeMode", "Begin safe mode",
		"Only the founder, the owner of the company, can. New runs are rejected, and those under way are refused their next act.", 422)
	begin.Example = `{"reason":"An agent pays invoices twice.","deadline_hours":24}`
	return append(s.rootRoutes(row),
		route.Action(state, s.emergencyState),
		route.Action(begin, s.beginSafeMode),
		route.Action(row("POST", "/deactivate", "deactivateSafeMode", "End safe mode",
			"Only the founder, the owner of the company, can. It also succeeds where there is none."), s.endSafeMode),
	)
}

func (s *Service) answer(st State) *EmergencyState {
	if !st.safe(s.Clock.Now()) {
		return &EmergencyState{Mode: Normal}
	}
	e := &EmergencyState{Mode: st.Mode, Reason: st.Reason, ActivatedBy: st.ActivatedBy, ActivatedAt: &st.ActivatedAt}
	if !st.Deadline.IsZero() {
		e.Deadline = &st.Deadline
	}
	return e
}

func (s *Service) emergencyState(ctx context.Context, who authz.Caller, _ *struct{}) (*EmergencyState, error) {
	st, err := s.Store.GetState(ctx, who.TenantID)
	return s.answer(st), err
}

// setMode changes the mode, with its entry in the ledger and in the audit log.
func (s *Service) setMode(tx txn.Tx, who authz.Caller, st State, kind string, details any) error {
	if err := s.Store.UpdateStateTx(tx, who.TenantID, st); err != nil {
		return err
	}
	s.changed(tx, who.TenantID)
	err := s.Ledger.AppendTx(tx, who.TenantID, ledger.Entry{Kind: kind, ActorUserID: who.UserID, Details: details})
	if err != nil {
		return err
	}
	return audit.Write(s.Audit, tx, who, audit.Entry{Action: "governance." + st.Mode + "_set", TargetType: "tenant", TargetID: who.TenantID})
}

func (s *Service) beginSafeMode(ctx context.Context, who authz.Caller, in *safeModeIn) (out *EmergencyState, err error) {
	b := &in.Body
	if b.DeadlineHours > maxSafeHours { // the schema refuses it too
		return nil, fault.BadFields(fault.Field{Field: "deadline_hours", Message: "is more than ten years."})
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		st, err := s.Store.LockStateTx(tx, who.TenantID)
		if err != nil {
			return err
		}
		now := s.Clock.Now().Truncate(time.Microsecond)
		st.Mode, st.Reason, st.ActivatedAt, st.ActivatedBy, st.Deadline = SafeMode, b.Reason, now, who.UserID, time.Time{}
		if b.DeadlineHours > 0 {
			st.Deadline = now.Add(time.Duration(b.DeadlineHours * float64(time.Hour))).Truncate(time.Microsecond)
		}
		out = s.answer(st)
		if err := s.setMode(tx, who, st, "emergency.safe_mode_begun", out); err != nil {
			return err
		}
		return txn.Answer(tx, out)
	})
	return out, err
}

func (s *Service) endSafeMode(ctx context.Context, who authz.Caller, _ *struct{}) (out *Deactivation, err error) {
	out = &Deactivation{OK: true, Mode: Normal}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		st, err := s.Store.LockStateTx(tx, who.TenantID)
		if err != nil {
			return err
		}
		if st.Mode != Normal {
			st = State{Version: st.Version, Mode: Normal}
			if err := s.setMode(tx, who, st, "emergency.safe_mode_ended", nil); err != nil {
				return err
			}
		}
		return txn.Answer(tx, out)
	})
	return out, err
}
