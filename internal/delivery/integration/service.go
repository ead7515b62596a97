package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// connectTimeout bounds a connection that a request waits for.
const connectTimeout = 15 * time.Second

// maxAssigned is how many agents an integration may be linked to.
const maxAssigned = 200

type createBody struct {
	_ struct{} `json:"-" name:"IntegrationCreate"`

	ConnectorID string        `json:"connector_id" required:"true" minLength:"1" maxLength:"64" doc:"A connector of the catalogue."`
	Name        string        `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Name of the integration, as people and the rules of the company see it: what its tools answer has the source integration:<name>."`
	Config      schema.Object `json:"config,omitzero" doc:"Settings of the connector, as config_schema of the catalogue describes them. Secrets are stored encrypted and never shown."`
	AgentID     string        `json:"agent_id,omitzero" format:"uuid" doc:"An agent that gets its tools."`
	Assigned    []string      `json:"assigned_agent_ids,omitzero" maxItems:"200" doc:"Agents that get its tools."`
	Enabled     *bool         `json:"enabled,omitzero" doc:"Whether agents get its tools. Default: true."`
	Metadata    schema.Object `json:"metadata,omitzero" doc:"Data of your own. Kept and shown; has no effect yet."`
}

type createIn struct {
	Body createBody
}

func (s *Integrations) create(ctx context.Context, who authz.Caller, in *createIn) (view, error) {
	v, err := s.add(ctx, who, &in.Body, asView)
	if err != nil {
		return view{}, err
	}
	return viewOf(v), nil
}

// asView is the answer of the operations that are of no agent.
func asView(v *Integration) any { return viewOf(v) }

// add stores an integration and connects with its service. A failure to connect is
// stored with it.
func (s *Integrations) add(ctx context.Context, who authz.Caller, in *createBody, answer func(*Integration) any) (*Integration, error) {
	c := s.enabled(in.ConnectorID)
	if c == nil {
		return nil, fault.BadFields(fault.Field{
			Field: "connector_id", Message: "there is no such connector; GET /api/v1/integrations/catalog lists them",
		})
	}
	v := s.store.Blank()
	v.ID, v.TenantID = ident.New(), who.TenantID
	v.ConnectorID, v.Name, v.Metadata = c.ID, in.Name, in.Metadata
	if in.Enabled != nil {
		v.Enabled = *in.Enabled
	}
	v.Assigned = distinct(in.Assigned)
	if in.AgentID != "" && !slices.Contains(v.Assigned, in.AgentID) {
		v.Assigned = append(v.Assigned, in.AgentID)
	}
	document, err := c.merged(v, jsontext.Value(in.Config))
	if err != nil {
		return nil, err
	}
	if err := s.admit(ctx, c, v, nil, in.AgentID); err != nil {
		return nil, err
	}
	document = s.connect(ctx, c, v, document)
	ctx = txn.WithAnswer(ctx, func() any { return answer(v) })
	err = s.Kernel.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.store.CreateTx(tx, who, v); err != nil {
			return err
		}
		return s.putDocument(tx, v, document)
	})
	return v, err
}

func (s *core) putDocument(tx txn.Tx, v *Integration, document []byte) error {
	if document == nil {
		return nil
	}
	return s.Documents.PutTx(tx, v.TenantID, v.ID, document)
}

// admit checks an integration that is about to be stored. Errors: fault.Invalid with
// every invalid field; fault.NotFound for the one agent that the request names beside a
// list ("": none).
func (s *core) admit(ctx context.Context, c *Connector, v, old *Integration, agent string) error {
	if strings.TrimSpace(v.Name) == "" || strings.ContainsAny(v.Name, "\r\n\x00") {
		return fault.BadFields(fault.Field{Field: "name", Message: "must be one line and not blank"})
	}
	if err := s.validate(c, v); err != nil {
		return err
	}
	if len(v.Assigned) > maxAssigned {
		return fault.BadFields(fault.Field{Field: "assigned_agent_ids", Message: fmt.Sprintf("at most %d agents", maxAssigned)})
	}
	for i, id := range v.Assigned {
		if old != nil && slices.Contains(old.Assigned, id) {
			continue
		}
		err := s.agents.Check(ctx, v.TenantID, id)
		if id != agent && fault.Is(err, fault.NotFound) {
			return fault.BadFields(fault.Field{Field: fmt.Sprintf("assigned_agent_ids[%d]", i), Message: "no such agent exists in this company"})
		}
		if err != nil {
			return err
		}
	}
	return s.Kernel.Egress.CheckNew(ctx, v.TenantID, s.addresses(old), s.addresses(v))
}

