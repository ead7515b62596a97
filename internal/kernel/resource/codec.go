package resource

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/secret"
)

// encode gives t as a document. Its secrets are sealed.
func (s *Store[T]) encode(t *T) (Doc, error) {
	m := metaOf(t)
	doc := Doc{
		Kind: s.Name, Tenant: m.TenantID, ID: m.ID, Version: m.Version,
		CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
	}
	for i, ix := range s.Indexes {
		doc.Index[i] = ix.Of(t)
	}
	if s.Unique.Of != nil {
		doc.Unique = s.Unique.Of(t)
	}
	if len(s.sealed) > 0 {
		t = s.withSecrets(t, func(f *field, plain string) string {
			return base64.RawStdEncoding.EncodeToString(s.deps.Box.Seal([]byte(plain), s.sealContext(m, f)))
		})
	}
	var err error
	doc.Body, err = json.Marshal(t)
	return doc, err
}

// Decode gives a document of this kind as its T.
func (s *Store[T]) Decode(doc Doc) (*T, error) {
	t := new(T)
	if err := json.Unmarshal(doc.Body, t, stored); err != nil {
		return nil, fmt.Errorf("decoding %s %s: %w", s.Name, doc.ID, err)
	}
	*metaOf(t) = Meta{doc.ID, doc.Tenant, doc.Version, doc.CreatedAt, doc.UpdatedAt}
	for _, f := range s.sealed {
		at := f.at(t)
		if at.Len() == 0 {
			continue
		}
		sealed, err := base64.RawStdEncoding.DecodeString(at.String())
		if err != nil {
			return nil, fmt.Errorf("decoding %s of %s %s: %w", f.name, s.Name, doc.ID, err)
		}
		plain, err := s.deps.Box.Open(sealed, s.sealContext(metaOf(t), f))
		if err != nil {
			return nil, fmt.Errorf("opening %s of %s %s: %w", f.name, s.Name, doc.ID, err)
		}
		at.SetString(string(plain))
	}
	return t, nil
}

// stored holds for bodies: we wrote them.
var stored = jsontext.AllowDuplicateNames(true)

func (s *Store[T]) sealContext(m *Meta, f *field) string {
	return s.Name + "/" + m.TenantID + "/" + m.ID + "/" + f.name
}

// withSecrets gives a copy of t whose non-empty secrets were replaced.
func (p *plan[T]) withSecrets(t *T, replace func(*field, string) string) *T {
	c := *t
	for _, f := range p.sealed {
		if at := f.at(&c); at.Len() > 0 {
			at.SetString(replace(f, at.String()))
		}
	}
	return &c
}

// Wire gives t as clients see it.
func (s *Store[T]) Wire(t *T) (jsontext.Value, error) {
	if len(s.sealed) > 0 {
		t = s.withSecrets(t, func(*field, string) string { return secret.Redacted })
	}
	body, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	m := metaOf(t)
	return s.splice(nil, Doc{Tenant: m.TenantID, ID: m.ID, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, Body: body}), nil
}

// wireDoc appends a document as clients see it. Where the kind has no secrets
// that decodes nothing.
func (s *Store[T]) wireDoc(dst []byte, doc Doc) ([]byte, error) {
	if len(s.sealed) == 0 {
		return s.splice(dst, doc), nil
	}
	t, err := s.Decode(doc)
	if err != nil {
		return nil, err
	}
	wire, err := s.Wire(t)
	return append(dst, wire...), err
}

// splice appends {id, tenant, the body's members, times}. Ids and tenants hold
// no character that JSON escapes.
func (p *plan[T]) splice(dst []byte, doc Doc) []byte {
	if dst == nil {
		dst = make([]byte, 0, len(doc.Body)+220)
	}
	dst = append(append(append(dst, `{"`...), p.IDField...), `":"`...)
	dst = append(append(append(dst, doc.ID...), `","tenant_id":"`...), doc.Tenant...)
	dst = append(dst, `",`...)
	if inner := doc.Body[1 : len(doc.Body)-1]; len(inner) > 0 {
		dst = append(append(dst, inner...), ',')
	}
	dst = append(dst, `"created_at":"`...)
	dst = doc.CreatedAt.AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","updated_at":"`...)
	dst = doc.UpdatedAt.AppendFormat(dst, time.RFC3339Nano)
	return append(dst, `"}`...)
}
