package identity

import (
	"strings"

	"agentd/internal/base/txn"
)

// Credentials are believed for a moment; see credentials. What changes them says so
// here: on this node that counts at once, and other nodes are given a hint,
// which may be lost.

const (
	keyKind     = "key"
	sessionKind = "session"
	everyone    = "all"
)

// Forget makes a change of members or tenants (role, status, deletion) count
// for their keys and sessions once tx commits: on this node at once, elsewhere
// within a second. Such changes are rare and credentials in use are read again
// every second anyway, so every one is forgotten.
func (s *Service) Forget(tx txn.Tx) {
	tx.AfterCommit(func() {
		s.cache.forget()
		s.tell(everyone)
	})
}

// drop forgets one credential, here and elsewhere.
func (s *Service) drop(kind, findBy, id string) {
	s.cache.drop(kind, findBy, id)
	s.tell(kind + "/" + findBy + "/" + id)
}

func (s *Service) tell(hint string) {
	if s.hint != nil {
		s.hint(hint)
	}
}

// Hear takes a hint of another node. It does not block.
func (s *Service) Hear(hint string) {
	switch parts := strings.Split(hint, "/"); {
	case hint == everyone:
		s.cache.forget()
	case len(parts) == 3:
		s.cache.drop(parts[0], parts[1], parts[2])
	}
}
