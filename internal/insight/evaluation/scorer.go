package evaluation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/pattern"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/jsonform"
	"agentd/internal/kernel/resource"
)

// The types of scorers.
const (
	exact      = "exact"
	contains   = "contains"
	regex      = "regex"
	jsonSchema = "json_schema"
	numeric    = "numeric"
	toolCalls  = "tool_calls"
	embedding  = "embedding"
	byModel    = "judge"
	hook       = "webhook"
)

// builtIn are the types that need no configuration: their names stand for a scorer of the
// type that need not be created.
var builtIn = []string{exact, contains, numeric, toolCalls, embedding}

// Config says how a scorer scores.
type Config struct {
	_ struct{} `json:"-" name:"EvalScorerConfig"`

	Type            string        `json:"type" required:"true" enum:"exact,contains,regex,json_schema,numeric,tool_calls,embedding,judge,webhook" doc:"How it scores. exact, contains, numeric and embedding compare the answer with the case's expected_output, tool_calls the calls with its expected_tool_calls; regex and json_schema look at the answer alone; judge asks a model, webhook calls an address of yours."`
	Threshold       *float64      `json:"threshold,omitzero" minimum:"0" maximum:"1" doc:"A case passes with this score or a higher one. Default: 1; of embedding 0.8, of judge and webhook 0.5."`
	IgnoreCase      bool          `json:"ignore_case,omitzero" doc:"Of exact and contains: capital and small letters are the same."`
	Pattern         string        `json:"pattern,omitzero" maxLength:"10000" doc:"Of regex: the expression, in RE2 syntax, that the answer must have a match of."`
	Schema          schema.Object `json:"schema,omitzero" doc:"Of json_schema: the JSON Schema that the answer must fit, as a whole."`
	Tolerance       float64       `json:"tolerance,omitzero" minimum:"0" doc:"Of numeric: how far the last number of the answer may be from the expected one. Default: 0."`
	AllowExtraCalls bool          `json:"allow_extra_calls,omitzero" doc:"Of tool_calls: other calls may stand between those that are expected."`
	Model           string        `json:"model,omitzero" maxLength:"300" doc:"Of judge: the model that judges, as <provider>/<model>."`
	Rubric          string        `json:"rubric,omitzero" maxLength:"20000" doc:"Of judge: what makes an answer good, in words for the model."`
	URL             string        `json:"url,omitzero" maxLength:"2000" doc:"Of webhook: the public address that is sent the case and the answer, and answers {score, reason}, with a score from 0 to 1."`
	TimeoutMS       int64         `json:"timeout_ms,omitzero" minimum:"0" maximum:"60000" doc:"Of webhook and judge: milliseconds until it counts as failed, up to 60,000. Default: 10,000 of webhook, 60,000 of judge."`
}

// threshold returns the score from which a case passes.
func (c *Config) threshold() float64 {
	switch {
	case c.Threshold != nil:
		return *c.Threshold
	case c.Type == embedding:
		return 0.8
	case c.Type == byModel || c.Type == hook:
		return 0.5
	}
	return 1
}

func (c *Config) timeout() time.Duration {
	switch {
	case c.TimeoutMS > 0:
		return time.Duration(c.TimeoutMS) * time.Millisecond
	case c.Type == byModel:
		return time.Minute
	}
	return 10 * time.Second
}

// check returns every field that does not fit the type.
func (c *Config) check(checkURL func(string) error) (wrong []fault.Field) {
	add := func(field, format string, args ...any) {
		wrong = append(wrong, fault.Field{Field: "config." + field, Message: fmt.Sprintf(format, args...)})
	}
	for _, f := range []struct {
		name  string
		set   bool
		needs bool
		types []string
	}{
		{"ignore_case", c.IgnoreCase, false, []string{exact, contains}},
		{"pattern", c.Pattern != "", true, []string{regex}},
		{"schema", len(c.Schema) > 0, true, []string{jsonSchema}},
		{"tolerance", c.Tolerance != 0, false, []string{numeric}},
		{"allow_extra_calls", c.AllowExtraCalls, false, []string{toolCalls}},
		{"model", c.Model != "", true, []string{byModel}},
		{"rubric", strings.TrimSpace(c.Rubric) != "", true, []string{byModel}},
		{"url", c.URL != "", true, []string{hook}},
		{"timeout_ms", c.TimeoutMS != 0, false, []string{byModel, hook}},
	} {
		switch of := slices.Contains(f.types, c.Type); {
		case f.set && !of:
			add(f.name, "a scorer of the type %s does not have it; leave it out", c.Type)
		case !f.set && of && f.needs:
			add(f.name, "a scorer of the type %s needs it", c.Type)
		}
	}
	if wrong != nil {
		return wrong
	}
	switch c.Type {
	case regex:
		if _, err := pattern.Compile(c.Pattern); err != nil {
			add("pattern", "%s", err)
		}
	case jsonSchema:
		if _, err := jsonform.Compile(jsontext.Value(c.Schema), "the schema"); err != nil {
			add("schema", "it is no JSON Schema: %s", err)
		}
	case hook:
		if err := checkURL(c.URL); err != nil {
			add("url", "%s", err)
		}
	}
	return wrong
}

// Scorer is a scorer of an agent.
type Scorer struct {
	resource.Meta `json:"-"`

	AgentID string `json:"agent_id"`
	Name    string `json:"name"`
	Config  Config `json:"config"`
}

