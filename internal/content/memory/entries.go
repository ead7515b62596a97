package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/tokenize"
	"agentd/internal/base/txn"
	"agentd/internal/content/doctext"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/textindex"
)

// Draft is a new entry.
type Draft struct {
	Type        string // "": note
	Content     string
	Tags        []string
	Relevance   *float64 // nil: 0.5
	Metadata    schema.Object
	EntityName  string
	EntityType  string
	SourceRunID string
	Sources     []string // untrusted ones that the run had read
	RunOutcome  string
	Origin      string    // see Stored
	Replaces    []string  // entries that it contradicts; see Store.MarkSupersededTx
	Vector      []float32 // of the current embedding model; nil: embedded later
}

// check returns the invalid fields of a draft at a path of the body.
func (d *Draft) check(at string) []fault.Field {
	var wrong []fault.Field
	add := func(field, format string, args ...any) {
		wrong = append(wrong, fault.Field{Field: at + field, Message: fmt.Sprintf(format, args...)})
	}
	if strings.TrimSpace(doctext.Clean(d.Content)) == "" {
		add("content", "it is blank")
	}
	if d.Type != "" && !slices.Contains(Types, d.Type) {
		add("type", "must be one of %s", strings.Join(Types, ", "))
	}
	if len(d.Metadata) > maxMetadata {
		add("metadata", "it has more than %d bytes", maxMetadata)
	}
	if utf8.RuneCountInString(d.EntityName) > maxEntity {
		add("entity_name", "it has more than %d characters", maxEntity)
	}
	if utf8.RuneCountInString(d.EntityType) > maxEntity {
		add("entity_type", "it has more than %d characters", maxEntity)
	}
	return append(wrong, checkTags(at, d.Tags)...)
}

func checkTags(at string, tags []string) []fault.Field {
	var wrong []fault.Field
	if len(tags) > maxTags {
		wrong = append(wrong, fault.Field{Field: at + "tags", Message: fmt.Sprintf("there are more than %d of them", maxTags)})
	}
	for i, tag := range tags {
		if n := utf8.RuneCountInString(tag); n > maxTag || strings.TrimSpace(tag) == "" {
			wrong = append(wrong, fault.Field{
				Field: fmt.Sprintf("%stags[%d]", at, i), Message: fmt.Sprintf("a tag has 1 to %d characters and is not blank", maxTag),
			})
		}
	}
	return wrong
}

func tooLarge(content string) error {
	if len(content) <= maxContent {
		return nil
	}
	return fault.New(fault.TooLarge, "",
		"The content has %d bytes; the limit of an entry is %d. Ingest it as a document instead.", len(content), maxContent)
}

// entry completes a draft so that it can be stored.
func (d *Draft) entry(tenant, agent string, now time.Time) Stored {
	boost := defaultBoost
	if d.Relevance != nil {
		boost = *d.Relevance
	}
	s := Stored{Entry: Entry{
		EntryID: ident.New(), AgentID: agent, TenantID: tenant, Type: cmp.Or(d.Type, Note), Content: doctext.Clean(d.Content),
		Tags: slices.Concat([]string{}, d.Tags), RelevanceScore: boost,
		SourceRunID: d.SourceRunID, Sources: d.Sources, Metadata: d.Metadata, RunOutcome: d.RunOutcome,
		EntityName: doctext.Clean(d.EntityName), EntityType: doctext.Clean(d.EntityType), CreatedAt: now, at: now,
	}, Origin: d.Origin}
	s.derive()
	return s
}

// derive sets the fields that depend on content and entity.
func (s *Stored) derive() {
	s.Hash, s.Entity = hash(s.Content), tokenize.Normalize(s.EntityName)
}

// hash returns the same for texts that differ only in case, accents, spaces and
// punctuation.
func hash(content string) string {
	words := tokenize.Normalize(content)
	if words == "" {
		words = content
	}
	sum := sha256.Sum256([]byte(words))
	return hex.EncodeToString(sum[:16])
}

// passage returns the searchable part of an entry.
func (e *Entry) passage() retrieval.Passage {
	return retrieval.Passage{
		ID: e.EntryID, Kind: e.Type, Text: e.Content, Words: strings.Join(append([]string{e.EntityName}, e.Tags...), "\n"),
		Boost: e.RelevanceScore, At: e.at,
	}
}

// InPassage sets the fields of an entry that its passage holds.
func (e *Entry) InPassage(kind, text string, boost float64, at time.Time) {
	e.Type, e.Content, e.RelevanceScore, e.at = kind, text, boost, at
}

// insertion describes how entries are added to a memory.
type insertion struct {
	unique bool // skip drafts whose content is known already
	// answer, if set, is the answer to the request that adds the entries.
	answer func(added []Stored) any
	// first runs before anything is written; its error ends the change.
	first func(tx txn.Tx) error
}

