package knowledge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/text"
	"agentd/internal/base/txn"
	"agentd/internal/content/doctext"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/textindex"
	"agentd/internal/kernel/audit"
)

// Upload is the body of a new document: a text, or the id of an uploaded file.
type Upload struct {
	Content  *string
	FileID   *string
	Filename string
}

// Added describes a document that was added.
type Added struct {
	_ struct{} `json:"-" name:"KnowledgeDocumentAdded"`

	DocumentID          string `json:"document_id" format:"uuid" required:"true"`
	Name                string `json:"name" required:"true"`
	ChunksCreated       int    `json:"chunks_created" required:"true"`
	Status              string `json:"status" enum:"ready" required:"true"`
	EmbeddingStatus     string `json:"embedding_status" enum:"embedded,partial,keyword_only" required:"true"`
	EmbeddingPending    int    `json:"embedding_pending,omitzero" doc:"Chunks that wait to be embedded; until then they are found by their words."`
	EmbeddingCompletion string `json:"embedding_completion,omitzero" enum:"scheduled"`
}

// refusal returns a fault with further members.
func refusal(kind fault.Kind, code string, extra map[string]any, format string, args ...any) *fault.Error {
	f := fault.New(kind, code, format, args...)
	f.Extra = extra
	return f
}

func badBody(reason, sentence string) *fault.Error {
	return refusal(fault.Malformed, "kb_document_body_invalid",
		map[string]any{"reason": reason, "fields": []string{"content", "file_id"}}, "%s", sentence)
}

// check refuses a body that does not have exactly one of content and file_id.
func (u *Upload) check() error {
	content, file := u.Content != nil, u.FileID != nil && *u.FileID != ""
	switch {
	case content && file:
		return badBody("both", "Send either content or file_id, not both.")
	case !content && !file:
		return badBody("missing", "Send the document as content, or name an uploaded file by file_id.")
	case content && strings.TrimSpace(*u.Content) == "":
		return badBody("empty_content", "The field content is empty.")
	}
	return nil
}

// text extracts the text of an upload.
func (s *Service) text(ctx context.Context, tenant string, u *Upload) (name, text string, of doctext.Type, size int, err error) {
	file, source := retrieval.File{Name: cmp.Or(u.Filename, "document.txt")}, "content"
	if u.FileID == nil || *u.FileID == "" {
		file.Data, of = []byte(*u.Content), doctext.TypeOfText(file.Name)
	} else {
		if s.Files == nil {
			return "", "", "", 0, fault.BadFields(fault.Field{Field: "file_id", Message: "this deployment keeps no files; send the text as content"})
		}
		file, err = s.Files.Read(ctx, tenant, *u.FileID)
		if fault.Is(err, fault.NotFound) {
			return "", "", "", 0, refusal(fault.NotFound, "",
				map[string]any{"resource": "file", "file_id": *u.FileID}, "There is no such file in this company.")
		}
		if err != nil {
			return "", "", "", 0, err
		}
		of, source = doctext.TypeOf(file.Name, file.MimeType), "extracted_text"
	}
	name = doctext.Clean(cmp.Or(u.Filename, file.Name))
	text, err = s.Texts.Text(ctx, of, file.Data, maxText*utf8.UTFMax)
	switch {
	case errors.Is(err, doctext.ErrLong):
		return "", "", "", 0, refusal(fault.TooLarge, "kb_document_too_large", map[string]any{"limit": maxText, "source": source},
			"The document has more than %d characters of text, which is the limit; split it.", maxText)
	case ctx.Err() != nil:
		return "", "", "", 0, ctx.Err()
	case err != nil:
		return "", "", "", 0, refusal(fault.Invalid, "kb_text_extraction_failed", map[string]any{"filename": name, "mime_type": file.MimeType},
			"No text can be extracted from %s: %s.", name, doctext.Reason(err)).Because(err)
	}
	if chars := utf8.RuneCountInString(text); chars > maxText {
		return "", "", "", 0, refusal(fault.TooLarge, "kb_document_too_large", map[string]any{"chars": chars, "limit": maxText, "source": source},
			"The document has %d characters of text; the limit is %d.", chars, maxText)
	}
	if strings.TrimSpace(text) == "" {
		return "", "", "", 0, refusal(fault.Invalid, "kb_text_extraction_failed", map[string]any{"filename": name, "mime_type": file.MimeType},
			"The document %s contains no text.", name)
	}
	return name, text, of, len(file.Data), nil
}

// extract makes a document of an upload, and its chunks. It holds one of the tenant's
// places for the time that it takes.
func (s *Service) extract(ctx context.Context, tenant string, b *base, u *Upload) (*Document, []chunk, error) {
	release, err := s.Places.Acquire(ctx, tenant)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	name, content, of, size, err := s.text(ctx, tenant, u)
	if err != nil {
		return nil, nil, err
	}
	pieces := textindex.Chunk(content, b.ChunkSize, b.ChunkOverlap)
	if len(pieces) > maxChunks {
		return nil, nil, chunkLimit(b, maxChunks, fmt.Sprintf("The document has %d chunks; the limit is", len(pieces)))
	}
	chunks := make([]chunk, len(pieces))
	for i, place := range textindex.Places(content, pieces) {
		chunks[i] = chunk{strings.ReplaceAll(pieces[i], textindex.PageBreak, ""), place}
	}
	now := s.Clock.Now()
	preview := text.Prefix(chunks[0].text, previewLength)
	return &Document{
		KBID: b.ID, TenantID: tenant, Name: name, Type: of, SizeBytes: int64(size), ChunkCount: len(chunks),
		ChunkPreview: &preview, CreatedAt: now, UpdatedAt: now,
	}, chunks, nil
}

