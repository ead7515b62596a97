package memory

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/content/doctext"
)

// Change is an update of an entry: members that are sent are changed, members of
// the wrong type are ignored.
type Change struct {
	_ struct{} `json:"-" name:"MemoryEntryUpdate"`

	Content        *string       `json:"content,omitzero" doc:"What is remembered."`
	Type           *string       `json:"type,omitzero" enum:"episodic,semantic,procedural,note" doc:"episodic: an event; semantic: a fact; procedural: how something is done; note: anything else."`
	Tags           *[]string     `json:"tags,omitzero" maxItems:"20" doc:"Words by which entries are filtered. Replaces all tags."`
	RelevanceScore *float64      `json:"relevance_score,omitzero" doc:"Importance, from 0 to 1."`
	Metadata       schema.Object `json:"metadata,omitzero" doc:"Data of yours. Replaces all of it."`
	EntityName     *string       `json:"entity_name,omitzero" doc:"The person or thing that the entry is about."`
	EntityType     *string       `json:"entity_type,omitzero" doc:"What entity_name is, such as person."`
}

// readChange reads the members of a body that have the right type.
func readChange(body jsontext.Value) (Change, error) {
	var c Change
	if body.Kind() != '{' {
		return c, fault.BadFields(fault.Field{Field: "body", Message: "expected an object"})
	}
	members := object(body)
	maps.DeleteFunc(members, func(_ string, v jsontext.Value) bool { return v.Kind() == 'n' })
	read(members, "content", &c.Content)
	read(members, "type", &c.Type)
	read(members, "tags", &c.Tags)
	read(members, "relevance_score", &c.RelevanceScore)
	read(members, "metadata", &c.Metadata)
	read(members, "entity_name", &c.EntityName)
	read(members, "entity_type", &c.EntityType)
	var err error
	if c.Content != nil {
		err = tooLarge(*c.Content)
	}
	return c, err
}

// apply changes an entry and reports whether its text has changed.
func (c *Change) apply(e *Entry) (anew bool, err error) {
	d := Draft{Content: e.Content, Type: e.Type, Tags: e.Tags, Metadata: e.Metadata, EntityName: e.EntityName, EntityType: e.EntityType}
	for _, m := range []struct{ from, to *string }{
		{c.Content, &d.Content}, {c.Type, &d.Type}, {c.EntityName, &d.EntityName}, {c.EntityType, &d.EntityType},
	} {
		if m.from != nil {
			*m.to = doctext.Clean(*m.from)
		}
	}
	if c.Type != nil && !slices.Contains(Types, *c.Type) {
		return false, fault.BadFields(fault.Field{Field: "type", Message: "must be one of " + strings.Join(Types, ", ")})
	}
	if c.Tags != nil {
		d.Tags = *c.Tags
	} else {
		d.Tags = nil // stored tags are not validated again
	}
	if c.Metadata != nil {
		d.Metadata = c.Metadata
	}
	if wrong := d.check(""); wrong != nil {
		return false, fault.BadFields(wrong...)
	}
	if c.Tags != nil {
		e.Tags = slices.Concat([]string{}, d.Tags)
	}
	if c.RelevanceScore != nil {
		e.RelevanceScore = *c.RelevanceScore
	}
	anew = d.Content != e.Content
	e.Content, e.Type, e.Metadata, e.EntityName, e.EntityType = d.Content, d.Type, d.Metadata, d.EntityName, d.EntityType
	return anew, nil
}

// Update changes an entry. Errors: fault.NotFound, fault.Invalid.
func (s *Service) Update(ctx context.Context, tenant, agentID, id string, c Change) (e *Entry, err error) {
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		edit, err := s.Search.Edit(tx, tenant, agentID)
		if err != nil {
			return err
		}
		if e, err = s.Store.LockTx(tx, tenant, agentID, id); err != nil {
			return err
		}
		if err := route.Match(tx.Context(), e); err != nil {
			return err
		}
		anew, err := c.apply(e)
		if err != nil {
			return err
		}
		now := s.Clock.Now()
		e.LastAccessedAt, e.at, e.SupersededBy = &now, now, ""
		if err := edit.Replace(e.passage(), anew); err != nil {
			return err
		}
		stored := Stored{Entry: *e}
		stored.derive()
		return s.Store.UpdateTx(tx, tenant, agentID, stored)
	})
	return e, err
}

// maxOfRun bounds the entries of one run.
const maxOfRun = 10_000

// OfRun returns what an agent remembers from a run: what was extracted from it, and
// what its tools stored.
func (s *Service) OfRun(ctx context.Context, tenant, agentID, runID string) ([]Entry, error) {
	return s.Store.ListByRun(ctx, tenant, agentID, runID, maxOfRun)
}

// Delete deletes an entry, if it exists.
func (s *Service) Delete(ctx context.Context, tenant, agentID, id string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		edit, err := s.Search.Edit(tx, tenant, agentID)
		if err != nil {
			return err
		}
		switch e, err := s.Store.LockTx(tx, tenant, agentID, id); {
		case fault.Is(err, fault.NotFound):
		case err != nil:
			return err
		default:
			if err := route.Match(tx.Context(), e); err != nil {
				return err
			}
		}
		if err := edit.Delete(id); err != nil {
			return err
		}
		return s.Store.DeleteTx(tx, tenant, agentID, []string{id})
	})
}

// marshal returns a value as one line of JSON that cannot be confused with the marks
// around it: it contains no line break and no angle bracket.
func marshal(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.EscapeForHTML(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return "{}"
	}
	return string(b)
}
