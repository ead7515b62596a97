package identity

import (
	"strings"

	"agentd/internal/base/txn"
)

// Credentials are cached for a moment (see credentials). A change of them is
// applied to the cache of this node immediately; other nodes are sent a hint,
// which may be lost.

const (
	keyKind     = "key"
	sessionKind = "session"
	allKinds    = "all"
)

// InvalidateAll makes a change of members or tenants (role, status, deletion)
// effective for their keys and sessions once tx commits: on this node
// immediately, elsewhere within a second. It invalidates every cached
// credential: such changes are rare, and credentials in use are read again
// every second anyway.
func (a *Authenticator) InvalidateAll(tx txn.Tx) {
	tx.AfterCommit(func() {
		a.cache.invalidateAll()
		a.sendHint(allKinds)
	})
}

// invalidate drops one credential from the caches of this and the other nodes.
func (a *Authenticator) invalidate(kind, prefix, id string) {
	a.cache.invalidate(kind, prefix, id)
	a.sendHint(kind + "/" + prefix + "/" + id)
}

func (a *Authenticator) sendHint(hint string) {
	if a.hint != nil {
		a.hint(hint)
	}
}

// Invalidate applies a hint of another node. It does not block.
func (a *Authenticator) Invalidate(hint string) {
	switch parts := strings.Split(hint, "/"); {
	case hint == allKinds:
		a.cache.invalidateAll()
	case len(parts) == 3:
		a.cache.invalidate(parts[0], parts[1], parts[2])
	}
}