func distinct(list []string) []string {
	out := make([]string, 0, len(list))
	for _, id := range list {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// connect tries an integration and sets the outcome on it. It returns the document
// that is to be stored with it, nil for none.
func (s *core) connect(ctx context.Context, c *Connector, v *Integration, document []byte) []byte {
	v.NeedsAuth = c.AuthType == authOAuth && v.Account == "" && len(v.secrets()) == 0
	v.Tools, v.Operations = len(c.Operations), 0
	if v.NeedsAuth || !v.Enabled {
		v.Failure, v.FailedAt = "", nil
		if document == nil || v.NeedsAuth {
			return document
		}
	}
	ctx, cancel := context.WithTimeout(authz.WithTenant(ctx, v.TenantID), connectTimeout)
	defer cancel()
	document, err := s.try(ctx, c, v, document)
	now := s.Clock.Now()
	if err != nil {
		v.Failure, v.FailedAt = explain(v, err), &now
		return document
	}
	v.Failure, v.FailedAt, v.LastSync = "", nil, &now
	return document
}

// try connects with the service of an integration. document is an OpenAPI document that
// was sent; without one, http reads the one that its settings name, and returns it.
func (s *core) try(ctx context.Context, c *Connector, v *Integration, document []byte) ([]byte, error) {
	switch c.ID {
	case connectorPostgres:
		_, err := s.Databases.Query(ctx, v.database(), "SELECT 1", nil, 1)
		return nil, err
	case connectorSMTP:
		return nil, s.Mailer.Check(ctx, v.mailServer())
	case connectorHTTP:
		return s.tryHTTP(ctx, c, v, document)
	}
	return nil, s.ping(ctx, c, v, c.api.Test)
}

// ping makes a call that needs no arguments.
func (s *core) ping(ctx context.Context, c *Connector, v *Integration, made *call) error {
	r, bad := made.request(c.baseURL(v), nil)
	if bad != nil {
		return fault.New(fault.Invalid, "", "The path of the test cannot be called (%.300s).", bad.Output)
	}
	resp, err := s.do(ctx, v, c, r)
	if err != nil {
		return err
	}
	if res := c.result(resp); res.Failed {
		return fault.New(fault.Unavailable, "", "The test of the connection failed (%.500s).", res.Output)
	}
	return nil
}

// tryHTTP reads the document, pins the address that it names, and calls test_path.
func (s *core) tryHTTP(ctx context.Context, c *Connector, v *Integration, document []byte) ([]byte, error) {
	values := v.values()
	from := text(values["spec_url"])
	if document == nil && from != "" {
		resp, err := s.HTTP.Do(ctx, &Request{Method: "GET", URL: from, Header: map[string]string{
			"Accept": "application/json, application/yaml, text/yaml, */*;q=0.1", "User-Agent": "agentd",
		}}, MaxDocument)
		switch {
		case err != nil:
			return nil, err
		case resp.Status != 200:
			return nil, fault.New(fault.Unavailable, "", "The address of the OpenAPI document answered %d.", resp.Status)
		case resp.Cut:
			return nil, fault.New(fault.Invalid, "", "The OpenAPI document is longer than %d bytes.", MaxDocument)
		}
		if document, err = normalized(resp.Body); err != nil {
			return nil, err
		}
	}
	known := document
	if known == nil {
		var err error
		if known, err = s.Documents.Get(ctx, v.TenantID, v.ID); err != nil || known == nil {
			return nil, err
		}
	}
	d, err := parseDocument(known)
	if err != nil {
		return nil, err
	}
	if text(values["base_url"]) == "" {
		if err := s.pinBase(ctx, v, d.server(from)); err != nil {
			return nil, err
		}
	}
	tools, total := d.operations(filterOf(v.values()))
	v.Tools, v.Operations = len(tools), total
	if path := text(values["test_path"]); path != "" {
		return document, s.ping(ctx, c, v, &call{Method: "GET", Path: path})
	}
	return document, nil
}

// pinBase keeps the address that a document names: another document must not send the
// credential elsewhere.
func (s *core) pinBase(ctx context.Context, v *Integration, base string) error {
	if err := s.CheckURL(base); err != nil {
		return fault.New(fault.Invalid, "", "The document names no server that can be called (%.200q); set config.base_url.", base).Because(err)
	}
	if s.Kernel.Egress != nil {
		if err := s.Kernel.Egress(ctx, v.TenantID, base); err != nil {
			return err
		}
	}
	config, err := withMember(v.Config, "base_url", base)
	if err == nil {
		v.Config = config
	}
	return err
}

type itemIn struct {
	ID string `path:"integrationId"`
}

type list struct {
	_ struct{} `json:"-" name:"IntegrationList"`

	Integrations []view `json:"integrations" required:"true"`
	Total        int    `json:"total" required:"true"`
}

func (s *Integrations) list(ctx context.Context, who authz.Caller, _ *struct{}) (list, error) {
	all, err := s.store.List(ctx, who.TenantID, resource.Find{Limit: maxIntegrations})
	out := list{Integrations: make([]view, 0, len(all)), Total: len(all)}
	for _, v := range all {
		out.Integrations = append(out.Integrations, viewOf(v))
	}
	return out, err
}

func (s *Integrations) get(ctx context.Context, who authz.Caller, in *itemIn) (view, error) {
	v, err := s.store.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return view{}, err
	}
	return viewOf(v), nil
}

type changeBody struct {
	_ struct{} `json:"-" name:"IntegrationChange"`

	Name     *string       `json:"name,omitzero" minLength:"1" maxLength:"200" doc:"Name of the integration."`
	Config   schema.Object `json:"config,omitzero" doc:"Settings that change: members that are absent keep their value, null removes one, and [stored] keeps a secret."`
	Assigned *[]string     `json:"assigned_agent_ids,omitzero" doc:"The agents that get its tools, as the complete list."`
	Enabled  *bool         `json:"enabled,omitzero" doc:"Whether agents get its tools."`
	Metadata schema.Object `json:"metadata,omitzero" doc:"Data of your own, replaced as a whole. Kept and shown; has no effect yet."`
}

type changeIn struct {
	ID   string `path:"integrationId"`
	Body changeBody
}

func (s *Integrations) change(ctx context.Context, who authz.Caller, in *changeIn) (view, error) {
	v, err := s.alter(ctx, who, in.ID, &in.Body, asView)
	if err != nil {
		return view{}, err
	}
	return viewOf(v), nil
}

// alter changes an integration, and connects with its service again if its settings
// changed.
func (s *Integrations) alter(
	ctx context.Context, who authz.Caller, id string, in *changeBody, answer func(*Integration) any,
) (*Integration, error) {
	old, err := s.store.Get(ctx, who.TenantID, id)
	if err != nil {
		return nil, err
	}
	c := s.enabled(old.ConnectorID)
	if c == nil {
		return nil, fault.New(fault.Conflict, "", "The operator switched the connector %s off; the integration can only be deleted.",
			old.ConnectorID)
	}
	changed := *old
	if in.Name != nil {
		changed.Name = *in.Name
	}
	if in.Assigned != nil {
		changed.Assigned = distinct(*in.Assigned)
	}
	if in.Enabled != nil {
		changed.Enabled = *in.Enabled
	}
	if in.Metadata != nil {
		changed.Metadata = in.Metadata
	}
	document, err := c.merged(&changed, jsontext.Value(in.Config))
	if err != nil {
		return nil, err
	}
	if err := s.admit(ctx, c, &changed, old, ""); err != nil {
		return nil, err
	}
	if in.Config != nil || changed.Enabled && !old.Enabled {
		document = s.connect(ctx, c, &changed, document)
	}
	return s.replace(ctx, who, old, &changed, document, answer)
}

// replace stores a changed integration, unless it was changed meanwhile. answer returns
// what the caller is answered.
func (s *core) replace(
	ctx context.Context, who authz.Caller, old, changed *Integration, document []byte, answer func(*Integration) any,
) (v *Integration, err error) {
	ctx = txn.WithAnswer(ctx, func() any { return answer(v) })
	err = s.Kernel.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		v, err = s.store.UpdateTx(tx, who, old.ID, func(v *Integration) error {
			if err := route.Match(tx.Context(), viewOf(v)); err != nil {
				return err
			}
			if v.Version != old.Version {
				return fault.Changed("integration")
			}
			meta := v.Meta
			*v = *changed
			v.Meta = meta
			return nil
		})
		if err != nil {
			return err
		}
		return s.putDocument(tx, v, document)
	})
	return v, err
}

