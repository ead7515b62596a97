package agentkey

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"

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
	seed, err := base64.StdEncoding.DecodeString(p.Private)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, nil, fault.New(fault.Internal, "", "The private key of agent %s cannot be read.", agent)
	}
	private := ed25519.NewKeyFromSeed(seed)
	return private.Public().(ed25519.PublicKey), ed25519.Sign(private, payload), nil
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
