package agentkey

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
)

// Sign signs a payload in the name of an agent, which gets its key pair now if it has
// none yet. public is the key by which the signature is verified. Errors:
// fault.NotFound for an agent that does not exist, or whose identity was deleted.
func (k *Keys) Sign(ctx context.Context, tenant, agent string, payload []byte) (public ed25519.PublicKey, signature []byte, err error) {
	p, err := k.pair(ctx, authz.Caller{TenantID: tenant}, agent)
	if err != nil {
		return nil, nil, err
	}
	private, err := p.private(agent)
	if err != nil {
		return nil, nil, err
	}
	return private.Public().(ed25519.PublicKey), ed25519.Sign(private, payload), nil
}

// jwk is an Ed25519 public key as a JSON Web Key (RFC 8037).
type jwk struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"`
}

// SignJWS returns claims that an agent signed, as a compact JSON Web Signature (RFC 7515):
// EdDSA, with the agent's id as kid and its public key as jwk. It is "" for an agent
// without an identity.
func (k *Keys) SignJWS(ctx context.Context, tenant, agent string, claims any) (string, error) {
	pair, err := k.pair(ctx, authz.Caller{TenantID: tenant}, agent)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	private, err := pair.private(agent)
	if err != nil {
		return "", err
	}
	header, err := json.Marshal(struct {
		Algorithm string `json:"alg"`
		KeyID     string `json:"kid"`
		Key       jwk    `json:"jwk"`
	}{"EdDSA", agent, jwk{"OKP", "Ed25519", base64.RawURLEncoding.EncodeToString(private.Public().(ed25519.PublicKey))}})
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(payload)
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(signed))), nil
}

// private returns the private key of a pair of an agent.
func (p *Pair) private(agent string) (ed25519.PrivateKey, error) {
	seed, err := base64.StdEncoding.DecodeString(p.Private)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fault.New(fault.Internal, "", "The private key of agent %s cannot be read.", agent)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// Verify checks a signature that Sign returned for an agent and a payload. Signatures
// end with the pair that made them: Verify refuses those of a pair that was replaced.
// Errors: fault.Forbidden for a signature that does not fit; fault.NotFound for an
// agent without an identity.
func (k *Keys) Verify(ctx context.Context, tenant, agent string, payload, signature []byte) error {
	p, err := k.store.Get(ctx, tenant, agent)
	if err != nil {
		return err
	}
	if p.PublicKey == "" {
		return noIdentity()
	}
	public, err := base64.StdEncoding.DecodeString(p.PublicKey)
	if err != nil || len(public) != ed25519.PublicKeySize || !ed25519.Verify(public, payload, signature) {
		return fault.New(fault.Forbidden, "SIGNATURE_INVALID", "The signature is not one of agent %s.", agent)
	}
	return nil
}