func (s *Integrations) remove(ctx context.Context, who authz.Caller, in *itemIn) (*route.Reply, error) {
	err := s.Kernel.Writer.Write(ctx, func(tx txn.Tx) error {
		v, err := s.store.GetTx(tx, who.TenantID, in.ID)
		if err != nil {
			return err
		}
		if err := route.Match(tx.Context(), viewOf(v)); err != nil {
			return err
		}
		return s.store.DeleteTx(tx, who, in.ID)
	})
	return &route.Reply{Status: 204}, err
}

// testResult is the outcome of a test, which is 200 also where the test failed.
type testResult struct {
	_ struct{} `json:"-" name:"IntegrationTest"`

	Success   bool    `json:"success" required:"true"`
	OK        bool    `json:"ok" required:"true" doc:"The same as success."`
	Message   string  `json:"message,omitzero" doc:"What works, or why it does not."`
	LatencyMS float64 `json:"latency_ms" required:"true"`
}

func (s *Integrations) test(ctx context.Context, who authz.Caller, in *itemIn) (testResult, error) {
	v, err := s.store.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return testResult{}, err
	}
	return s.tried(ctx, v), nil
}

// tried tests an integration without changing it.
func (s *Integrations) tried(ctx context.Context, v *Integration) testResult {
	c := s.enabled(v.ConnectorID)
	if c == nil {
		return testResult{Message: "The operator switched this connector off."}
	}
	if v.NeedsAuth {
		return testResult{Message: "A person must authorize it first: POST /api/v1/integrations/" + c.provider() + "/oauth/start."}
	}
	ctx, cancel := context.WithTimeout(authz.WithTenant(ctx, v.TenantID), connectTimeout)
	defer cancel()
	start := time.Now()
	copied := *v
	_, err := s.try(ctx, c, &copied, nil)
	out := testResult{LatencyMS: float64(time.Since(start).Microseconds()) / 1000}
	if err != nil {
		out.Message = explain(v, err)
		return out
	}
	out.Success, out.OK = true, true
	out.Message = fmt.Sprintf("The connection works. Tools: %d.", copied.Tools)
	return out
}

// sync connects again, reads the OpenAPI document again, and records the outcome.
func (s *Integrations) sync(ctx context.Context, who authz.Caller, in *itemIn) (view, error) {
	old, err := s.store.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return view{}, err
	}
	c := s.enabled(old.ConnectorID)
	if c == nil {
		return view{}, fault.New(fault.Conflict, "", "The operator switched this connector off.")
	}
	changed := *old
	document := s.connect(ctx, c, &changed, nil)
	v, err := s.replace(ctx, who, old, &changed, document, asView)
	if err != nil {
		return view{}, err
	}
	return viewOf(v), nil
}

type catalogueList struct {
	_ struct{} `json:"-" name:"IntegrationCatalog"`

	Connectors []*Connector `json:"connectors" required:"true"`
}

func (s *Integrations) listCatalogue(context.Context, authz.Caller, *struct{}) (catalogueList, error) {
	out := catalogueList{Connectors: []*Connector{}}
	for _, c := range s.catalogue.all {
		if s.enabled(c.ID) != nil {
			out.Connectors = append(out.Connectors, c)
		}
	}
	return out, nil
}
