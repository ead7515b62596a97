package constitution

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/audit"
)

// Root is the agent at the top of a company's agents, and what the founder signed
// about it.
type Root struct {
	AgentID     string       // "": none is set
	Attestation *Attestation // nil: there is none
}

// Attestation is what the founder signed: that an agent is the root agent, under these
// rules.
type Attestation struct {
	_ struct{} `json:"-" name:"RootAttestation"`

	RootAgentID      string    `json:"root_agent_id" required:"true"`
	FounderID        string    `json:"founder_id" required:"true" doc:"The member who first attested: the owner of the company."`
	FounderPublicKey string    `json:"founder_public_key" required:"true" doc:"The founder's Ed25519 key, in base64. Later attestations must be signed by it."`
	FounderSignature string    `json:"founder_signature" required:"true" doc:"In base64, over the lines: agentd root attestation, the ID of the company, root_agent_id, founder_id, constitution_hash."`
	ConstitutionHash string    `json:"constitution_hash" required:"true"`
	Version          int64     `json:"constitution_version" required:"true" doc:"The version of the constitution that has this hash."`
	AttestedAt       time.Time `json:"attested_at" required:"true"`
	Current          bool      `json:"current" doc:"Whether it still holds: the root agent and the rules are those that were signed."`
}

// Text returns what an attestation signs.
func (a *Attestation) Text(tenant string) []byte {
	return fmt.Appendf(nil, "agentd root attestation\n%s\n%s\n%s\n%s", tenant, a.RootAgentID, a.FounderID, a.ConstitutionHash)
}

