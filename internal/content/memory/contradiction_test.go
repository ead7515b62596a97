package memory_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/content/memory"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/tool"
)

// What a conversation says otherwise takes the place of what was remembered, of the same
// person only.
func TestContradictions(t *testing.T) {
	each(t, func(r *rig) {
		a, other := r.agent(extracting), r.agent(extracting)
		r.add(other, memory.Draft{Content: "Ada drinks tea at breakfast.", EntityName: "Ada"})
		r.add(a, memory.Draft{Content: "Bob drinks tea at breakfast.", EntityName: "Bob"}, memory.Draft{Content: "Ada drinks tea at breakfast.", EntityName: "Ada"})
		r.brain.says = func(q model.Request) (string, error) {
			if said := q.Messages[1].Text; !strings.Contains(said, `"known":[`) || strings.Count(said, "drinks tea") != 2 {
				r.Errorf("the model does not know what is remembered: %s", said)
			}
			return `{"facts":[{"content":"Ada drinks coffee at breakfast.","entity_name":"ada","replaces":[1,2,1,3,-1]}]}`, nil
		}
		r.run(a, "Ada drinks coffee, not tea, at breakfast", "Noted.")
		if errs := r.extract(); !slices.Equal(errs, []error{nil}) {
			r.Fatal(errs)
		}
		if got, want := contents(r.find(a, memory.Asked{Text: "breakfast"})), []string{"Ada drinks coffee at breakfast.", "Bob drinks tea at breakfast."}; !same(got, want) {
			r.Errorf("found %q", got)
		}
		if got := r.find(other, memory.Asked{Text: "breakfast"}); len(got) != 1 {
			r.Errorf("another agent finds %v", got)
		}
		var old, now memory.Entry
		for _, e := range r.all(a) {
			switch e.Content {
			case "Ada drinks tea at breakfast.":
				old = e
			case "Ada drinks coffee at breakfast.":
				now = e
			}
		}
		if old.SupersededBy != now.EntryID || now.SupersededBy != "" {
			r.Errorf("%+v, %+v", old, now)
		}
		// It is remembered again once what took its place is gone, or it is written again.
		if err := r.Delete(r.Context(), r.who.TenantID, a, now.EntryID); err != nil {
			r.Fatal(err)
		}
		if got := r.find(a, memory.Asked{Text: "breakfast"}); len(got) != 2 {
			r.Errorf("found %v", got)
		}
	})
}

func same(got, want []string) bool {
	slices.Sort(got)
	return slices.Equal(got, want)
}

func TestSavedContradictions(t *testing.T) {
	each(t, func(r *rig) {
		a, other := r.agent(`{}`), r.agent(`{}`)
		var save tool.Tool
		for _, tl := range r.Tools() {
			if tl.Name == "memory_save" {
				save = tl
			}
		}
		call := func(agent, id, arguments string, sources ...string) string {
			got, err := save.Run(r.Context(), tool.Call{TenantID: r.who.TenantID, AgentID: agent, RunID: "r", ID: id, Arguments: arguments, Sources: sources})
			if err != nil {
				r.Fatalf("%+v, %v", got, err)
			}
			return got.Output
		}
		if first := call(a, "1", `{"content":"The office closes at five."}`); strings.Contains(first, "similar") {
			r.Errorf("the first says %s", first)
		}
		old := r.all(a)[0]
		if second := call(a, "2", `{"content":"The office closes at six."}`); !strings.Contains(second, `"similar":[{"entry_id":"`+old.EntryID) {
			r.Errorf("the second says %s", second)
		}
		found := func() []string { return contents(r.find(a, memory.Asked{Text: "When does the office close?"})) }
		call(other, "3", `{"content":"It closes at seven.","replaces":["`+old.EntryID+`"]}`)
		call(a, "4", `{"content":"The office closes at eight, says a page.","replaces":["`+old.EntryID+`"]}`, "web")
		if got := found(); !slices.Contains(got, "The office closes at five.") {
			r.Errorf("another agent, or a page, took its place: %q", got)
		}
		call(a, "5", `{"content":"The office closes at four.","replaces":["`+old.EntryID+`"]}`)
		if got := found(); slices.Contains(got, "The office closes at five.") || !slices.Contains(got, "The office closes at four.") {
			r.Errorf("found %q", got)
		}
		text := "The office closes at five, again."
		if e, err := r.Update(r.Context(), r.who.TenantID, a, old.EntryID, memory.Change{Content: &text}); err != nil || e.SupersededBy != "" {
			r.Errorf("%+v, %v", e, err)
		}
		if diff := cmp.Diff(true, slices.Contains(found(), text)); diff != "" {
			r.Error("what was written again is not found")
		}
	})
}
