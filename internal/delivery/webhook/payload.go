package webhook

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
)

// maxBody is the maximum size of a request body.
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

// render returns an event as it is sent. Each request signs these bytes.
func render(e Event) (StoredEvent, error) {
	s := StoredEvent{TenantID: e.TenantID, ID: cmp.Or(e.ID, ident.New()), Type: e.Type, At: e.At}
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

// member is a member of an object, with its place.
type member struct {
	name  string
	value jsontext.Value
	order int
}

func (m *member) size() int { return len(m.name)*6 + len(m.value) + 4 } // a name may be escaped

// cut returns an object of at most limit bytes: the smallest members are kept, a
// text that does not fit is shortened, and other members that do not fit are left
// out. The member "truncated": true marks the result.
func cut(object jsontext.Value, limit int) (jsontext.Value, error) {
	members, err := membersOf(object)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.size(), b.size()) })
	left := limit - len(`{"truncated":true}`)
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

// shorten returns the beginning of a JSON string in at most limit bytes.
func shorten(value jsontext.Value, limit int) (jsontext.Value, error) {
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return nil, err
	}
	for room := limit - 2; ; room -= room/16 + 1 { // escapes make a string longer than its text
		kept := strings.ToValidUTF8(string(text[:max(0, min(room, len(text)))]), "")
		quoted, err := jsontext.AppendQuote(nil, kept)
		if err != nil || len(quoted) <= limit {
			return quoted, err
		}
	}
}
