package openaiclient

import (
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"

	"agentd/internal/wire/modelcall"
)

// fastChunk reads an ordinary chunk or whole answer in a fraction of the time that
// decoding takes (measured by BenchmarkRead). Ordinary means one choice or
// none, text and reasoning as strings, usage with the usual numbers. Everything else,
// above all tool calls and errors, is left to the decoder; both read the same chunk to
// the same effect.
type fastChunk struct {
	scanner
	seen      member
	hasChoice bool   // it has a choice
	text      []byte // quoted, like the next two; nil: absent
	thinking  []byte
	reasoning []byte
	finish    []byte // plain, like the next two
	stop      []byte
	model     []byte
	usage     model.Usage
}

// member marks the members that must not occur twice.
type member uint16

const (
	choicesMember member = 1 << iota
	usageMember
	deltaMember
	contentMember
	reasoningContentMember
	reasoningMember
	finishMember
	cachedMember
	thinkingMember
	promptMember
	totalMember
	completionMember
	modelMember
	stopMember
)

// once fails if a member occurs twice.
func (q *fastChunk) once(m member) {
	if q.seen&m != 0 {
		q.fail()
	}
	q.seen |= m
}

// parse reports whether data is an ordinary chunk.
func (q *fastChunk) parse(data []byte) bool {
	*q = fastChunk{scanner: scanner{data: data}}
	for name := q.first(); name != nil; name = q.next() {
		switch string(name) {
		case "choices":
			q.once(choicesMember)
			q.choices()
		case "usage":
			q.once(usageMember)
			q.counts()
		case "model":
			q.once(modelMember)
			if !q.null() {
				q.model = q.plain()
			}
		case "object":
			if q.peek() != '"' || string(q.plain()) == "error" {
				q.fail()
			}
		case "error":
			if !q.null() {
				q.fail()
			}
		default:
			q.scalar()
		}
	}
	return q.atEnd() && q.seen&choicesMember != 0
}

func (q *fastChunk) choices() {
	q.expect('[')
	if q.accept(']') {
		return
	}
	for name := q.first(); name != nil; name = q.next() {
		switch string(name) {
		case "index":
			if q.count() != 0 {
				q.fail()
			}
		case "delta", "message":
			q.once(deltaMember)
			q.message()
		case "finish_reason":
			q.once(finishMember)
			if !q.null() {
				q.finish = q.plain()
			}
		case "stop_reason":
			q.once(stopMember)
			if q.peek() == '"' {
				q.stop = q.plain()
			} else {
				q.scalar()
			}
		default:
			q.scalar()
		}
	}
	q.expect(']')
	q.hasChoice = true
}

func (q *fastChunk) message() {
	for name := q.first(); name != nil; name = q.next() {
		switch string(name) {
		case "content":
			q.once(contentMember)
			q.text = q.optional()
		case "reasoning_content":
			q.once(reasoningContentMember)
			q.thinking = q.optional()
		case "reasoning":
			q.once(reasoningMember)
			q.reasoning = q.optional()
		case "tool_calls", "refusal":
			if !q.null() {
				q.fail()
			}
		default:
			q.scalar()
		}
	}
}

// optional reads a quoted string or null.
func (q *fastChunk) optional() []byte {
	if q.null() {
		return nil
	}
	return q.quoted()
}

func (q *fastChunk) counts() {
	if q.null() {
		return
	}
	var c modelcall.Counts
	for name := q.first(); name != nil; name = q.next() {
		switch string(name) {
		case "prompt_tokens":
			q.once(promptMember)
			c.Prompt = q.count()
		case "completion_tokens":
			q.once(completionMember)
			c.Completion = q.count()
		case "total_tokens":
			q.once(totalMember)
			c.Total = q.count()
		case "prompt_tokens_details":
			c.Cached = q.detail("cached_tokens", cachedMember)
		case "completion_tokens_details":
			c.Reasoning = q.detail("reasoning_tokens", thinkingMember)
		case "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens", "cache_creation_input_tokens":
			q.fail() // names of single endpoints
		default:
			q.scalar()
		}
	}
	q.usage = c.Usage()
}

// detail reads one number out of an object of numbers.
func (q *fastChunk) detail(wanted string, once member) (n int) {
	q.once(once)
	if q.null() {
		return 0
	}
	found := false
	for name := q.first(); name != nil; name = q.next() {
		if string(name) != wanted {
			if string(name) == "cache_write_tokens" || string(name) == "cache_creation_tokens" {
				q.fail()
			}
			q.scalar()
			continue
		}
		if found {
			q.fail()
		}
		found = true
		n = q.count()
	}
	return n
}

// unquote appends the text of a quoted string; false if it is invalid.
func unquote(dst, quoted []byte) ([]byte, bool) {
	if len(quoted) < 2 {
		return dst, true
	}
	if inner := quoted[1 : len(quoted)-1]; isPlain(inner) {
		return append(dst, inner...), true
	}
	out, err := jsontext.AppendUnquote(dst, quoted)
	return out, err == nil
}
