package webhook

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
)

// maxBody is how large what is sent may be (interface.md section 8).
const maxBody = 1 << 20

// envelope is the body of every event.
type envelope struct {
	EventID   string         `json:"event_id"`
	Type      string         `json:"type"`
	EventType string         `json:"event_type"` // the same
	TenantID  string         `json:"tenant_id"`
	Timestamp string         `json:"timestamp"` // ISO 8601, milliseconds
	Data      jsontext.Value `json:"data"`
}

// render writes an event down as it will be sent and signed.
func render(e Event) (Stored, error) {
	s := Stored{TenantID: e.TenantID, ID: cmp.Or(e.ID, ident.New()), Type: e.Type, At: e.At}
	data, err := e.Data()
	if err != nil {
		return s, err
	}
	env := envelope{s.ID, e.Type, e.Type, e.TenantID, e.At.UTC().Format("2006-01-02T15:04:05.000Z"), data}
	if s.Body, err = json.Marshal(env, encoding); err != nil || len(s.Body) <= maxBody {
		return s, err
	}
	if env.Data, err = cut(data, maxBody-(len(s.Body)-len(data))); err != nil {
		return s, err
	}
	s.Body, err = json.Marshal(env, encoding)
	return s, err
}

// member is a member of an object, as it stands there.
type member struct {
	name  string
	value jsontext.Value
	order int
}

func (m *member) size() int { return len(m.name)*6 + len(m.value) + 4 } // a name may be escaped

// cut makes an object of at most so many bytes of a larger one: the smallest
// members stay, then a text that does not fit is shortened, and what else does
// not fit is left out. "truncated" says so (decisions.md D9).
func cut(object jsontext.Value, most int) (jsontext.Value, error) {
	members, err := membersOf(object)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.size(), b.size()) })
	left := most - len(`{"truncated":true}`)
	var kept []member
	for _, m := range members {
		if m.name == "truncated" {
			continue
		}
		if m.size() > left {
			room := left - m.size() + len(m.value)
			if m.value.Kind() != '"' || room < 64 {
				continue
			}
			if m.value, err = shorten(m.value, room); err != nil {
				return nil, err
			}
		}
		left -= m.size()
		kept = append(kept, m)
	}
	slices.SortFunc(kept, func(a, b member) int { return cmp.Compare(a.order, b.order) })
	var buf bytes.Buffer
	buf.WriteByte('{')
	for _, m := range kept {
		name, err := jsontext.AppendQuote(nil, m.name)
		if err != nil {
			return nil, err
		}
		buf.Write(name)
		buf.WriteByte(':')
		buf.Write(m.value)
		buf.WriteByte(',')
	}
	buf.WriteString(`"truncated":true}`)
	return buf.Bytes(), nil
}

func membersOf(object jsontext.Value) (all []member, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String(), order: len(all)}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		m.value = value.Clone()
		all = append(all, m)
	}
	return all, nil
}

// shorten makes a JSON string one of at most so many bytes.
func shorten(value jsontext.Value, most int) (jsontext.Value, error) {
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return nil, err
	}
	for room := most - 2; ; room -= room/16 + 1 { // escapes make it longer than its text
		kept := strings.ToValidUTF8(string(text[:max(0, min(room, len(text)))]), "")
		quoted, err := jsontext.AppendQuote(nil, kept)
		if err != nil || len(quoted) <= most {
			return quoted, err
		}
	}
}

// moment is a time as the delivery log shows it; nil: never.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
