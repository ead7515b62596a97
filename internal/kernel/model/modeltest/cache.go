package modeltest

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// PrefixCache simulates a provider that keeps the beginnings of prompts, message by
// message, for ever. Safe for concurrent use.
type PrefixCache struct {
	mu            sync.Mutex
	prompts       [][][]byte
	input, cached int
}

// Usage returns the usage of a call, with the part of its prompt that an earlier one
// began with, and keeps the prompt. A token is four bytes.
func (c *PrefixCache) Usage(r Request) *model.Usage {
	prompt := promptOf(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	longest := 0
	for _, earlier := range c.prompts {
		n := 0
		for n < min(len(earlier), len(prompt)) && bytes.Equal(earlier[n], prompt[n]) {
			n++
		}
		longest = max(longest, n)
	}
	c.prompts = append(c.prompts, prompt)
	u := &model.Usage{InputTokens: size(prompt), CachedTokens: size(prompt[:longest]), OutputTokens: 10}
	c.input += u.InputTokens
	c.cached += u.CachedTokens
	return u
}

// Share returns the part of all input that came from the cache.
func (c *PrefixCache) Share() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(c.cached) / float64(max(1, c.input))
}

// promptOf returns a request's tools and messages in the order of a prompt.
func promptOf(r Request) [][]byte {
	var body struct {
		Tools    jsontext.Value   `json:"tools"`
		Messages []jsontext.Value `json:"messages"`
	}
	if json.Unmarshal(r.Body, &body) != nil {
		return nil
	}
	prompt := [][]byte{body.Tools}
	for _, m := range body.Messages {
		prompt = append(prompt, m)
	}
	return prompt
}

func size(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n / 4
}
