package ledger

import (
	"context"
	"fmt"
	"time"

	"agentd/internal/base/hashchain"
)

// Verdict is the result of a verification.
type Verdict struct {
	_ struct{} `json:"-" name:"LedgerVerification"`

	Valid        bool      `json:"valid" required:"true"`
	Checked      int64     `json:"entries_checked" required:"true"`
	FirstInvalid *int64    `json:"first_invalid_seq,omitzero" doc:"Number of the first entry that was changed, removed or moved."`
	Error        string    `json:"error,omitzero" doc:"What does not fit there."`
	CheckedAt    time.Time `json:"checked_at" required:"true"`
}

// Verify computes a tenant's chain again, from entry from to entry to; 0 leaves an end
// open. It reads the chain in pages, and ends with ctx.
func (l *Ledger) Verify(ctx context.Context, tenant string, from, to int64) (*Verdict, error) {
	if err := l.Seal(ctx, tenant); err != nil {
		return nil, err
	}
	head, err := l.Store.GetHead(ctx, tenant)
	if err != nil {
		return nil, err
	}
	last := head.Seq
	if to > 0 {
		last = min(to, head.Seq)
	}
	at, err := l.before(ctx, tenant, from)
	if err != nil {
		return nil, err
	}
	v := &Verdict{Valid: true, CheckedAt: l.Clock.Now()}
	invalid := func(seq int64, reason string) *Verdict {
		v.Valid, v.FirstInvalid, v.Error = false, &seq, reason
		return v
	}
	pages := l.pages(ctx, tenant, at.Seq+1, last)
	defer pages.stop()
	buffer := make([]byte, 0, 4096)
	for at.Seq < last {
		entries, err := pages.next()
		if err != nil {
			return nil, err
		}
		if len(entries) == 0 {
			return invalid(at.Seq+1, fmt.Sprintf("entry %d is missing: the chain has %d entries", at.Seq+1, head.Seq)), nil
		}
		for i := range entries {
			if err := entries[i].Follows(at, buffer); err != nil {
				return invalid(at.Seq+1, err.Error()), nil
			}
			at = hashchain.Head{Seq: entries[i].Seq, Hash: entries[i].Hash}
			v.Checked++
		}
	}
	if to <= 0 && at.Hash != head.Hash {
		return invalid(at.Seq, fmt.Sprintf("entry %d is not the one that the chain ended with when it was sealed", at.Seq)), nil
	}
	if to <= 0 {
		// What was added behind the end is in no chain.
		more, err := l.Store.List(ctx, tenant, Filter{}, Window{From: last + 1, Limit: 1, Ascending: true})
		if err != nil {
			return nil, err
		}
		now, err := l.Store.GetHead(ctx, tenant)
		if err == nil && len(more) > 0 && now == head {
			return invalid(more[0].Seq, fmt.Sprintf("entry %d was added behind the end of the chain", more[0].Seq)), nil
		}
		return v, err
	}
	return v, nil
}

// before returns the entry before one, as the head of what is before it.
func (l *Ledger) before(ctx context.Context, tenant string, from int64) (hashchain.Head, error) {
	if from <= 1 {
		return hashchain.Head{}, nil
	}
	at := hashchain.Head{Seq: from - 1}
	entries, err := l.Store.List(ctx, tenant, Filter{}, Window{From: from - 1, To: from, Limit: 2, Ascending: true})
	if err != nil || len(entries) == 0 {
		return at, err
	}
	if entries[0].Seq == at.Seq {
		at.Hash = entries[0].Hash
	} else {
		at.Hash = entries[0].PrevHash // the missing entry is not in the range
	}
	return at, nil
}

// pages reads a chain ahead of its reader.
type pages struct {
	read   chan batch
	cancel context.CancelFunc
}

type batch struct {
	entries []hashchain.Entry
	err     error
}

func (l *Ledger) pages(ctx context.Context, tenant string, from, to int64) *pages {
	ctx, cancel := context.WithCancel(ctx)
	p := &pages{make(chan batch, 1), cancel}
	go func() {
		defer close(p.read)
		for from <= to {
			entries, err := l.Store.List(ctx, tenant, Filter{}, Window{From: from, To: to, Limit: verifyPage, Ascending: true})
			select {
			case p.read <- batch{entries, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || len(entries) < verifyPage {
				return
			}
			from = entries[len(entries)-1].Seq + 1
		}
	}()
	return p
}

// next returns the next entries; none at the end.
func (p *pages) next() ([]hashchain.Entry, error) {
	read := <-p.read
	return read.entries, read.err
}

// stop ends the reading and waits for its end.
func (p *pages) stop() {
	p.cancel()
	for range p.read { // what was read ahead is not needed
	}
}