// Add adds a document to a base. It can be found as soon as Add returns.
func (s *Service) Add(ctx context.Context, who authz.Caller, baseID string, u Upload) (*Added, error) {
	added, _, err := s.add(ctx, who, baseID, u, ident.New(), nil)
	return added, err
}

// add adds a document with an id. answer is what the request is answered with; nil: with
// what was added.
func (s *Service) add(
	ctx context.Context, who authz.Caller, baseID string, u Upload, id string, answer func(*Document) any,
) (*Added, *Document, error) {
	b, err := s.bases.Get(ctx, who.TenantID, baseID)
	if err != nil {
		return nil, nil, err
	}
	if err := u.check(); err != nil {
		return nil, nil, err
	}
	d, chunks, err := s.extract(ctx, who.TenantID, b, &u)
	if err != nil {
		return nil, nil, err
	}
	d.ID, d.Status, d.EmbeddingStatus = id, statusReady, keywordOnly
	passages := make([]retrieval.Passage, len(chunks))
	for i, chunk := range chunks {
		passages[i] = retrieval.Passage{
			ID: ident.New(), SourceID: d.ID, Position: i, Text: chunk.text, Words: place{titleOf(d.Name), chunk.Headings}.words(),
			Start: chunk.Start, Page: chunk.Page, At: d.CreatedAt,
		}
	}
	out := &Added{DocumentID: d.ID, Name: d.Name, ChunksCreated: len(chunks), Status: statusReady, EmbeddingStatus: keywordOnly}
	if s.Search.Model() != "" {
		out.EmbeddingPending, out.EmbeddingCompletion = len(chunks), completionTodo
	}
	ctx = txn.WithAnswer(ctx, func() any {
		if answer != nil {
			return answer(d)
		}
		return out
	})
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		_, err := s.bases.UpdateTx(tx, who, baseID, func(b *base) error {
			if b.TotalChunks += len(chunks); b.TotalChunks > maxBaseChunks {
				return chunkLimit(b, maxBaseChunks, "With this document the knowledge base would have more chunks than the limit of")
			}
			b.DocumentCount++
			return nil
		})
		if err != nil {
			return err
		}
		edit, err := s.Search.Edit(tx, who.TenantID, baseID)
		if err != nil {
			return err
		}
		if err := edit.Insert(passages...); err != nil {
			return err
		}
		return s.Store.CreateTx(tx, *d)
	})
	return out, d, err
}

// Document returns a document of a base. Errors: fault.NotFound.
func (s *Service) Document(ctx context.Context, tenant, baseID, id string) (*Document, error) {
	if !ident.Valid(id) {
		return nil, fault.NewNotFound("document")
	}
	d, err := s.Store.Get(ctx, tenant, baseID, id)
	if err != nil {
		return nil, err
	}
	shown, err := s.withStatus(ctx, tenant, baseID, []Document{d})
	if err != nil {
		return nil, err
	}
	return &shown[0], nil
}

func chunkLimit(b *base, limit int, what string) error {
	return refusal(fault.TooLarge, "kb_chunk_limit",
		map[string]any{"limit": limit, "chunk_size": b.ChunkSize, "chunk_overlap": b.ChunkOverlap},
		"%s %d. Use a knowledge base with larger chunks, or several.", what, limit)
}

// Remove removes a document from a base. Errors: fault.NotFound.
func (s *Service) Remove(ctx context.Context, who authz.Caller, baseID, id string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.CheckTx(tx, who.TenantID, baseID); err != nil {
			return err
		}
		d, err := s.Store.DeleteTx(tx, who.TenantID, baseID, id)
		if err != nil {
			return err
		}
		_, err = s.bases.UpdateTx(tx, who, baseID, func(b *base) error {
			b.DocumentCount, b.TotalChunks = b.DocumentCount-1, b.TotalChunks-d.ChunkCount
			return nil
		})
		if err != nil {
			return err
		}
		edit, err := s.Search.Edit(tx, who.TenantID, baseID)
		if err != nil {
			return err
		}
		if err := edit.DeleteSource(id); err != nil {
			return err
		}
		return audit.Write(s.audit, tx, who, audit.Entry{Action: "knowledge_base.document_deleted", TargetType: "kb_document", TargetID: id})
	})
}

const (
	embedded    = "embedded"
	partly      = "partial"
	keywordOnly = "keyword_only"
)

// Documents returns a base's documents, newest first, after an id; limit 0 means
// all.
func (s *Service) Documents(ctx context.Context, tenant, baseID, after string, limit int) ([]Document, error) {
	docs, err := s.Store.List(ctx, tenant, baseID, after, limit)
	if err != nil {
		return nil, err
	}
	return s.withStatus(ctx, tenant, baseID, docs)
}

// withStatus sets how far documents are embedded.
func (s *Service) withStatus(ctx context.Context, tenant, baseID string, docs []Document) (_ []Document, err error) {
	counts := map[string]retrieval.Count{}
	if model := s.Search.Model(); model != "" {
		if counts, err = s.Search.Store.CountBySource(ctx, tenant, baseID, model); err != nil {
			return nil, err
		}
	}
	for i := range docs {
		d, c := &docs[i], counts[docs[i].ID]
		d.Status, d.EmbeddingStatus = statusReady, partly
		switch c.Embedded {
		case 0:
			d.EmbeddingStatus = keywordOnly
		case d.ChunkCount:
			d.EmbeddingStatus = embedded
		}
		if c.Pending > 0 {
			d.EmbeddingCompletion = "in_progress"
		}
	}
	return docs, nil
}
