package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"agentd/internal/base/fault"
	"agentd/internal/base/text"
	"agentd/internal/content/doctext"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/textindex"
)

// Document is a text or an uploaded file to ingest.
type Document struct {
	Content   string
	FileID    string
	Filename  string
	Tags      []string
	ChunkSize int // characters
}

// Ingested describes an ingested document.
type Ingested struct {
	_ struct{} `json:"-" name:"MemoryIngested"`

	Ingested      bool            `json:"ingested" required:"true"`
	Filename      string          `json:"filename" required:"true"`
	TextLength    int             `json:"text_length" required:"true" doc:"Characters of the extracted text."`
	ChunksCreated int             `json:"chunks_created" required:"true"`
	FileID        string          `json:"file_id,omitzero"`
	Entries       []IngestedEntry `json:"entries" required:"true"`
}

// IngestedEntry is an entry that was created from a document.
type IngestedEntry struct {
	_ struct{} `json:"-" name:"MemoryIngestedEntry"`

	EntryID        string   `json:"entry_id" required:"true" format:"uuid"`
	Type           string   `json:"type" required:"true"`
	ContentPreview string   `json:"content_preview" required:"true"`
	Tags           []string `json:"tags"`
}

// previewLength is the length of an entry's preview in characters.
const previewLength = 120

// Ingest splits a document into entries.
func (s *Service) Ingest(ctx context.Context, tenant, agentID string, d Document) (*Ingested, error) {
	if wrong := checkTags("", d.Tags); wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	name, content, err := s.text(ctx, tenant, d)
	if err != nil {
		return nil, err
	}
	chunks := textindex.Chunk(content, d.ChunkSize, 0)
	if len(chunks) == 0 {
		return nil, fault.BadFields(fault.Field{Field: "content", Message: "there is no text in it"})
	}
	drafts := make([]Draft, len(chunks))
	for i, chunk := range chunks {
		tags := slices.Concat(d.Tags, []string{"document", text.Truncate(name, maxTag), fmt.Sprintf("chunk:%d/%d", i+1, len(chunks))})
		drafts[i] = Draft{Type: Semantic, Content: chunk, Tags: tags}
	}
	answer := func(added []Stored) *Ingested {
		out := &Ingested{
			Ingested: true, Filename: name, TextLength: utf8.RuneCountInString(content), ChunksCreated: len(added), FileID: d.FileID,
			Entries: make([]IngestedEntry, len(added)),
		}
		for i, e := range added {
			out.Entries[i] = IngestedEntry{EntryID: e.EntryID, Type: e.Type, ContentPreview: text.Truncate(e.Content, previewLength), Tags: e.Tags}
		}
		return out
	}
	added, err := s.insert(ctx, tenant, agentID, drafts, insertion{answer: func(added []Stored) any { return answer(added) }})
	if err != nil {
		return nil, err
	}
	return answer(added), nil
}

// text returns the text and the name of a document. It holds one of the tenant's places
// for the time that it takes.
func (s *Service) text(ctx context.Context, tenant string, d Document) (name, text string, err error) {
	release, err := s.Places.Acquire(ctx, tenant)
	if err != nil {
		return "", "", err
	}
	defer release()
	file := retrieval.File{Name: cmp.Or(d.Filename, "document.txt"), Data: []byte(d.Content)}
	of := doctext.TypeOfText(file.Name)
	if d.FileID != "" {
		if s.Files == nil {
			return "", "", fault.BadFields(fault.Field{Field: "file_id", Message: "this deployment keeps no files; send the text as content"})
		}
		if file, err = s.Files.Read(ctx, tenant, d.FileID); err != nil {
			return "", "", err
		}
		of = doctext.TypeOf(file.Name, file.MimeType)
	}
	name = cmp.Or(d.Filename, file.Name)
	text, err = s.Texts.Text(ctx, of, file.Data, maxContent)
	switch {
	case errors.Is(err, doctext.ErrLong):
		return "", "", fault.New(fault.TooLarge, "", "The document has more than %d bytes of text, which is the limit; split it.", maxContent)
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case err != nil:
		f := fault.New(fault.Invalid, "TEXT_EXTRACTION_FAILED", "No text can be extracted from %s: %s.", name, doctext.Reason(err)).Because(err)
		f.Extra = map[string]any{"filename": name, "mime_type": file.MimeType}
		return "", "", f
	}
	return name, strings.ReplaceAll(text, textindex.PageBreak, ""), nil
}

// Imported describes an import.
type Imported struct {
	_ struct{} `json:"-" name:"MemoryImported"`

	Imported   bool   `json:"imported" required:"true"`
	AgentID    string `json:"agent_id" required:"true" format:"uuid"`
	Offered    int    `json:"offered" required:"true" doc:"Entries that were sent."`
	Added      int    `json:"added" required:"true"`
	Duplicates int    `json:"duplicates" required:"true" doc:"Entries that exist already or were sent twice."`
}

// Import adds entries that were exported elsewhere. Known ones are skipped.
func (s *Service) Import(ctx context.Context, tenant, agentID string, drafts []Draft) (*Imported, error) {
	if len(drafts) == 0 {
		return nil, fault.New(fault.Malformed, "", "There are no entries to import: send entries, or agents with entries.")
	}
	if len(drafts) > maxImport {
		return nil, fault.BadFields(fault.Field{
			Field: "entries", Message: fmt.Sprintf("there are %d entries; send at most %d at a time", len(drafts), maxImport),
		})
	}
	var wrong []fault.Field
	for i := range drafts {
		d := &drafts[i]
		if err := tooLarge(d.Content); err != nil {
			return nil, err
		}
		wrong = append(wrong, d.check(fmt.Sprintf("entries[%d].", i))...)
		if !slices.Contains(d.Tags, "imported") {
			d.Tags = slices.Concat(d.Tags, []string{"imported"})
		}
	}
	if wrong != nil {
		return nil, fault.BadFields(wrong[:min(len(wrong), 100)]...)
	}
	answer := func(added []Stored) *Imported {
		return &Imported{Imported: true, AgentID: agentID, Offered: len(drafts), Added: len(added), Duplicates: len(drafts) - len(added)}
	}
	added, err := s.insert(ctx, tenant, agentID, drafts, insertion{unique: true, answer: func(added []Stored) any { return answer(added) }})
	if err != nil {
		return nil, err
	}
	return answer(added), nil
}
