package fault

import "strings"

// Field is one invalid place of a request body or query. Whoever finds it sets
// Field and Message, and Code where one of the constants fits; [Field.Complete]
// derives the rest.
type Field struct {
	Field   string         `json:"field" required:"true" doc:"The place for a person: skills[2].name; body for the whole body."`
	Message string         `json:"message" required:"true" doc:"What is expected there, in English."`
	Pointer *string        `json:"pointer" required:"true" nullable:"false" doc:"The place as a JSON pointer (RFC 6901) into the body: /skills/2/name."`
	Code    string         `json:"code" required:"true" doc:"What is wrong, for a program: required, too_long and so on; invalid for anything else."`
	Params  map[string]any `json:"params,omitzero" doc:"What the message says in numbers and names, by code: min, max, allowed, format, pattern, type."`
}

// What can be wrong with a field.
const (
	CodeInvalid  = "invalid"       // anything else
	CodeRequired = "required"      // missing, or cleared
	CodeUnknown  = "unknown_field" // the object has no such field
	CodeType     = "wrong_type"    // params: type
	CodeEnum     = "not_one_of"    // params: allowed
	CodeFormat   = "wrong_format"  // params: format
	CodePattern  = "no_match"      // params: pattern
	CodeTooShort = "too_short"     // text; params: min
	CodeTooLong  = "too_long"      // text; params: max
	CodeTooFew   = "too_few"       // items; params: min
	CodeTooMany  = "too_many"      // items or members; params: max
	CodeTooSmall = "too_small"     // a number; params: min
	CodeTooLarge = "too_large"     // a number; params: max
)

// Missing is the message of a field that is required and not there.
const Missing = "required but missing"

// whole is the Field of a fault of the body itself.
const whole = "body"

// Complete returns the field with a pointer and a code.
func (f Field) Complete() Field {
	if f.Pointer == nil {
		p := pointerOf(f.Field)
		f.Pointer = &p
	}
	if f.Code == "" {
		f.Code = CodeInvalid
		if f.Message == Missing {
			f.Code = CodeRequired
		}
	}
	return f
}

// Under returns a field of a value as a field of the object that has the value
// under a name.
func (f Field) Under(name string) Field {
	if f.Field == whole {
		f.Field = name
	} else {
		f.Field = name + "." + f.Field
	}
	if f.Pointer != nil {
		p := pointerOf(name) + *f.Pointer
		f.Pointer = &p
	}
	return f
}

// pointerOf returns the JSON pointer of a dotted path. Names with dots or brackets
// in them look like paths: whoever meets such names sets the pointer.
func pointerOf(path string) string {
	if path == whole || path == "" {
		return ""
	}
	return "/" + strings.NewReplacer("~", "~0", "/", "~1", ".", "/", "[", "/", "]", "").Replace(path)
}
