package mcp

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"agentd/internal/base/cache"
	"agentd/internal/kernel/tool"
)

// toolsetCache holds the compiled tools of agents: the schemas are expensive to
// compile and rarely change.
type toolsetCache struct {
	cache *cache.Cache[setKey, compiledSet]
}

type setKey struct{ tenant, agent string }

type compiledSet struct {
	fingerprint [sha256.Size]byte
	set         tool.Set
}

// maxCachedTools bounds the tools in the cache.
const maxCachedTools = 20_000

func newToolsetCache() *toolsetCache {
	return &toolsetCache{cache: cache.New(cache.Options[setKey, compiledSet]{
		Weight: maxCachedTools,
		Weigh:  func(_ setKey, c compiledSet) uint32 { return uint32(1 + c.set.Len()) },
	})}
}

func (s *toolsetCache) find(key setKey, fingerprint [sha256.Size]byte) (tool.Set, bool) {
	c, ok := s.cache.Get(key)
	return c.set, ok && c.fingerprint == fingerprint
}

func (s *toolsetCache) keep(key setKey, fingerprint [sha256.Size]byte, set tool.Set) {
	s.cache.Set(key, compiledSet{fingerprint, set})
}

// toolsetFingerprint hashes everything that an agent's tools are made of.
func toolsetFingerprint(f *Field, sources []*source) [sha256.Size]byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q", f.Tools, f.Resources)
	for _, src := range sources {
		version := uint64(0)
		if src.listing != nil {
			version = src.listing.Version
		}
		fmt.Fprintf(&b, "\n%s %q %s %t %d", src.ServerID, src.Name, src.Fingerprint, src.needsPerson, version)
	}
	return sha256.Sum256([]byte(b.String()))
}