// insert adds drafts and removes the least relevant entries if the memory is full
// then. It returns the added entries; drafts whose origin created an entry before
// are skipped.
func (s *Service) insert(ctx context.Context, tenant, agentID string, drafts []Draft, how insertion) (added []Stored, err error) {
	if how.answer != nil {
		ctx = txn.WithAnswer(ctx, func() any { return how.answer(added) })
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		added = nil
		if how.first != nil {
			if err := how.first(tx); err != nil {
				return err
			}
		}
		g, err := s.Agents.Store().GetTx(tx, tenant, agentID)
		if err != nil {
			return err
		}
		set := s.read(g.Memory)
		edit, err := s.Search.Edit(tx, tenant, agentID)
		if err != nil {
			return err
		}
		now := s.Clock.Now()
		fresh, err := s.fresh(tx, tenant, agentID, drafts, how.unique)
		if err != nil || len(fresh) == 0 {
			return err
		}
		if len(fresh) > set.most {
			return fault.New(fault.Invalid, "", "These are %d entries, and the agent's memory.max_entries is %d.", len(fresh), set.most)
		}
		passages := make([]retrieval.Passage, len(fresh))
		for i, d := range fresh {
			e := d.entry(tenant, agentID, now)
			added, passages[i] = append(added, e), e.passage()
			if d.Vector != nil {
				passages[i].Vector, passages[i].Model = d.Vector, s.Search.Model()
			}
		}
		if err := edit.Insert(passages...); err != nil {
			return err
		}
		if err := s.Store.CreateTx(tx, tenant, agentID, added); err != nil {
			return err
		}
		for i := range fresh {
			if len(fresh[i].Replaces) == 0 {
				continue
			}
			if err := s.Store.MarkSupersededTx(tx, tenant, agentID, fresh[i].Replaces, added[i]); err != nil {
				return err
			}
		}
		return s.shrink(tx, edit, tenant, agentID, set, added)
	})
	return added, err
}

// fresh returns the drafts that are not stored yet. The collection is locked.
func (s *Service) fresh(tx txn.Tx, tenant, agentID string, drafts []Draft, unique bool) ([]Draft, error) {
	var known map[string]bool
	if unique {
		hashes := make([]string, len(drafts))
		for i := range drafts {
			hashes[i] = hash(doctext.Clean(drafts[i].Content))
		}
		var err error
		if known, err = s.Store.ListKnownTx(tx, tenant, agentID, hashes); err != nil {
			return nil, err
		}
	}
	var fresh []Draft
	for _, d := range drafts {
		if d.Origin != "" {
			id, err := s.Store.GetByOriginTx(tx, tenant, agentID, d.Origin)
			if err != nil {
				return nil, err
			}
			if id != "" {
				continue
			}
		}
		if h := hash(doctext.Clean(d.Content)); unique {
			if known[h] {
				continue
			}
			known[h] = true
		}
		fresh = append(fresh, d)
	}
	return fresh, nil
}

// shrink removes the entries with the lowest relevance after decay from a memory
// that has too many. New entries stay.
func (s *Service) shrink(tx txn.Tx, edit *retrieval.Edit, tenant, agentID string, set settings, added []Stored) error {
	count, err := s.Store.CountTx(tx, tenant, agentID)
	if err != nil || count <= set.most {
		return err
	}
	weights, err := s.Search.Store.ListWeightsTx(tx, tenant, agentID)
	if err != nil {
		return err
	}
	newest := make(map[string]bool, len(added))
	for _, e := range added {
		newest[e.EntryID] = true
	}
	weights = slices.DeleteFunc(weights, func(w retrieval.Weight) bool { return newest[w.ID] })
	now := s.Clock.Now()
	slices.SortFunc(weights, func(a, b retrieval.Weight) int {
		left := func(w retrieval.Weight) float64 {
			return max(w.Boost, 0) * textindex.Decay(now.Sub(w.At), set.halfLife)
		}
		return cmp.Or(cmp.Compare(left(a), left(b)), a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
	var gone []string
	for _, w := range weights[:min(count-set.most, len(weights))] {
		gone = append(gone, w.ID)
	}
	if err := edit.Delete(gone...); err != nil {
		return err
	}
	return s.Store.DeleteTx(tx, tenant, agentID, gone)
}

// Forget deletes an agent's whole memory.
func (s *Service) Forget(ctx context.Context, tenant, agentID string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Search.Drop(tx, tenant, agentID); err != nil {
			return err
		}
		return s.Store.DeleteAllTx(tx, tenant, agentID)
	})
}

// Asked is a search of a memory.
type Asked struct {
	Text     string
	Strategy textindex.Strategy // "": hybrid
	Types    []string           // nil: any
	Limit    int
	MinScore *float64 // see textindex.Query
}

// spareHits is how many more hits than results a search looks at, because superseded
// entries are left out.
const spareHits = 20

// Find searches a memory, best first, and counts the access.
func (s *Service) Find(ctx context.Context, tenant, agentID string, asked Asked, halfLife time.Duration) ([]Entry, retrieval.Mode, error) {
	entries, mode, err := hits(ctx, s, tenant, agentID, asked, halfLife)
	if err != nil || len(entries) == 0 {
		return entries, mode, err
	}
	ids := make([]string, len(entries))
	for i := range entries {
		ids[i] = entries[i].EntryID
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		return s.Store.RecordAccessTx(tx, tenant, agentID, ids, s.Clock.Now())
	})
	if err != nil { // the result is valid nevertheless
		s.Log.Warn("the access to memory entries was not counted", "agent", agentID, "error", err)
	}
	return entries, mode, nil
}

// hits searches a memory, best first.
func hits(ctx context.Context, s *Service, tenant, agentID string, asked Asked, halfLife time.Duration) ([]Entry, retrieval.Mode, error) {
	found, err := s.Search.Search(ctx, tenant, agentID, textindex.Query{
		Text: asked.Text, Kinds: asked.Types, Strategy: asked.Strategy, Limit: asked.Limit + spareHits, HalfLife: halfLife,
		MinScore: asked.MinScore,
	})
	if err != nil {
		return nil, "", err
	}
	ids := make([]string, len(found.Hits))
	for i, h := range found.Hits {
		ids[i] = h.ID
	}
	known, err := s.Store.ListByID(ctx, tenant, agentID, ids)
	if err != nil {
		return nil, "", err
	}
	entries := make([]Entry, 0, len(ids))
	for _, h := range found.Hits {
		if e, ok := known[h.ID]; ok && e.SupersededBy == "" && len(entries) < asked.Limit { // it may be deleted meanwhile
			e.Score = &h.Score
			entries = append(entries, e)
		}
	}
	return entries, found.Mode, nil
}
