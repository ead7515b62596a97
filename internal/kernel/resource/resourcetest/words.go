package resourcetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/base/text"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// testWords finds documents by the beginnings of their words, in every order, with
// other filters, and after every kind of write.
func testWords(t *testing.T, b bench) {
	named := func(words ...string) resource.Doc {
		doc := b.doc()
		doc.Words = words
		doc.Index[0] = words[0]
		return doc
	}
	night, nightly, bot := named("night", "bot"), named("nightly", "report"), named("bot", "東京", "nacht")
	other := named("night")
	other.Kind = "another"
	b.mustPut(t, night, nightly, bot, other)
	names := map[string]string{night.ID: "night", nightly.ID: "nightly", bot.ID: "bot"}
	check := func(want []string, q resource.Query) {
		t.Helper()
		q.Kind, q.Tenant, q.Limit = kind, b.tenant, max(q.Limit, 1)
		docs, err := b.List(t.Context(), q)
		got := []string{}
		for _, doc := range docs {
			got = append(got, names[doc.ID])
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%+v: %v (-want +got):\n%s", q, err, diff)
		}
	}
	find := func(words ...string) resource.Query { return resource.Query{Words: words, Limit: 9} }
	check([]string{"bot", "nightly", "night"}, find("n"))
	check([]string{"nightly", "night"}, find("night"))
	check([]string{"nightly"}, find("nightl"))
	check([]string{"night"}, find("bot", "nig"))
	check([]string{"bot"}, find("東", "b", "na"))
	check([]string{}, find("ight"))
	check([]string{}, find("night", "absent"))
	check([]string{"night", "nightly", "bot"}, resource.Query{Words: []string{"n"}, Asc: true, Limit: 9})
	check([]string{"bot"}, resource.Query{Words: []string{"n"}})
	check([]string{"night"}, resource.Query{Words: []string{"n"}, After: nightly.ID, Limit: 9})
	check([]string{"night"}, resource.Query{Words: []string{"n"}, Filter: [resource.Slots]string{"night"}, Limit: 9})

	kept := night
	kept.Version, kept.Words = 2, nil
	renamed := bot
	renamed.Version, renamed.Words = 2, []string{"bread"}
	unnamed := nightly
	unnamed.Version, unnamed.Words = 2, []string{}
	for _, doc := range []resource.Doc{kept, renamed, unnamed} {
		if err := b.put(t, doc, 1); err != nil {
			t.Fatal(err)
		}
	}
	check([]string{"night"}, find("n"))
	check([]string{"bot", "night"}, find("b"))
	if err := b.Write(t.Context(), func(tx txn.Tx) error { return b.DeleteTx(tx, kind, b.tenant, bot.ID, 2) }); err != nil {
		t.Fatal(err)
	}
	check([]string{"night"}, find("b"))
	doc := bot
	doc.Words = []string{"again"}
	b.mustPut(t, doc)
	check([]string{}, find("br"))
	check([]string{"bot"}, find("again"))
}

// names finds resources by the beginnings of the words of their labels.
func (s *suite[T]) names(t *testing.T) {
	if s.store.Label == nil {
		t.Skip("this kind has no names")
	}
	first, _ := s.made(t, s.Full)
	second, _ := s.made(t, s.Full)
	r, err := s.store.Get(t.Context(), s.Who.TenantID, second)
	if err != nil {
		t.Fatal(err)
	}
	name := s.store.Label(r)
	begin := strings.ToUpper(text.Prefix(strings.TrimSpace(name), 3))
	for q, want := range map[string]bool{begin: true, name: true, name + " absentword": false, "absentword": false, ", !": false} {
		got, _ := s.page(t, Args{"q": q})
		if slices.Contains(got, second) != want || !want && len(got) > 0 {
			t.Errorf("looking for %q in %q finds it: %v, and %d in all", q, name, !want, len(got))
		}
	}
	got, cursor := s.page(t, Args{"q": begin, "limit": "1"})
	if len(got) != 1 || got[0] != second || cursor == "" {
		t.Fatalf("the first page is %v, then %q", got, cursor)
	}
	if got, _ := s.page(t, Args{"q": strings.ToLower(begin), "limit": "1", "cursor": cursor}); len(got) != 1 || got[0] != first {
		t.Errorf("the second page is %v", got)
	}
	_, err = s.Do(t.Context(), "GET", s.store.Path, Args{"q": "another", "cursor": cursor})
	WantFault(t, err, fault.Invalid, "INVALID_CURSOR")
}