// hashOf returns SHA-256, in hex, over the canonical JSON (RFC 8785) of rules.
func hashOf(rules []Rule) (string, error) {
	text, err := json.Marshal(rules)
	if err != nil {
		return "", err
	}
	canonical := jsontext.Value(text)
	if err := canonical.Canonicalize(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// RootAgent is the agent at the top of a company's agents.
type RootAgent struct {
	_ struct{} `json:"-" name:"RootAgent"`

	OK          bool    `json:"ok,omitzero" doc:"Whether it was set just now."`
	RootAgentID *string `json:"root_agent_id" doc:"Null where none is set."`
}

type rootAgentIn struct {
	Body struct {
		_ struct{} `json:"-" name:"RootAgentUpdate"`

		AgentID string `json:"agent_id" required:"true" minLength:"1" maxLength:"100" doc:"The agent that stands at the top of the company's agents."`
	}
}

type attestationIn struct {
	Body struct {
		_ struct{} `json:"-" name:"RootAttestationUpdate"`

		RootAgentID      string `json:"root_agent_id" required:"true" minLength:"1" maxLength:"100" doc:"The root agent, as it is set."`
		FounderID        string `json:"founder_id" required:"true" minLength:"1" maxLength:"100" doc:"The founder: whoever first attested. The first time it is the caller, who must be the owner."`
		FounderSignature string `json:"founder_signature" required:"true" minLength:"1" maxLength:"200" doc:"Ed25519 signature in base64, over five lines without one at the end: agentd root attestation, the ID of the company, root_agent_id, founder_id, constitution_hash."`
		ConstitutionHash string `json:"constitution_hash" required:"true" minLength:"1" maxLength:"200" doc:"The hash of the constitution that holds, as getConstitution returns it."`
		FounderPublicKey string `json:"founder_public_key,omitzero" maxLength:"200" doc:"The founder's Ed25519 public key in base64. Needed the first time; only the owner can set another one. Left out: the one that is kept."`
	}
}

// Attested is the answer to an attestation.
type Attested struct {
	_ struct{} `json:"-" name:"RootAttested"`

	OK bool `json:"ok" required:"true"`
}

func (s *Service) rootRoutes(row func(method, path, id, summary, doc string, refusals ...int) route.Row) []route.Route {
	gate := func(r route.Row) route.Row { r.Role = authz.Admin; return r }
	open := func(r route.Row) route.Row {
		r.Scopes, r.Role = []authz.Scope{"agents:read"}, ""
		return r
	}
	set := gate(row("PUT", "/root-agent", "setRootAgent", "Set the root agent",
		"The agent that stands at the top of the company's agents.", 404, 422))
	set.Example = `{"agent_id":"01a208c9-3505-7384-a98b-09054314b31a"}`
	attest := gate(row("PUT", "/root-attestation", "setRootAttestation", "Attest the root agent",
		"Keeps what the founder signed about the root agent and the rules, if the signature is the founder's.", 403, 404, 409, 422))
	attest.Example = `{"root_agent_id":"01a208c9-3505-7384-a98b-09054314b31a","founder_id":"01a208c9-3505-7384-a98b-09054314b31b",` +
		`"founder_signature":"…","constitution_hash":"…","founder_public_key":"…"}`
	return []route.Route{
		route.Action(open(row("GET", "/root-agent", "getRootAgent", "Get the root agent", "")), s.rootAgent),
		route.Action(set, s.setRootAgent),
		route.Action(open(row("GET", "/root-attestation", "getRootAttestation", "Get the attestation of the root agent",
			"With whether it still holds.", 404)), s.rootAttestation),
		route.Action(attest, s.attest),
		route.Action(open(row("POST", "/deadlock-check", "checkDeadlock", "Check the rules for deadlocks",
			"Finds requirements that prohibitions contradict: what an agent must do and may not. Nothing is changed.", 404)), s.checkDeadlock),
	}
}

func (s *Service) rootAgent(ctx context.Context, who authz.Caller, _ *struct{}) (*RootAgent, error) {
	root, err := s.Store.GetRoot(ctx, who.TenantID)
	if err != nil || root.AgentID == "" {
		return &RootAgent{}, err
	}
	return &RootAgent{RootAgentID: &root.AgentID}, nil
}

// changeRoot changes the root in a transaction of its own, with entries of the ledger
// and the audit log.
func (s *Service) changeRoot(
	ctx context.Context, who authz.Caller, kind string, answer any, change func(tx txn.Tx, st State, root *Root) (details any, err error),
) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		st, err := s.Store.LockStateTx(tx, who.TenantID)
		if err != nil {
			return err
		}
		root, err := s.Store.GetRootTx(tx, who.TenantID)
		if err != nil {
			return err
		}
		details, err := change(tx, st, &root)
		if err != nil {
			return err
		}
		if err := s.Store.UpdateRootTx(tx, who.TenantID, root); err != nil {
			return err
		}
		err = s.Ledger.AppendTx(tx, who.TenantID, ledger.Entry{
			Kind: kind, ActorUserID: who.UserID, SubjectAgentID: root.AgentID, Details: details,
		})
		if err != nil {
			return err
		}
		e := audit.Entry{Action: "governance." + kind[len("emergency."):], TargetType: "agent", TargetID: root.AgentID}
		if err := audit.Write(s.Audit, tx, who, e); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
}

func (s *Service) setRootAgent(ctx context.Context, who authz.Caller, in *rootAgentIn) (*RootAgent, error) {
	out := &RootAgent{OK: true, RootAgentID: &in.Body.AgentID}
	return out, s.changeRoot(ctx, who, "emergency.root_agent_set", out, func(tx txn.Tx, _ State, root *Root) (any, error) {
		before := struct {
			Before string `json:"root_agent_before"`
		}{root.AgentID}
		root.AgentID = in.Body.AgentID
		return before, s.checkAgentTx(tx, who.TenantID, root.AgentID)
	})
}

func (s *Service) checkAgentTx(tx txn.Tx, tenant, id string) error {
	if s.penalties.AgentTx == nil {
		return nil
	}
	return s.penalties.AgentTx(tx, tenant, id)
}

func (s *Service) rootAttestation(ctx context.Context, who authz.Caller, _ *struct{}) (*Attestation, error) {
	root, err := s.Store.GetRoot(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	if root.Attestation == nil {
		return nil, fault.New(fault.NotFound, "", "The root agent of the company was never attested.")
	}
	c, err := s.get(ctx, who, &getIn{})
	if err != nil {
		return nil, err
	}
	hash, err := hashOf(c.Rules)
	a := root.Attestation
	a.Current = a.RootAgentID == root.AgentID && a.ConstitutionHash == hash
	return a, err
}

func (s *Service) attest(ctx context.Context, who authz.Caller, in *attestationIn) (*Attested, error) {
	b := &in.Body
	a := &Attestation{
		RootAgentID: b.RootAgentID, FounderID: b.FounderID, FounderPublicKey: b.FounderPublicKey,
		FounderSignature: b.FounderSignature, ConstitutionHash: b.ConstitutionHash, AttestedAt: s.Clock.Now().Truncate(time.Microsecond),
	}
	out := &Attested{OK: true}
	return out, s.changeRoot(ctx, who, "emergency.root_attested", out, func(tx txn.Tx, st State, root *Root) (any, error) {
		if err := s.checkAgentTx(tx, who.TenantID, a.RootAgentID); err != nil {
			return nil, err
		}
		if root.AgentID != a.RootAgentID {
			return nil, fault.New(fault.Conflict, "", "The agent %s is not the root agent; set it first.", a.RootAgentID)
		}
		if err := a.pin(who, root.Attestation); err != nil {
			return nil, err
		}
		c, err := s.currentTx(tx, who.TenantID, st)
		if err != nil {
			return nil, err
		}
		hash, err := hashOf(c.Rules)
		if err != nil {
			return nil, err
		}
		if a.ConstitutionHash != hash {
			return nil, fault.BadFields(fault.Field{
				Field: "constitution_hash", Message: fmt.Sprintf("is not that of the constitution; version %d has the hash %s.", c.Version, hash),
			})
		}
		if err := a.verify(who.TenantID); err != nil {
			return nil, err
		}
		a.Version = c.Version
		root.Attestation = a
		return a, nil
	})
}

// pin completes the founder's key with the one that is kept. Another key, or another
// founder, is the owner's alone.
func (a *Attestation) pin(who authz.Caller, before *Attestation) error {
	if before != nil && (a.FounderPublicKey == "" || a.FounderPublicKey == before.FounderPublicKey) && a.FounderID == before.FounderID {
		a.FounderPublicKey = before.FounderPublicKey
		return nil
	}
	switch {
	case who.Role != authz.Owner:
		return fault.New(fault.Forbidden, "", "Only the founder, the owner of the company, sets who signs for it and with which key.")
	case a.FounderID != who.UserID:
		return fault.BadFields(fault.Field{Field: "founder_id", Message: "is not the caller, who is the founder."})
	case a.FounderPublicKey == "":
		return fault.BadFields(fault.Field{Field: "founder_public_key", Message: "is missing: no key of this founder is kept yet."})
	}
	return nil
}

// verify returns why the signature is not that of the founder's key; nil if it is.
func (a *Attestation) verify(tenant string) error {
	key, err := base64.StdEncoding.DecodeString(a.FounderPublicKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return fault.BadFields(fault.Field{
			Field: "founder_public_key", Message: fmt.Sprintf("is not an Ed25519 public key: %d bytes in base64.", ed25519.PublicKeySize),
		})
	}
	signature, err := base64.StdEncoding.DecodeString(a.FounderSignature)
	if err != nil || !ed25519.Verify(key, a.Text(tenant), signature) {
		return fault.BadFields(fault.Field{
			Field: "founder_signature",
			Message: fmt.Sprintf("is not a signature of the key %s, in base64, over these five lines: %q.",
				a.FounderPublicKey, a.Text(tenant)),
		})
	}
	return nil
}
