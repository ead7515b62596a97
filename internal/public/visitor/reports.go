package visitor

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/ratelimit"
	"agentd/internal/kernel/resource"
)

// Report is a complaint of a visitor. Its company reads it, and decides.
type Report struct {
	resource.Meta `json:"-"`

	SessionID  string `json:"session_id" readOnly:"true" format:"uuid" doc:"Session of the visitor."`
	AgentID    string `json:"agent_id" readOnly:"true" format:"uuid" doc:"Agent of the session."`
	TargetType string `json:"target_type" readOnly:"true" enum:"message,session,agent" doc:"What is reported."`
	TargetID   string `json:"target_id" readOnly:"true" doc:"ID of what is reported."`
	Reason     string `json:"reason" readOnly:"true" enum:"harassment,hate,sexual,violence,self_harm,illegal,spam,other" doc:"Why."`
	Details    string `json:"details" readOnly:"true" doc:"What the visitor wrote."`
	Status     string `json:"status" enum:"received,resolved,dismissed" default:"received" doc:"What became of it."`
}

// Reports keeps the reports of visitors.
type Reports = resource.Store[Report]

// ReportKind is the kind of reports. Visitors create them; see Service.report.
var ReportKind = resource.Kind[Report]{
	Name: "visitor_report", Noun: "VisitorReport", Path: "/api/v1/visitor-reports", IDField: "report_id", Tag: "Public",
	Keys: []string{"reports"}, PageSize: 50, MaxPageSize: 200,
	Example: `{"status":"resolved"}`,
	Omit:    []resource.Op{resource.OpCreate},
	Readers: resource.Access{Scopes: []authz.Scope{"sessions:read"}, Role: authz.Viewer},
	Writers: resource.Access{Scopes: []authz.Scope{"sessions:write"}, Role: authz.Developer},
}

type (
	reportIn struct {
		SessionID string `path:"sessionId"`
		holding
		Body newReport
	}
	newReport struct {
		_ struct{} `json:"-" name:"PublicReportCreate"`

		TargetType string `json:"target_type" required:"true" enum:"message,session,agent" doc:"What is reported."`
		TargetID   string `json:"target_id" required:"true" minLength:"1" maxLength:"200" doc:"Its id: of a message of the session, the session, or its agent."`
		Reason     string `json:"reason" required:"true" enum:"harassment,hate,sexual,violence,self_harm,illegal,spam,other" doc:"Why it is reported."`
		Details    string `json:"details,omitzero" maxLength:"2000" doc:"What happened, in the visitor's words."`
	}
	reported struct {
		_ struct{} `json:"-" name:"PublicReportReceived"`

		ReportID string `json:"report_id" format:"uuid" required:"true" doc:"The report."`
		Status   string `json:"status" enum:"received" required:"true" doc:"Always received."`
	}
)

// report stores a complaint of a visitor.
func (s *Service) report(ctx context.Context, who authz.Caller, in *reportIn) (*reported, error) {
	v, err := s.enter(ctx, in.SessionID, in.token(), in.page)
	if err != nil {
		return nil, err
	}
	if err := s.spend("reports in this session", v.SessionID, perHour(5)); err != nil {
		return nil, err
	}
	if err := s.spend("reports from your network address", ratelimit.Network(who.Address), perHour(10)); err != nil {
		return nil, err
	}
	if err := s.checkTarget(ctx, v, &in.Body); err != nil {
		return nil, err
	}
	r := s.Reports.Blank()
	r.SessionID, r.AgentID, r.TargetType, r.TargetID = v.SessionID, v.AgentID, in.Body.TargetType, in.Body.TargetID
	r.Reason, r.Details = in.Body.Reason, in.Body.Details
	if err := s.Reports.Create(ctx, authz.Caller{TenantID: v.TenantID, Address: who.Address, RequestID: who.RequestID}, r); err != nil {
		return nil, err
	}
	return &reported{ReportID: r.ID, Status: "received"}, nil
}

// checkTarget refuses a report of what the visitor has not seen.
func (s *Service) checkTarget(ctx context.Context, v visit, in *newReport) error {
	seen := false
	switch in.TargetType {
	case "session":
		seen = in.TargetID == v.SessionID
	case "agent":
		seen = in.TargetID == v.AgentID
	case "message":
		talk, err := s.talk(ctx, v.Record)
		if err != nil {
			return err
		}
		for _, m := range said(talk) {
			seen = seen || m.MessageID == in.TargetID
		}
	}
	if !seen {
		return fault.BadFields(fault.Field{Field: "target_id", Message: "there is no such " + in.TargetType + " in this session"})
	}
	return nil
}
