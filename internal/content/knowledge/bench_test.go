package knowledge_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"agentd/internal/content/knowledge"
	"agentd/internal/store/sqldb/sqldbtest"
)

// markdownPage returns a page of about 500 words with headings, a list and a table.
func markdownPage(rng *rand.Rand, n int) string {
	words := strings.Fields(`the a of to and in is it you that for on are with as at this be from have or by one had not but what all were when your can said there use
		an each which she do how their if will up other about out many then them these so some her would make like him into time has look two more write go see number no way could people
		account address agent answer billing branch budget cancel change charge choose contract credit customer deliver deposit device discount document download email enable error export`)
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[rng.IntN(len(words))])
			if rng.IntN(12) == 0 {
				fmt.Fprintf(&b, "%x", rng.IntN(5000))
			}
			b.WriteByte(' ')
		}
		return b.String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Page %d\n\n", n)
	for section := range 4 {
		fmt.Fprintf(&b, "## Section %d of %s\n\n%s\n\n- %s\n- %s\n\n| %s | %s |\n|---|---|\n| %s | %s |\n\n",
			section, text(3), text(90), text(8), text(8), text(1), text(1), text(4), text(4))
	}
	return b.String()
}

// Pages of Markdown that four clients add to a base on SQLite, until they are found.
func BenchmarkIngest(b *testing.B) {
	const clients, pages = 4, 500
	rng := rand.New(rand.NewPCG(1, 2))
	var contents [clients * pages]string
	for i := range contents {
		contents[i] = markdownPage(rng, i)
	}
	r := newRig(b, sqldbtest.Open(b, sqldbtest.SQLite), nil)
	for b.Loop() {
		r.base = r.call("createKnowledgeBase", `{"name":"Pages"}`).(*knowledge.Base).ID
		var added sync.WaitGroup
		for client := range clients {
			added.Go(func() {
				for i := range pages {
					n := client*pages + i
					if _, err := r.add(text(contents[n], fmt.Sprintf("page%d.md", n))); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		added.Wait()
		got, err := r.Find(b.Context(), r.who.TenantID, r.base, knowledge.Question{Text: "account address", Limit: 5})
		if err != nil || got.Count != 5 {
			b.Fatalf("%+v, %v", got, err)
		}
	}
	b.ReportMetric(float64(b.N*clients*pages)/b.Elapsed().Seconds(), "pages/s")
}
