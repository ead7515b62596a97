package modelcall

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Lenient are the options for decoding answers: duplicate names and invalid UTF-8 are
// accepted.
var Lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Text is a string. An array of content parts decodes to their texts, anything else to
// "".
type Text string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (t *Text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*t = ""
	switch dec.PeekKind() {
	case '"':
		token, err := dec.ReadToken()
		if err == nil {
			*t = Text(token.String())
		}
		return err
	case '[':
		var parts []part
		if err := json.UnmarshalDecode(dec, &parts); err != nil {
			return err
		}
		for _, p := range parts {
			*t += p.Text
		}
		return nil
	}
	return dec.SkipValue()
}

// part is a content part. One that is not an object has no text.
type part struct {
	Text Text `json:"text"`
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (p *part) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	type plain part
	return json.UnmarshalDecode(dec, (*plain)(p))
}

// AppendString quotes s. Invalid UTF-8 becomes U+FFFD; the ignored error only
// reports that.
func AppendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// MustMarshal encodes what was decoded before, which always succeeds.
func MustMarshal(v any) jsontext.Value {
	b, err := json.Marshal(v, Lenient, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return b
}

// MaxTokens is the largest number of tokens that is read.
const MaxTokens = 1e12

// Count bounds an endpoint's number to what can be added up.
func Count(n float64) int { return int(max(0, min(n, MaxTokens))) }
