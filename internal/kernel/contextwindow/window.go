// Package contextwindow selects the messages that fit the context window of a
// model when the whole conversation does not: which ones are left out of a
// request, which ones a summary replaces, and how the summary is made. Its
// functions are pure: the same messages and limits have the same result on every
// node.
//
// An assistant's tool calls and their results stay or go together. Some messages
// always stay: system messages, the newest message of the user, which is what
// the model works on, and the last message.
package contextwindow

import (
	"slices"

	"agentd/internal/kernel/model"
)

// unbound is the head of a message that belongs to no unit: a system message, or
// a tool's result without its call.
const unbound = -1

// heads returns, for each message, the index of the message with which it stays
// or goes: for a tool's result the newest assistant's message before it that
// made the call, for others the message itself.
func heads(messages []model.Message) []int {
	at := make([]int, len(messages))
	callers := map[string]int{}
	for i := range messages {
		m := &messages[i]
		at[i] = i
		switch m.Role {
		case model.System:
			at[i] = unbound
		case model.Tool:
			at[i] = unbound
			if caller, ok := callers[m.ToolCallID]; ok {
				at[i] = caller
				delete(callers, m.ToolCallID) // a second result has no call
			}
		}
		for _, c := range m.ToolCalls {
			callers[c.ID] = i
		}
	}
	return at
}

// request returns the index of the newest message of the user, or -1.
func request(messages []model.Message) int {
	for i := range slices.Backward(messages) {
		if messages[i].Role == model.User && !messages[i].Summary {
			return i
		}
	}
	return -1
}

// units is a conversation divided into groups of messages that stay or go
// together. A unit is identified by its head.
type units struct {
	head    []int // of each message
	tokens  []int // of each unit, at its head; 0 elsewhere
	count   []int // messages of each unit, at its head
	fixed   int   // tokens of the messages that are always kept
	request int
	newest  int // head of the last message; -1: there are only system messages
}

func parse(messages []model.Message, sizes []int) units {
	u := units{
		head: heads(messages), tokens: make([]int, len(messages)), count: make([]int, len(messages)),
		request: request(messages), newest: -1,
	}
	for i, h := range u.head {
		switch {
		case alwaysKept(&messages[i]):
			u.fixed += sizes[i]
			if messages[i].Summary {
				u.head[i] = unbound
			}
		case h != unbound:
			u.tokens[h] += sizes[i]
			u.count[h]++
			u.newest = max(u.newest, h)
		}
	}
	return u
}

// alwaysKept reports whether a message stays whatever its place.
func alwaysKept(m *model.Message) bool { return m.Role == model.System || m.Summary }

// selection is what stays of a conversation if the units from a cut on stay.
type selection struct {
	cut      int
	tokens   int
	messages int
}

// minimum returns the selection of what must stay.
func (u *units) minimum() selection {
	k := selection{cut: u.newest, tokens: u.fixed}
	if u.newest < 0 {
		return k
	}
	k.tokens += u.tokens[u.newest]
	k.messages += u.count[u.newest]
	if u.request >= 0 && u.request < u.newest {
		k.tokens += u.tokens[u.request]
		k.messages += u.count[u.request]
	}
	return k
}

// grow adds older units to the selection, one after the other, for as long as
// may accepts the larger selection in place of the present one.
func (u *units) grow(k selection, may func(now, next selection) bool) selection {
	for p := k.cut - 1; p >= 0; p-- {
		if u.count[p] == 0 {
			continue
		}
		next := selection{p, k.tokens + u.tokens[p], k.messages + u.count[p]}
		if p == u.request {
			next.tokens, next.messages = k.tokens, k.messages
		}
		if !may(k, next) {
			break
		}
		k = next
	}
	return k
}

// Limits bound what a model reads. 0 is no limit.
type Limits struct {
	Tokens   int // by the estimates that come with the messages
	Messages int // without system messages and summaries
}

// keptShare is how much of its limits a conversation keeps when it is cut, in percent.
// But what is within minKeptTokens and minKeptMessages is kept: no provider's cache
// knows prompts that are shorter, and of a small window a part would be too little.
const (
	keptShare       = 60
	minKeptTokens   = 1024
	minKeptMessages = 8
)

// steadyCut returns where a conversation is cut if, each time that it outgrew its
// limits, it was cut down to a part of them at once. So the cut moves seldom, and what a
// model reads begins as in the call before, which caches of prompts need. It depends only
// on the units up to the newest one, and not on what is decided for them elsewhere.
func (u *units) steadyCut(within func(tokens, messages int) bool, l Limits) int {
	kept := func(n, limit, least int) bool { return limit <= 0 || n <= max(limit*keptShare/100, min(limit, least)) }
	cut, tokens, count := 0, u.fixed, 0
	for p := range u.count {
		tokens += u.tokens[p]
		count += u.count[p]
		if within(tokens, count) {
			continue
		}
		for ; cut < p && !(kept(tokens, l.Tokens, minKeptTokens) && kept(count, l.Messages, minKeptMessages)); cut++ {
			tokens -= u.tokens[cut]
			count -= u.count[cut]
		}
	}
	return min(cut, u.newest)
}

// Fit returns the messages that a model reads: all of them if they are within
// the limits; else the system messages, the newest message of the user and the
// newest others that are within a part of the limits (steadyCut), never a tool's
// result without its call nor a call without its results. Messages that must stay are
// returned even beyond the limits. sizes are the messages' estimates (Meter). The
// result may be messages itself.
func Fit(messages []model.Message, sizes []int, l Limits) []model.Message {
	total, talk := 0, 0
	for i := range messages {
		total += sizes[i]
		if !alwaysKept(&messages[i]) {
			talk++
		}
	}
	within := func(tokens, messages int) bool {
		return (l.Tokens <= 0 || tokens <= l.Tokens) && (l.Messages <= 0 || messages <= l.Messages)
	}
	if within(total, talk) {
		return messages
	}
	u := parse(messages, sizes)
	k := u.grow(u.minimum(), func(_, next selection) bool { return within(next.tokens, next.messages) })
	k.cut = max(k.cut, u.steadyCut(within, l))
	if l.Messages <= 0 && k.cut < u.request {
		// Only whole turns are kept: many models expect the user to begin.
		for messages[k.cut].Role != model.User {
			k.cut++
		}
	}
	out := make([]model.Message, 0, len(messages))
	for i := range messages {
		if alwaysKept(&messages[i]) || i == u.request || u.head[i] != unbound && u.head[i] >= k.cut {
			out = append(out, messages[i])
		}
	}
	return out
}
