package anthropic

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"

	"agentd/internal/base/schema"
)

// CacheFields is the member by which clients ask that what is sent again with the next
// request is taken from a cache.
type CacheFields struct {
	_ struct{} `json:"-" name:"MessagesCaching"`

	CacheControl schema.Any `json:"cache_control,omitzero" doc:"Anywhere in a request: the model's provider is asked to cache the beginning of the prompt. agentd sets the marks."`
}

// cacheKey names what the requests of a tenant with this system prompt and these tools
// have in common, if the client asked for a cache anywhere; "": it did not.
func (r *Request) cacheKey(tenant string) string {
	if !r.asksForCache() {
		return ""
	}
	h := sha256.New()
	for _, part := range []string{tenant, r.Model, string(r.System)} {
		_, _ = io.WriteString(h, part+"\x00")
	}
	for i := range r.Tools {
		_, _ = io.WriteString(h, r.Tools[i].Name+"\x00"+string(r.Tools[i].InputSchema)+"\x00")
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (r *Request) asksForCache() bool {
	return asks(r.CacheControl) || namesCache(r.System) ||
		slices.ContainsFunc(r.Tools, func(t Tool) bool { return asks(t.CacheControl) }) ||
		slices.ContainsFunc(r.Messages, func(m Message) bool { return namesCache(m.Content) })
}

// asks reports whether a cache_control is an object, whatever is in it.
func asks(control schema.Any) bool { return len(control) > 0 && control[0] == '{' }

var cacheMember = []byte(`"cache_control"`)

// namesCache reports whether blocks have a cache_control. Text that contains the word has
// its quotation marks escaped.
func namesCache(blocks []byte) bool {
	for {
		at := bytes.Index(blocks, cacheMember)
		if at < 0 {
			return false
		}
		rest := bytes.TrimLeft(blocks[at+len(cacheMember):], ": \t\r\n")
		if at > 0 && blocks[at-1] != '\\' && len(rest) > 0 && rest[0] == '{' {
			return true
		}
		blocks = rest
	}
}
