package knowledge_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/content/knowledge"
)

// Documents that are not prose in one language are found, too.
func TestUncommonDocuments(t *testing.T) {
	each(t, func(r *rig) {
		for name, content := range map[string]string{
			"arabic":  "يتم استرداد المبلغ خلال أربعة عشر يوما",
			"hebrew":  "ההחזר הכספי מתבצע בתוך ארבעה עשר ימים",
			"mixed":   "Der Versand dauert drei Tage. Livraison en trois jours. 配送は三日です。",
			"numbers": "4711 0815 3.14159\n1742 99",
			"line":    strings.Repeat("x", 400) + " Wolpertinger " + strings.Repeat("y", 400),
			"zero":    "a\x00b Quastenflosser\u202e\ufeff",
		} {
			if _, err := r.add(text(content, name)); err != nil {
				r.Fatalf("%s: %v", name, err)
			}
		}
		for query, want := range map[string]string{
			"استرداد المبلغ": "arabic", "ההחזר הכספי": "hebrew", "Wie lange dauert der Versand?": "mixed", "la livraison": "mixed",
			"配送": "mixed", "0815": "numbers", "3.14159": "numbers", "wolpertinger": "line", "quastenflosser": "zero",
		} {
			got, err := r.Find(r.Context(), r.who.TenantID, r.base, knowledge.Question{Text: query, Limit: 5})
			if err != nil || got.Count == 0 || got.Results[0].Source != want {
				r.Errorf("%q: %+v, %v", query, got, err)
			}
		}
		began := time.Now()
		long := strings.Repeat("the Wolpertinger asks ", 100<<10/22)
		if got, err := r.Find(r.Context(), r.who.TenantID, r.base, knowledge.Question{Text: long, Limit: 5}); err != nil || got.Count != 1 || time.Since(began) > 10*time.Second {
			r.Errorf("a query of 100 KiB: %+v, %v", got, err)
		}
		if _, err := r.add(text(strings.Repeat("z", 10<<20), "huge")); !fault.Is(err, fault.TooLarge) {
			r.Errorf("a line of 10 MiB: %v", err)
		}
		if _, err := r.add(text(" \n\t", "blank")); !fault.Is(err, fault.Malformed) {
			r.Errorf("a blank document: %v", err)
		}
	})
}

// A base that is deleted while it is filled leaves nothing behind.
func TestDeletedWhileFilled(t *testing.T) {
	each(t, func(r *rig) {
		var filling sync.WaitGroup
		var started sync.Once
		begun := make(chan struct{})
		for range 4 {
			filling.Go(func() {
				for {
					_, err := r.add(text("The Wolpertinger sleeps.", "a.txt"))
					started.Do(func() { close(begun) })
					if fault.Is(err, fault.NotFound) {
						return
					}
					if err != nil {
						r.Errorf("a document of a base that is deleted: %v", err)
						return
					}
				}
			})
		}
		<-begun
		if err := r.Delete(r.Context(), r.who, r.base); err != nil {
			r.Error(err)
		}
		filling.Wait()
		left, err := r.Search.Store.ListIDs(r.Context(), r.who.TenantID, r.base)
		if err != nil || len(left) != 0 {
			r.Errorf("%d passages are left, %v", len(left), err)
		}
	})
}

// ranker prefers the shortest text, or fails.
type ranker struct {
	err   error
	few   bool
	asked int
}

func (k *ranker) Rerank(_ context.Context, _ string, texts []string) ([]float64, error) {
	k.asked = len(texts)
	scores := make([]float64, len(texts))
	for i, t := range texts {
		scores[i] = -float64(len(t))
	}
	if k.few {
		scores = scores[1:]
	}
	return scores, k.err
}

func TestReranked(t *testing.T) {
	each(t, func(r *rig) {
		for _, content := range []string{"Tea, tea, tea and more tea for all.", "Tea is there.", "Coffee, and also some tea."} {
			if _, err := r.add(text(content, "a.txt")); err != nil {
				r.Fatal(err)
			}
		}
		find := func() *knowledge.Answer {
			got, err := r.Find(r.Context(), r.who.TenantID, r.base, knowledge.Question{Text: "tea", Limit: 2, MinScore: new(float64)})
			if err != nil || got.Count != 2 {
				r.Fatalf("%+v, %v", got, err)
			}
			return got
		}
		before := find()
		if before.Results[0].Text == "Tea is there." || before.Warnings != nil {
			r.Fatalf("%+v", before)
		}
		if b := r.call("updateKnowledgeBase", `{"rerank":true}`).(*knowledge.Base); !b.Rerank {
			r.Errorf("%+v", b)
		}
		same := func(what string) {
			r.Helper()
			if got := find(); got.Results[0].Text != before.Results[0].Text || len(got.Warnings) != 1 {
				r.Errorf("%s: %+v", what, got)
			}
		}
		same("without a model")
		k := &ranker{}
		r.Reranker = k
		got := find()
		if texts := []string{got.Results[0].Text, got.Results[1].Text}; !slices.Equal(texts, []string{"Tea is there.", "Coffee, and also some tea."}) ||
			got.Warnings != nil || k.asked != 3 {
			r.Errorf("%+v of %d", got, k.asked)
		}
		k.few = true
		same("a score too few")
		k.few, k.err = false, errors.New("down")
		same("a model that fails")
		if b := r.call("createKnowledgeBase", `{"name":"Other","rerank":true}`).(*knowledge.Base); !b.Rerank {
			r.Errorf("%+v", b)
		}
	})
}
