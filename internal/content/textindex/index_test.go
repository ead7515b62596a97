package textindex

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var noon = time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)

func TestChunk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text    string
		size, overlap int
		want          []string
	}{
		{"short", "one two", 100, 0, []string{"one two"}},
		{"blank", " \n ", 10, 0, nil},
		{"words", "aaa bbb ccc ddd", 8, 0, []string{"aaa bbb", "ccc ddd"}},
		{"sentence", "One two. Three four five", 16, 0, []string{"One two.", "Three four five"}},
		{"paragraph", "Aaa bbb.\n\nCcc ddd. Eee", 18, 0, []string{"Aaa bbb.", "Ccc ddd. Eee"}},
		{"hard", "aaaaaaaaaa", 4, 0, []string{"aaaa", "aaaa", "aa"}},
		{"overlap", "aaa bbb ccc ddd", 8, 4, []string{"aaa bbb", "bbb ccc", "ccc ddd"}},
		{"hard_overlap", "abcdefgh", 4, 2, []string{"abcd", "cdef", "efgh"}},
		{"wide", "東京都。京都府。", 5, 0, []string{"東京都。", "京都府。"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Chunk(tt.text, tt.size, tt.overlap)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever is cut, no piece is too long and no word is lost.
func FuzzChunk(f *testing.F) {
	f.Add("One two.\n\nThree 東京。 four", 7, 3)
	f.Fuzz(func(t *testing.T, text string, size, overlap int) {
		size = 2 + int(uint(size)%100)
		overlap = int(uint(overlap) % uint(size/2+1))
		pieces := Chunk(text, size, overlap)
		bare := func(s string) string { return strings.Join(strings.Fields(s), "") }
		for _, p := range pieces {
			if n := utf8.RuneCountInString(p); n > size || n == 0 {
				t.Errorf("a piece of %d characters: %q", n, p)
			}
		}
		if overlap == 0 && bare(strings.Join(pieces, "")) != bare(string([]rune(text))) {
			t.Errorf("%q became %q", text, pieces)
		}
	})
}

func hits(list []Hit) (ids []string) {
	for _, h := range list {
		ids = append(ids, h.ID)
	}
	return ids
}

func TestSearch(t *testing.T) {
	t.Parallel()
	x := New()
	day := 24 * time.Hour
	for _, d := range []Doc{
		{ID: "cat-old", Kind: "semantic", Text: "The cat sleeps", At: noon.Add(-40 * day), Vector: []float32{1, 0, 0}},
		{ID: "cat-new", Kind: "semantic", Text: "A cat sleeps", At: noon, Vector: []float32{1, 0, 0}},
		{ID: "cat-long", Kind: "note", Text: "There was a cat, and a dog, and a horse, and a cow, and then nothing", At: noon},
		{ID: "feline", Kind: "note", Text: "Felines rest", At: noon, Vector: []float32{0.9, 0.1, 0}, Boost: 1},
		{ID: "boat", Kind: "note", Text: "Boats float", At: noon.Add(day), Vector: []float32{0, 0, 1}},
	} {
		x.Put(d)
	}
	for _, tt := range []struct {
		name string
		q    Query
		want []string
	}{
		{"words", Query{Text: "cat"}, []string{"cat-new", "cat-old", "cat-long"}},
		{"both_words", Query{Text: "horse cat", MinScore: new(float64)}, []string{"cat-long", "cat-new", "cat-old"}},
		{"accents", Query{Text: "CÁT"}, []string{"cat-new", "cat-old", "cat-long"}},
		{"nothing", Query{Text: "submarine"}, nil},
		{"noise", Query{Text: "the and"}, nil},
		{"one_of_three_words", Query{Text: "submarine cat whale"}, nil},
		{"all_that_matches", Query{Text: "submarine cat whale", MinScore: new(float64)}, []string{"cat-new", "cat-old", "cat-long"}},
		{"only_sure_ones", Query{Text: "sleeping cats", MinScore: new(0.6)}, []string{"cat-new", "cat-old"}},
		{"a_stem", Query{Text: "floating"}, []string{"boat"}},
		{"misspelled", Query{Text: "flaot felinnes"}, []string{"feline"}},
		{"blank", Query{Text: " ?! "}, nil},
		{"no_text", Query{}, nil},
		{"vector", Query{Text: "kitten", Vector: []float32{2, 0, 0}, Strategy: Relevance}, []string{"cat-new", "cat-old", "feline"}},
		{"both", Query{Text: "felines", Vector: []float32{1, 0, 0}, Strategy: Relevance}, []string{"feline", "cat-new", "cat-old"}},
		{"another_length", Query{Text: "x", Vector: []float32{1, 0}}, nil},
		{"no_direction", Query{Text: "x", Vector: []float32{0, 0, 0}}, nil},
		{"kinds", Query{Text: "cat", Kinds: []string{"note"}}, []string{"cat-long"}},
		{"no_kinds", Query{Text: "cat", Kinds: []string{}}, nil},
		{"decay", Query{Text: "cat", HalfLife: 10 * day}, []string{"cat-new", "cat-long", "cat-old"}},
		{"relevance_heeds_no_age", Query{Text: "cat", HalfLife: day, Strategy: Relevance}, []string{"cat-new", "cat-old", "cat-long"}},
		{"recency", Query{Text: "cat", Strategy: Recency}, []string{"cat-long", "cat-new", "cat-old"}},
		{"newest", Query{Strategy: Recency}, []string{"boat", "cat-long", "cat-new", "feline", "cat-old"}},
		{"newest_of_a_kind", Query{Strategy: Recency, Kinds: []string{"semantic"}, Limit: 1}, []string{"cat-new"}},
		{"limit", Query{Text: "cat", Limit: 2}, []string{"cat-new", "cat-old"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.q.Now = noon
			if tt.q.Limit == 0 {
				tt.q.Limit = 10
			}
			if diff := cmp.Diff(tt.want, hits(x.Search(tt.q)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if id, near := x.Nearest([]float32{0.9, 0.11, 0}); id != "feline" || near < 0.99 {
		t.Errorf("nearest: %s, %v", id, near)
	}
	if id, _ := x.Nearest([]float32{1}); id != "" {
		t.Errorf("nearest of another length: %s", id)
	}
}

func TestBoostAndDecay(t *testing.T) {
	t.Parallel()
	x := New()
	x.Put(Doc{ID: "a", Text: "cat", At: noon})
	x.Put(Doc{ID: "b", Text: "cat", At: noon.Add(-time.Second), Boost: 0.5})
	x.Put(Doc{ID: "c", Text: "cat", At: noon.Add(-2 * time.Second), Boost: 1e300})
	if got := hits(x.Search(Query{Text: "cat", Limit: 3, Now: noon})); !slices.Equal(got, []string{"c", "b", "a"}) {
		t.Errorf("by boost: %v", got)
	}
	for _, tt := range []struct{ age, halfLife, want float64 }{{0, 1, 1}, {1, 1, 0.5}, {2, 1, 0.25}, {5, 0, 1}, {-1, 1, 1}} {
		if got := Decay(time.Duration(tt.age*1e9), time.Duration(tt.halfLife*1e9)); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%v after %v: %v", tt.halfLife, tt.age, got)
		}
	}
}

// An index that texts were added to, replaced in and removed from answers like
// one that was made of what remains, in another order.
func TestChangedIndexIsLikeANewOne(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	doc := func(i int) Doc {
		d := Doc{ID: fmt.Sprint("d", i%300), Text: randomText(rng, 30), At: noon.Add(time.Duration(rng.IntN(5)) * time.Hour), Boost: float64(rng.IntN(3)) / 2}
		if rng.IntN(2) == 0 {
			d.Vector = randomVector(rng, 8)
		}
		return d
	}
	changed, remaining := New(), map[string]Doc{}
	for i := range 3000 {
		d := doc(i)
		if rng.IntN(3) == 0 {
			changed.Remove(d.ID)
			delete(remaining, d.ID)
			continue
		}
		changed.Put(d)
		remaining[d.ID] = d
	}
	keep := map[string]bool{}
	for id := range remaining {
		if rng.IntN(4) > 0 {
			keep[id] = true
		} else {
			delete(remaining, id)
		}
	}
	changed.Retain(keep)
	fresh := New()
	for _, d := range remaining { // in any order
		fresh.Put(d)
	}
	if changed.Len() != len(remaining) || changed.Vectors() != fresh.Vectors() || changed.words != fresh.words {
		t.Fatalf("%d texts of %d, %d vectors of %d", changed.Len(), len(remaining), changed.Vectors(), fresh.Vectors())
	}
	for range 50 {
		q := Query{Text: randomText(rng, 3), Vector: randomVector(rng, 8), Limit: 40, Now: noon, HalfLife: 5 * time.Hour}
		if diff := cmp.Diff(fresh.Search(q), changed.Search(q), cmpopts.IgnoreUnexported(Hit{})); diff != "" {
			t.Fatalf("(-new +changed):\n%s", diff)
		}
	}
}

func randomText(rng *rand.Rand, words int) string {
	var b strings.Builder
	for range words {
		// A few words are common and most are rare.
		fmt.Fprintf(&b, "w%d ", int(rng.ExpFloat64()*400))
	}
	return b.String()
}

func randomVector(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

func BenchmarkSearch10k(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := New()
	for i := range 10_000 {
		x.Put(Doc{ID: fmt.Sprint(i), Text: randomText(rng, 60), At: noon, Vector: randomVector(rng, 384)})
	}
	q := Query{Text: randomText(rng, 8), Limit: 10, Now: noon, HalfLife: time.Hour}
	b.Run("words", func(b *testing.B) {
		for b.Loop() {
			x.Search(q)
		}
	})
	q.Vector = randomVector(rng, 384)
	b.Run("words_and_vectors", func(b *testing.B) {
		for b.Loop() {
			x.Search(q)
		}
	})
	b.ReportMetric(float64(x.Bytes())/10_000, "B/text")
}

func BenchmarkPut(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, text := New(), randomText(rng, 100)
	for i := 0; b.Loop(); i++ {
		x.Put(Doc{ID: fmt.Sprint(i % 1000), Text: text})
	}
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	x := New()
	for _, d := range []Doc{
		{ID: "de", Text: "Die Rückgabefrist beträgt dreißig Tage."}, {ID: "fr", Text: "Les remboursements sont effectués en quatorze jours."},
		{ID: "es", Text: "Los pedidos se entregan en tres días."}, {ID: "it", Text: "Le spedizioni sono gratuite per gli abbonati."},
		{ID: "pt", Text: "As faturas são enviadas no início de cada mês."}, {ID: "nl", Text: "De bestellingen worden door de postbode gebracht."},
		{ID: "sv", Text: "Fakturor skickas till din e-postadress och betalas i slutet av månaden."},
		{ID: "da", Text: "Abonnementer kan opsiges når som helst af kunden."}, {ID: "no", Text: "Dere får pakkene hjem med sykkelbud."},
		{ID: "ja", Text: "返金は十四日以内に行われます。"},
	} {
		x.Put(d)
	}
	for query, want := range map[string]string{
		"Wann endet die Frist?": "de", "Rueckgabefristen": "de", "Quand est effectué le remboursement ?": "fr", "¿Cuándo se entrega el pedido?": "es",
		"Quando è gratuita la spedizione?": "it", "Quando é enviada a fatura?": "pt", "Wanneer wordt de bestelling gebracht?": "nl",
		"Vart skickas fakturan?": "sv", "Hvordan opsiger jeg mit abonnement?": "da", "Hvem kommer med pakken?": "no", "返金": "ja",
	} {
		if got := x.Search(Query{Text: query, Limit: 1}); len(got) != 1 || got[0].ID != want {
			t.Errorf("%q: %v", query, got)
		}
	}
	if in, sure := detect(nil); in != nil || sure {
		t.Errorf("no words are in %v", in)
	}
	if got := tokensOf(strings.Repeat("a ", 10)); len(got) != 10 {
		t.Errorf("%v", got)
	}
	for i := range languages {
		if in := &languages[i]; len(in.stop) == 0 || i < common && (len(in.weak) == 0 || len(known[in]().groups) < 50) {
			t.Errorf("%s has no words", in.name)
		}
	}
}

func TestElisions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"l'ascenseur de l’hôtel": "l ascenseur de l hotel", "Jusqu'à quand ?": "jusqu a quand", "the company's cars": "the company cars", "the users' guide": "the users guide",
		"don't": "dont", "'": "", "x's": "x", "L'S": "l", "'s": "",
	} {
		if got := strings.Join(tokensOf(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Whatever is asked and indexed, scores are from 0 to 1, and a search ends.
func FuzzSearch(f *testing.F) {
	f.Add("Die Rückgabefrist's l'été", "d'Frist \xff 東京 felinnes")
	f.Fuzz(func(t *testing.T, text, query string) {
		x := New()
		x.Put(Doc{ID: "a", Text: text})
		x.Put(Doc{ID: "b", Text: "Refunds are issued within 14 days"})
		for _, h := range x.Search(Query{Text: query, Limit: 5, MinScore: new(float64)}) {
			if h.Score < 0 || h.Score > 1 || math.IsNaN(h.Score) {
				t.Errorf("%q in %q: %v", query, text, h)
			}
		}
	})
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	text := "intro\n\n# One\n\nfirst text\n\n## Two ##\n\nsécond text\n\n```\n# no heading\n```\nthird text\n\n## \n\n# Four\n#hashtag fourth text\n"
	pieces := []string{"intro", "# One\n\nfirst text", "sécond text", "third text", "fourth text", "not there"}
	want := []Place{
		{[]string{}, 0, 0},
		{[]string{"One"}, 7, 0},
		{[]string{"One", "Two"}, 37, 0},
		{[]string{"One", "Two"}, 71, 0},
		{[]string{"Four"}, 104, 0},
		{[]string{"Four"}, -1, 0},
	}
	if diff := cmp.Diff(want, Places(text, pieces)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	paged := []Place{{[]string{}, 2, 2}, {[]string{}, 10, 3}, {[]string{}, 15, 3}}
	if diff := cmp.Diff(paged, Places("\f\ntea at\f\nfive o'clock", []string{"tea at", "five", "o'clock"})); diff != "" {
		// A page that begins with a break is one without text.
		t.Errorf("(-want +got):\n%s", diff)
	}
	long := "# A\n\n" + strings.Repeat("word ", 30) + "\n# B\n\n" + strings.Repeat("more ", 10)
	cut := Chunk(long, 200, 20)
	if len(cut) != 2 || !strings.HasPrefix(cut[1], "word") && !strings.HasPrefix(cut[1], "# B") {
		t.Errorf("%q", cut)
	}
}

func FuzzPlaces(f *testing.F) {
	f.Add("# A\n\ntext \xff\n## B\n\f", 10, 3)
	f.Fuzz(func(t *testing.T, text string, size, overlap int) {
		size = 2 + int(uint(size)%100)
		pieces := Chunk(text, size, int(uint(overlap)%uint(size/2+1)))
		got := Places(text, pieces)
		if len(got) != len(pieces) {
			t.Fatalf("%d places of %d pieces", len(got), len(pieces))
		}
		runes := []rune(text)
		for i, p := range got {
			if end := p.Start + utf8.RuneCountInString(pieces[i]); p.Start >= 0 && (end > len(runes) || string(runes[p.Start:end]) != pieces[i]) {
				t.Errorf("piece %d does not stand at %d", i, p.Start)
			}
		}
	})
}

// A question finds what answers it where there are few texts, although none of its words
// can be rare among them.
func TestFewTexts(t *testing.T) {
	t.Parallel()
	x := New()
	x.Put(Doc{ID: "only", Text: "Refunds are issued within 14 days after we receive the returned item."})
	for query, want := range map[string]int{
		"When is my money refunded?": 1, "how do I get a refund for shoes": 1, "Do you sell shoes?": 0, "Who wrote Faust?": 0,
	} {
		if got := x.Search(Query{Text: query, Limit: 5}); len(got) != want {
			t.Errorf("%q: %v", query, got)
		}
	}
}

func TestSynonyms(t *testing.T) {
	t.Parallel()
	x := New()
	for _, d := range []Doc{
		{ID: "leave", Text: "Paid time off is requested from your supervisor two weeks ahead."},
		{ID: "car", Text: "The vehicle is returned with a full tank."},
		{ID: "bank", Text: "The Wolpertinger opens at nine and closes at five."},
		{ID: "de", Text: "Das Fahrzeug wird mit vollem Tank zurückgegeben, und die Abgabe ist bis zehn Uhr möglich."},
	} {
		x.Put(d)
	}
	named := [][]string{{"PTO", "paid time off", " "}, {"headquarters", "the Wolpertinger"}, {"", "?"}}
	for _, tt := range []struct {
		query    string
		synonyms [][]string
		want     []string
	}{
		{"who is my boss", nil, []string{"leave"}}, // known of English
		{"the automobiles", nil, []string{"car"}},
		{"Wo ist das Auto?", nil, []string{"de"}},
		{"PTO", nil, nil},
		{"PTO", named, []string{"leave"}},
		{"the pto and the tank", named, []string{"car", "leave"}},
		{"headquarters", nil, nil},
		{"where are the headquarters", named, []string{"bank"}},
		{"time and motion", named, nil}, // one word of three is not the phrase
	} {
		var got []string
		for _, h := range x.Search(Query{Text: tt.query, Synonyms: tt.synonyms, Limit: 2}) {
			got = append(got, h.ID)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q: %s", tt.query, diff)
		}
	}
}

// A stem means another thing in another language: backe and back.
func TestStemsOfAnotherLanguage(t *testing.T) {
	t.Parallel()
	x := New()
	x.Put(Doc{ID: "en", Text: "If you do not like the item, you can send the goods back to us within a month."})
	x.Put(Doc{ID: "de", Text: "Wer Brot backt, lässt den Teig über Nacht ruhen, und dann ist er am Morgen fertig."})
	got := x.Search(Query{Text: "Wie backe ich ein Brot und wann ist es fertig?", Limit: 5, MinScore: new(float64)})
	if len(got) == 0 || got[0].ID != "de" || len(got) > 1 && got[1].Score > 0.2 {
		t.Errorf("found %v", got)
	}
}