func (s *Service) scorerKind() resource.Kind[Scorer] {
	return resource.Kind[Scorer]{
		Name: "scorer", Path: "/api/v1/scorers", IDField: "scorer_id", Tag: "Evaluations",
		Readers: resource.Access{Scopes: []authz.Scope{"evaluations:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"evaluations:write"}, Role: authz.Developer},
		Indexes: []resource.Index[Scorer]{{Name: "agent", Of: func(c *Scorer) string { return c.AgentID }}},
		Label:   func(c *Scorer) string { return c.Name },
		Addresses: func(c *Scorer) []egress.Address {
			if c.Config.URL == "" {
				return nil
			}
			return []egress.Address{{Field: "config.url", URL: c.Config.URL}}
		},
	}
}

// scorerView is a scorer as callers see it.
type scorerView struct {
	_ struct{} `json:"-" name:"AgentScorer"`

	ScorerID  string    `json:"scorer_id" format:"uuid" required:"true"`
	AgentID   string    `json:"agent_id" format:"uuid" required:"true"`
	TenantID  string    `json:"tenant_id" required:"true"`
	Name      string    `json:"name" required:"true"`
	Config    Config    `json:"config" required:"true"`
	CreatedAt time.Time `json:"created_at" required:"true"`
}

func viewOfScorer(c *Scorer) scorerView {
	return scorerView{ScorerID: c.ID, AgentID: c.AgentID, TenantID: c.TenantID, Name: c.Name, Config: c.Config, CreatedAt: c.CreatedAt}
}

type scorerIn struct {
	AgentID string `path:"agentId"`
	Body    struct {
		_ struct{} `json:"-" name:"AgentScorerCreate"`

		Name   string `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"What results call it; no other scorer of the agent may have the name."`
		Config Config `json:"config" required:"true" doc:"How it scores."`
	}
}

func (s *Service) createScorer(ctx context.Context, who authz.Caller, in *scorerIn) (*scorerView, error) {
	c := s.scorers.Blank()
	c.AgentID, c.Name, c.Config = in.AgentID, in.Body.Name, in.Body.Config
	wrong := c.Config.check(s.CheckURL)
	if strings.TrimSpace(c.Name) == "" {
		wrong = append(wrong, fault.Field{Field: "name", Message: "it is blank"})
	}
	if slices.Contains(builtIn, c.Name) {
		wrong = append(wrong, fault.Field{Field: "name", Message: "it is the name of a built-in scorer; choose another"})
	}
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	if c.Config.Type == embedding && s.Embed == nil {
		return nil, errNoEmbeddings()
	}
	if err := s.scorers.CheckAddresses(ctx, who.TenantID, nil, c); err != nil {
		return nil, err
	}
	var answer scorerView
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.AgentTx(tx, who.TenantID, in.AgentID); err != nil {
			return err
		}
		all, err := s.scorers.ListTx(tx, who.TenantID, ofAgent(in.AgentID, maxScorers))
		if err != nil {
			return err
		}
		if len(all) >= maxScorers {
			return fault.New(fault.Conflict, "COUNT_LIMIT_REACHED", "An agent has at most %d scorers. Delete some first.", maxScorers)
		}
		if slices.ContainsFunc(all, func(other *Scorer) bool { return other.Name == c.Name }) {
			return fault.New(fault.Conflict, "ALREADY_EXISTS", "The agent has a scorer of this name. Choose another name.")
		}
		made := *c
		if err := s.scorers.CreateTx(tx, who, &made); err != nil {
			return err
		}
		answer = viewOfScorer(&made)
		return txn.Answer(tx, &answer)
	})
	if err != nil {
		return nil, err
	}
	return &answer, nil
}

func errNoEmbeddings() error {
	return fault.New(fault.Unsupported, "embedding_unavailable",
		"No embedding model is configured on this deployment. Set AGENTD_EMBEDDING_MODEL, or use another type of scorer.")
}

func ofAgent(agentID string, limit int) resource.Find {
	return resource.Find{Where: map[string]string{"agent": agentID}, Limit: limit}
}

// chosen returns the scorers that an evaluation names, by their names or ids; names
// that no scorer of the agent has are those of built-in ones. None: all scorers of the agent, and of an
// agent without, those that compare with what cases expect.
func (s *Service) chosen(ctx context.Context, tenant, agentID string, names []string) ([]NamedConfig, error) {
	own, err := s.scorers.List(ctx, tenant, ofAgent(agentID, maxScorers))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		for _, c := range own {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		names = []string{exact, toolCalls}
	}
	var all []NamedConfig
	var wrong []fault.Field
	for i, name := range names {
		at := slices.IndexFunc(own, func(c *Scorer) bool { return c.ID == name || c.Name == name })
		var one NamedConfig
		switch {
		case at >= 0:
			one = NamedConfig{own[at].Name, own[at].Config}
		case slices.Contains(builtIn, name):
			one = NamedConfig{name, Config{Type: name}}
		default:
			wrong = append(wrong, fault.Field{Field: fmt.Sprintf("scorers[%d]", i),
				Message: "the agent has no such scorer; built in are " + strings.Join(builtIn, ", ")})
			continue
		}
		if one.Config.Type == embedding && s.Embed == nil {
			return nil, errNoEmbeddings()
		}
		if !slices.ContainsFunc(all, func(c NamedConfig) bool { return c.Name == one.Name }) {
			all = append(all, one)
		}
	}
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	return all, nil
}
