package resource

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/route"
	"agentd/internal/base/secret"
)

// codec converts a kind's resources between the three forms that they have:
// the Go value, the stored document with sealed secrets, and the JSON that
// clients see.
type codec[T any] struct {
	*plan[T]
	box *secret.Box // seals the kind's secret fields
}

// encode returns t as a document, with its secrets sealed.
func (c *codec[T]) encode(t *T) (Doc, error) {
	m := metaOf(t)
	doc := Doc{
		Kind: c.Name, Tenant: m.TenantID, ID: m.ID, Version: m.Version,
		CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
	}
	for i, ix := range c.Indexes {
		doc.Index[i] = ix.Of(t)
	}
	if c.Unique.Of != nil {
		doc.Unique = c.Unique.Of(t)
	}
	if len(c.sealed) > 0 {
		t = c.withSecrets(t, func(f *field, plain string) string {
			return base64.RawStdEncoding.EncodeToString(c.box.Seal([]byte(plain), c.sealContext(m, f)))
		})
	}
	var err error
	doc.Body, err = json.Marshal(t)
	return doc, err
}

// Decode returns the resource that a document of this kind holds.
func (c *codec[T]) Decode(doc Doc) (*T, error) {
	t := new(T)
	if err := json.Unmarshal(doc.Body, t, stored); err != nil {
		return nil, fmt.Errorf("decoding %s %s: %w", c.Name, doc.ID, err)
	}
	*metaOf(t) = Meta{doc.ID, doc.Tenant, doc.Version, doc.CreatedAt, doc.UpdatedAt}
	for _, f := range c.sealed {
		at := f.at(t)
		if at.Len() == 0 {
			continue
		}
		sealed, err := base64.RawStdEncoding.DecodeString(at.String())
		if err != nil {
			return nil, fmt.Errorf("decoding %s of %s %s: %w", f.name, c.Name, doc.ID, err)
		}
		plain, err := c.box.Open(sealed, c.sealContext(metaOf(t), f))
		if err != nil {
			return nil, fmt.Errorf("opening %s of %s %s: %w", f.name, c.Name, doc.ID, err)
		}
		at.SetString(string(plain))
	}
	return t, nil
}

// stored is the option to decode documents with: they were checked for
// duplicate names before they were stored.
var stored = jsontext.AllowDuplicateNames(true)

// sealContext returns what a secret is sealed for, so that it cannot be opened
// as another field's or another resource's.
func (c *codec[T]) sealContext(m *Meta, f *field) string {
	return c.Name + "/" + m.TenantID + "/" + m.ID + "/" + f.name
}

// withSecrets returns a copy of t with its non-empty secrets replaced.
func (c *codec[T]) withSecrets(t *T, replace func(*field, string) string) *T {
	replaced := *t
	for _, f := range c.sealed {
		if at := f.at(&replaced); at.Len() > 0 {
			at.SetString(replace(f, at.String()))
		}
	}
	return &replaced
}

// Wire returns t as clients see it.
func (c *codec[T]) Wire(t *T) (jsontext.Value, error) {
	if len(c.sealed) > 0 {
		t = c.withSecrets(t, func(*field, string) string { return secret.Redacted })
	}
	body, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	m := metaOf(t)
	return c.splice(nil, Doc{Tenant: m.TenantID, ID: m.ID, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, Body: body}), nil
}

// wireDoc appends a document as clients see it. Only a kind with secrets has to
// decode the document for that.
func (c *codec[T]) wireDoc(dst []byte, doc Doc) ([]byte, error) {
	if len(c.sealed) == 0 {
		return c.splice(dst, doc), nil
	}
	t, err := c.Decode(doc)
	if err != nil {
		return nil, err
	}
	wire, err := c.Wire(t)
	return append(dst, wire...), err
}

// summary appends a document as a list with fields=summary shows it: its long
// fields are empty.
func (c *codec[T]) summary(dst []byte, doc Doc) ([]byte, error) {
	t, err := c.Decode(doc)
	if err != nil {
		return nil, err
	}
	for _, f := range c.long {
		f.at(t).SetZero()
	}
	wire, err := c.Wire(t)
	return append(dst, wire...), err
}

// splice appends a document's wire form: its id, its tenant, the members of its
// body and its times. It does not escape ids and tenants: they never hold a
// character that JSON escapes.
func (c *codec[T]) splice(dst []byte, doc Doc) []byte {
	if dst == nil {
		dst = make([]byte, 0, len(doc.Body)+220)
	}
	dst = append(append(append(dst, `{"`...), c.IDField...), `":"`...)
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

// AnswerType returns the published type of a resource as clients see it, for
// the rows of actions that answer one.
func (c *codec[T]) AnswerType() reflect.Type { return c.wire }

// Reply answers t as clients see it, with its ETag.
func (c *codec[T]) Reply(t *T) (*route.Reply, error) {
	wire, err := c.Wire(t)
	return &route.Reply{ETag: etag(metaOf(t).Version), JSON: wire}, err
}

// replyDoc is Reply for a document.
func (c *codec[T]) replyDoc(doc Doc) (*route.Reply, error) {
	wire, err := c.wireDoc(nil, doc)
	return &route.Reply{ETag: etag(doc.Version), JSON: wire}, err
}

func (c *codec[T]) decodeAll(docs []Doc, err error) ([]*T, error) {
	all := make([]*T, 0, len(docs))
	for _, doc := range docs {
		t, err := c.Decode(doc)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, err
}
