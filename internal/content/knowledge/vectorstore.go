package knowledge

import (
	"context"
	"maps"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// VectorStore is a base as those see it that know it as a vector store.
type VectorStore struct {
	Base

	Metadata map[string]string
	Bytes    int64 // of its documents
}

// VectorStoreEdit is what they say of it. Nil: unchanged, or not set.
type VectorStoreEdit struct {
	Name, Description *string
	Metadata          map[string]string
}

// CreateVectorStore makes a base. answer is what its request is answered with.
func (s *Service) CreateVectorStore(
	ctx context.Context, who authz.Caller, e VectorStoreEdit, answer func(*VectorStore) any,
) (*VectorStore, error) {
	b := s.bases.Blank()
	b.ChunkSize, b.ChunkOverlap = defaultChunk, defaultChunk/5
	e.apply(b)
	made := func() *VectorStore { return &VectorStore{Base: s.alone(b), Metadata: b.Metadata} }
	if err := s.bases.Create(txn.WithAnswer(ctx, func() any { return answer(made()) }), who, b); err != nil {
		return nil, err
	}
	return made(), nil
}

// UpdateVectorStore changes what people see of a base. answer is what its request is
// answered with. Errors: fault.NotFound.
func (s *Service) UpdateVectorStore(
	ctx context.Context, who authz.Caller, id string, e VectorStoreEdit, answer func(*VectorStore) any,
) (*VectorStore, error) {
	sizes, err := s.Store.CountBytes(ctx, who.TenantID, []string{id})
	if err != nil {
		return nil, err
	}
	changed := func(b *base) *VectorStore { return s.asVectorStore(b, sizes) }
	b, err := s.bases.Update(ctx, who, id, func(tx txn.Tx, b *base) error {
		e.apply(b)
		return txn.Answer(tx, answer(changed(b)))
	})
	if err != nil {
		return nil, err
	}
	return changed(b), nil
}

// AddFile adds an uploaded file to a base, as a document that has the file's id. answer is
// what its request is answered with. Errors: fault.NotFound.
func (s *Service) AddFile(
	ctx context.Context, who authz.Caller, baseID, fileID string, answer func(*Document) any,
) (*Document, error) {
	if d, err := s.Document(ctx, who.TenantID, baseID, fileID); !fault.Is(err, fault.NotFound) {
		return d, err
	}
	_, d, err := s.add(ctx, who, baseID, Upload{FileID: &fileID}, fileID, answer)
	return d, err
}

func (e *VectorStoreEdit) apply(b *base) {
	if e.Name != nil {
		b.Name = *e.Name
	}
	if e.Description != nil {
		b.Description = *e.Description
	}
	if e.Metadata != nil {
		b.Metadata = maps.Clone(e.Metadata)
	}
}

// Exists returns fault.NotFound where the tenant has no such base.
func (s *Service) Exists(ctx context.Context, tenant, id string) error {
	_, err := s.bases.Read(ctx, tenant, id)
	return err
}

// VectorStore returns a base. Errors: fault.NotFound.
func (s *Service) VectorStore(ctx context.Context, tenant, id string) (*VectorStore, error) {
	b, err := s.bases.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	sizes, err := s.Store.CountBytes(ctx, tenant, []string{id})
	if err != nil {
		return nil, err
	}
	return s.asVectorStore(b, sizes), nil
}

// VectorStores returns bases newest first, after an id.
func (s *Service) VectorStores(ctx context.Context, tenant, after string, limit int) ([]*VectorStore, error) {
	found, err := s.bases.List(ctx, tenant, resource.Find{After: after, Limit: limit})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(found))
	for i, b := range found {
		ids[i] = b.ID
	}
	sizes, err := s.Store.CountBytes(ctx, tenant, ids)
	if err != nil {
		return nil, err
	}
	out := make([]*VectorStore, len(found))
	for i, b := range found {
		out[i] = s.asVectorStore(b, sizes)
	}
	return out, nil
}

func (s *Service) asVectorStore(b *base, sizes map[string]int64) *VectorStore {
	return &VectorStore{Base: s.alone(b), Metadata: b.Metadata, Bytes: sizes[b.ID]}
}
