package retrieval

import (
	"context"
	"errors"
	"strings"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/work"
)

// batch is how many passages are embedded and stored at a time.
const batch = 64

// Handle is the work.Handler of WorkKind: it embeds the passages of a collection
// that the current model has not embedded. Errors: those of the embedding model;
// the work is retried later.
func (s *Service) Handle(ctx context.Context, held work.Lease) error {
	tenant, collection := held.TenantID, held.Key
	for s.Embedder != nil {
		if err := work.StopIfDraining(ctx); err != nil {
			return err
		}
		pending, err := s.Store.ListPending(ctx, tenant, collection, s.Model(), batch)
		if err != nil {
			return err
		}
		if len(pending) == 0 {
			break
		}
		vectors, err := s.embed(ctx, pending)
		if err != nil {
			return err
		}
		err = s.Writer.Write(ctx, func(tx txn.Tx) error {
			if err := s.Queue.HoldTx(tx, held, s.Lease); err != nil {
				return err
			}
			version, err := s.Store.IncrementVersionTx(tx, tenant, collection)
			if err != nil {
				return err
			}
			return s.Store.UpdateVectorsTx(tx, tenant, collection, version, s.Model(), vectors)
		})
		if err != nil {
			return err
		}
	}
	return s.finish(ctx, held)
}

// finish ends the work unless passages were added meanwhile: whoever added them
// found the work held and enqueued nothing.
func (s *Service) finish(ctx context.Context, held work.Lease) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if s.Embedder == nil {
			return s.Queue.FinishTx(tx, held)
		}
		if _, err := s.Store.IncrementVersionTx(tx, held.TenantID, held.Key); err != nil {
			return err
		}
		more, err := s.Store.HasPendingTx(tx, held.TenantID, held.Key, s.Model())
		if err != nil {
			return err
		}
		if more {
			return s.Queue.RescheduleTx(tx, held, s.Clock.Now(), nil)
		}
		return s.Queue.FinishTx(tx, held)
	})
}

// embed computes the vectors of passages. If the model refuses a batch, each text
// is tried alone, so that a text that the model does not accept stays without a
// vector and does not affect the others.
func (s *Service) embed(ctx context.Context, passages []Passage) ([]Vector, error) {
	made, err := s.vectors(ctx, passages)
	if !refuses(err) {
		return made, err
	}
	if len(passages) == 1 {
		s.Log.Warn("the embedding model does not take a text; it is found by its words alone", "passage", passages[0].ID, "error", err)
		return []Vector{{ID: passages[0].ID, Version: passages[0].Version}}, nil
	}
	var all []Vector
	for i := range passages {
		one, err := s.embed(ctx, passages[i:i+1])
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

func (s *Service) vectors(ctx context.Context, passages []Passage) ([]Vector, error) {
	texts := make([]string, len(passages))
	for i, p := range passages {
		if texts[i] = Cut(p.Text); strings.TrimSpace(texts[i]) == "" {
			texts[i] = "-" // many models refuse an empty text
		}
	}
	made, err := s.Embedder.Embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	vectors := make([]Vector, len(passages))
	for i, p := range passages {
		vectors[i] = Vector{p.ID, p.Version, made.Vectors[i]}
	}
	return vectors, nil
}

// refuses reports whether an error is about the texts, not about the endpoint.
func refuses(err error) bool {
	failure, ok := errors.AsType[*model.Error](err)
	if !ok || failure.Retryable {
		return false
	}
	return failure.Status == 400 || failure.Status == 413 || failure.Status == 422
}

// EmbedNow computes vectors of texts that are not stored yet. It returns nil if
// there is no embedding model or it fails: then they are embedded later.
func (s *Service) EmbedNow(ctx context.Context, texts []string) [][]float32 {
	if s.Embedder == nil || len(texts) == 0 {
		return nil
	}
	cut := make([]string, len(texts))
	for i, t := range texts {
		cut[i] = Cut(t)
	}
	made, err := s.Embedder.Embed(ctx, cut)
	if err != nil {
		s.Log.Warn("texts could not be embedded at once", "error", err)
		return nil
	}
	return made.Vectors
}
