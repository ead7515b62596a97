package a2aserver

import (
	"context"
	"encoding/base64"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

type (
	cardIn struct {
		AgentID string `query:"agent_id" doc:"The agent. Required."`
	}
	agentCardIn struct {
		AgentID string `path:"agentId"`
	}
	skillDoc struct {
		_ struct{} `json:"-" name:"A2ACardSkill"`

		ID          string   `json:"id" required:"true"`
		Name        string   `json:"name" required:"true"`
		Description string   `json:"description" required:"true"`
		Tags        []string `json:"tags" required:"true"`
		Examples    []string `json:"examples" required:"true"`
	}
	signatureDoc struct {
		_ struct{} `json:"-" name:"A2ACardSignature"`

		Protected string        `json:"protected" required:"true" doc:"The protected header of the JWS, in base64url."`
		Signature string        `json:"signature" required:"true" doc:"The signature, in base64url."`
		Header    schema.Object `json:"header" required:"true" doc:"The public key, as jwk."`
	}
	// cardDoc is the published schema of a card: its members are those of the protocol.
	cardDoc struct {
		_ struct{} `json:"-" name:"A2AAgentCard" additionalProperties:"true"`

		Name            string         `json:"name" required:"true"`
		Description     string         `json:"description" required:"true"`
		URL             string         `json:"url" required:"true" doc:"Where its JSON-RPC messages go."`
		AgentID         string         `json:"agent_id" format:"uuid" required:"true"`
		Version         string         `json:"version" required:"true" doc:"Of the agent's configuration."`
		SchemaVersion   string         `json:"schema_version" required:"true"`
		ProtocolVersion string         `json:"protocol_version" required:"true" doc:"The version of url; supportedInterfaces has all."`
		Skills          []skillDoc     `json:"skills" required:"true"`
		Signatures      []signatureDoc `json:"signatures,omitzero" doc:"JWS over the canonical JSON (RFC 8785) of the card without this member."`
	}
)

// Routes returns the operations that read cards.
func (s *Server) Routes() []route.Route {
	row := func(path, id, doc string) route.Row {
		return route.Row{
			Method: "GET", Path: path, ID: id, Tag: "A2A", Summary: "Get the card of an agent", Public: true, Errors: []int{404, 422}, Doc: doc,
			Refused:  "agent.card_refused",
			AnswerOf: reflect.TypeFor[cardDoc](),
		}
	}
	named := func(ctx context.Context, _ authz.Caller, in *cardIn) (*route.Reply, error) {
		if in.AgentID == "" {
			return nil, fault.BadFields(fault.Field{Field: "agent_id", Message: "it is missing; name the agent whose card you want"})
		}
		return s.publicCard(ctx, in.AgentID)
	}
	const published = "What the agent can do and how it is reached, in the terms of the Agent2Agent protocol. An agent has a public card " +
		"where its visibility is public and its public_config is enabled, or its a2a is enabled and public; others are 404."
	return []route.Route{
		route.Action(row("/.well-known/agent.json", "getAgentCard", published), named),
		route.Action(row("/.well-known/agent-card.json", "getAgentCardByNewPath",
			"The same as getAgentCard, at the path of protocol 0.3 and later."), named),
		route.Action(row(Path+"/agents/{agentId}/.well-known/agent-card.json", "getAgentCardOfAgent",
			"The same as getAgentCard, for clients that look for a card below the URL of an agent."),
			func(ctx context.Context, _ authz.Caller, in *agentCardIn) (*route.Reply, error) {
				return s.publicCard(ctx, in.AgentID)
			}),
	}
}

// publicCard returns the card of an agent that has a public one.
func (s *Server) publicCard(ctx context.Context, agentID string) (*route.Reply, error) {
	if !ident.Valid(agentID) {
		return nil, fault.NewNotFound("agent")
	}
	tenant, err := s.Owner(ctx, agentID)
	if err != nil {
		return nil, err
	}
	g, err := s.Agents.Get(ctx, tenant, agentID)
	if err != nil {
		return nil, err
	}
	if !g.Published() || g.Status != agent.Active {
		return nil, fault.NewNotFound("agent")
	}
	card, err := s.cardOf(ctx, tenant, &g)
	return &route.Reply{JSON: card}, err
}

// card returns the card of the agent that a message is to, also of one without a public
// card.
func (c *call) card(ctx context.Context) (any, error) {
	id := c.agent()
	if !ident.Valid(id) {
		return nil, &rpcError{Code: codeInvalidParams, Message: "The message names no agent: send it to the URL of the agent's card."}
	}
	g, err := c.s.Agents.Get(ctx, c.who.TenantID, id)
	if err != nil {
		return nil, err
	}
	card, err := c.s.cardOf(ctx, c.who.TenantID, &g)
	return jsontext.Value(card), err
}

// object is JSON with the members of several versions of the protocol, which no type of
// the SDK has.
type object = map[string]any

var (
	inputModes  = []string{"text/plain", "application/json", "image/png", "image/jpeg", "application/pdf"}
	outputModes = []string{"text/plain"}
)

// cardOf returns the card of an agent, signed where it has an identity.
func (s *Server) cardOf(ctx context.Context, tenant string, g *agent.Agent) ([]byte, error) {
	url := s.PublicURL() + Path + "?agent_id=" + g.ID
	interfaceOf := func(version string) object {
		return object{"url": url, "protocolBinding": "JSONRPC", "transport": "JSONRPC", "protocolVersion": version}
	}
	card := object{
		"name": g.Name, "description": g.Description, "version": g.VersionNo, "agent_id": g.ID,
		"url": url, "preferredTransport": "JSONRPC", "protocolVersion": version03, "protocol_version": version03, "schema_version": "1.0",
		"supportedInterfaces": []object{interfaceOf(version10), interfaceOf(version03)},
		"capabilities": object{
			"streaming": true, "pushNotifications": true, "push_notifications": true, "extendedAgentCard": true,
			"stateTransitionHistory": false, "state_transition_history": false,
		},
		"supportsAuthenticatedExtendedCard": true,
		"skills":                            skillsOf(g),
		"defaultInputModes":                 inputModes, "default_input_modes": inputModes,
		"defaultOutputModes": outputModes, "default_output_modes": outputModes,
		"authentication": object{"type": "apiKey", "header": "Authorization", "schemes": []string{"Bearer"}},
		"securitySchemes": object{
			"bearer": object{"type": "http", "scheme": "bearer", "httpAuthSecurityScheme": object{"scheme": "bearer"}},
		},
		"security":             []object{{"bearer": []string{}}},
		"securityRequirements": []object{{"schemes": object{"bearer": []string{}}}},
		"mcp_resources":        []string{},
	}
	addOwn(card, g)
	return s.signed(ctx, tenant, g.ID, card)
}

// ownMembers are the members that an agent's a2a.agent_card may set.
var ownMembers = []string{"name", "description", "version", "documentationUrl", "iconUrl", "provider", "skills"}

// addOwn sets the members that the agent's a2a.agent_card has.
func addOwn(card object, g *agent.Agent) {
	var own map[string]jsontext.Value
	if c := g.Peers().Card; len(c) == 0 || json.Unmarshal(c, &own) != nil {
		return
	}
	for _, name := range ownMembers {
		if v := own[name]; len(v) > 0 && v.Kind() != 'n' {
			card[name] = v
		}
	}
}

// skillsOf returns what the agent can do; an agent that says nothing has one skill, that
// is itself.
func skillsOf(g *agent.Agent) []object {
	skills := []object{}
	for _, raw := range g.Skills {
		var k agent.Skill
		if json.Unmarshal(raw, &k) != nil || k.Name == "" {
			continue
		}
		id := first(k.ID, k.Name)
		skills = append(skills, object{
			"id": id, "name": k.Name, "description": k.Description, "tags": orEmpty(k.Tags), "examples": orEmpty(k.Examples),
		})
	}
	if len(skills) == 0 {
		skills = append(skills, object{
			"id": "agent", "name": g.Name, "description": first(g.Description, g.Name), "tags": []string{}, "examples": []string{},
		})
	}
	return skills
}

func orEmpty(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

// signed returns a card as canonical JSON, with the signature of the agent's identity
// where it has one.
func (s *Server) signed(ctx context.Context, tenant, agentID string, card object) ([]byte, error) {
	payload, err := canonical(card)
	if err != nil || s.Sign == nil {
		return payload, err
	}
	header, err := canonical(object{"alg": "EdDSA", "typ": "JOSE", "kid": agentID})
	if err != nil {
		return nil, err
	}
	protected := base64.RawURLEncoding.EncodeToString(header)
	public, signature, err := s.Sign(ctx, tenant, agentID, []byte(protected+"."+base64.RawURLEncoding.EncodeToString(payload)))
	if err != nil || signature == nil {
		return payload, err
	}
	card["signatures"] = []object{{
		"protected": protected, "signature": base64.RawURLEncoding.EncodeToString(signature),
		"header": object{"jwk": object{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(public)}},
	}}
	return canonical(card)
}

// canonical returns JSON in its canonical form (RFC 8785).
func canonical(o object) ([]byte, error) {
	text, err := json.Marshal(o, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	v := jsontext.Value(text)
	return v, v.Canonicalize(jsontext.AllowInvalidUTF8(true))
}
