package identity

import "agentd/internal/txn"

// Forget makes a change of members or tenants count for their credentials once
// tx commits: on this node at once, elsewhere within a second.
func (s *Service) Forget(tx txn.Tx) {
	tx.AfterCommit(func() {
		s.cache.byPrefix.InvalidateAll()
		s.cache.byID.InvalidateAll()
	})
}
