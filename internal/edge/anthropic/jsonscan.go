package anthropic

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// The JSON scanned here passed the strict validation of the whole body: the
// functions do not check for errors. They return slices of their input, so that an
// image of several megabytes is not copied.

// members iterates over the members of an object: names unquoted, values raw.
func members(v []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for at := skipSpace(v, 1); v[at] != '}'; {
			end := stringEnd(v, at)
			name := v[at+1 : end-1]
			if bytes.IndexByte(name, '\\') >= 0 {
				name = []byte(unquote(v[at:end]))
			}
			at = skipSpace(v, skipSpace(v, end)+1) // the colon
			end = valueEnd(v, at)
			if !yield(string(name), v[at:end]) {
				return
			}
			at = skipComma(v, end)
		}
	}
}

// elements iterates over the elements of an array.
func elements(v []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		i := 0
		for at := skipSpace(v, 1); v[at] != ']'; i++ {
			end := valueEnd(v, at)
			if !yield(i, v[at:end]) {
				return
			}
			at = skipComma(v, end)
		}
	}
}

// skipComma skips the comma after a value, if any.
func skipComma(v []byte, at int) int {
	if at = skipSpace(v, at); v[at] == ',' {
		return skipSpace(v, at+1)
	}
	return at
}

func skipSpace(v []byte, at int) int {
	for v[at] == ' ' || v[at] == '\n' || v[at] == '\t' || v[at] == '\r' {
		at++
	}
	return at
}

// stringEnd returns the offset after the string that begins at an offset.
func stringEnd(v []byte, at int) int {
	for at++; ; {
		at += bytes.IndexByte(v[at:], '"')
		escapes := 0
		for v[at-1-escapes] == '\\' {
			escapes++
		}
		at++
		if escapes%2 == 0 {
			return at
		}
	}
}

// valueEnd returns the offset after the value that begins at an offset.
func valueEnd(v []byte, at int) int {
	switch v[at] {
	case '"':
		return stringEnd(v, at)
	case '{', '[':
		depth := 0
		for {
			switch v[at] {
			case '"':
				at = stringEnd(v, at)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return at + 1
				}
			}
			at++
		}
	}
	for at < len(v) && v[at] != ',' && v[at] != '}' && v[at] != ']' && v[at] > ' ' {
		at++
	}
	return at
}

// kind returns the kind of a value, 0 if it is empty.
func kind(v []byte) jsontext.Kind { return jsontext.Value(v).Kind() }

// unquote returns the text of a string.
func unquote(v []byte) string {
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, v) // it is valid
	return string(text)
}

// absent reports whether a member is missing or null.
func absent(v []byte) bool { return len(v) == 0 || v[0] == 'n' }
