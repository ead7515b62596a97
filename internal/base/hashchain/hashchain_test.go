package hashchain_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/hashchain"
)

// chain returns an export of n entries, as lines, with its signed head.
func chain(t *testing.T, n int) ([]string, hashchain.Head, string) {
	t.Helper()
	var head hashchain.Head
	var lines []string
	for i := range n {
		e := hashchain.Entry{
			ID: fmt.Sprintf("id-%d", i), At: time.Unix(1700000000, 123456000).UTC(), Kind: "constitution.amended", SubjectAgentID: "agent",
			Details: []byte(`{"a":1,"b":"é \"quoted\""}`),
		}
		head = e.Seal(head)
		// Other spaces and another order of the members are the same entry.
		lines = append(lines, fmt.Sprintf(`{ "seq":%d,"id":%q,"ts":"2023-11-14T22:13:20.123456Z","kind":"constitution.amended","subject_agent_id":"agent",`+
			`"actor_agent_id":null,"actor_user_id":null,"rule_id":null,"run_id":null,"details":{"b":"\u00e9 \"quoted\"","a":1.0},"prev_hash":%q,"hash":%q}`,
			e.Seq, e.ID, e.PrevHash, e.Hash))
	}
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	h := hashchain.Sign(key, "tenant", head)
	lines = append(lines, fmt.Sprintf(`{"head":{"seq":%d,"hash":%q,"tenant_id":"tenant","public_key":%q,"signature":%q}}`, h.Seq, h.Hash, h.PublicKey, h.Signature))
	return lines, head, h.PublicKey
}

func TestVerify(t *testing.T) {
	t.Parallel()
	swap := func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }
	replace := func(i int, old, with string) func([]string) []string {
		return func(l []string) []string {
			if !strings.Contains(l[i], old) {
				panic(old)
			}
			l[i] = strings.Replace(l[i], old, with, 1)
			return l
		}
	}
	other := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for name, c := range map[string]struct {
		change func([]string) []string
		want   hashchain.Expect
		broken int64  // the entry that is named; -1: none, but broken
		reason string // "": whole
	}{
		"whole":                {},
		"changed":              {change: replace(2, "agent", "other"), broken: 3, reason: "entry 3 was changed"},
		"changed details":      {change: replace(0, `"a":1.0`, `"a":2`), broken: 1, reason: "entry 1 was changed"},
		"a member added":       {change: replace(1, `{ `, `{"x":1,`), broken: 2, reason: "entry 2 was changed"},
		"removed":              {change: func(l []string) []string { return append(l[:1], l[2:]...) }, broken: 2, reason: "entry 2 is missing"},
		"the last removed":     {change: func(l []string) []string { return append(l[:3], l[4]) }, broken: 4, reason: "the head names entry 4"},
		"reordered":            {change: swap, broken: 2, reason: "entry 2 is missing"},
		"a name twice":         {change: replace(1, `"details":{`, `"details":{"a":2,`), broken: 2, reason: "entry 2 has a name twice"},
		"a hash twice":         {change: replace(1, `{ `, `{"hash":"x",`), broken: 2, reason: "entry 2 has a name twice"},
		"after the head":       {change: func(l []string) []string { return append(l, l[0]) }, broken: 0, reason: "line 6 comes after the head"},
		"no head":              {change: func(l []string) []string { return l[:4] }, broken: 5, reason: "it was cut off"},
		"another head":         {change: replace(4, `"hash":"`, `"hash":"0`), broken: 4, reason: "the head's hash is not that of entry 4"},
		"not the known head":   {want: hashchain.Expect{Head: "x"}, broken: 0, reason: "and not the expected x"},
		"another key":          {want: hashchain.Expect{Key: other}, broken: 0, reason: "is not signed by the key"},
		"no key":               {want: hashchain.Expect{Key: "x"}, broken: 0, reason: "is not signed by the key"},
		"another's signature":  {change: replace(4, `"tenant_id":"tenant"`, `"tenant_id":"other"`), want: hashchain.Expect{Key: "own"}, reason: "is not signed by the key"},
		"signature and head":   {want: hashchain.Expect{Key: "own", Head: "own"}},
		"another sequence":     {change: replace(0, `"seq":1`, `"seq":2`), broken: 1, reason: "entry 1 is missing"},
		"another previous one": {change: replace(1, `"prev_hash":"`, `"prev_hash":"0`), broken: 2, reason: "its prev_hash is another"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, head, key := chain(t, 4)
			if c.change != nil {
				lines = c.change(lines)
			}
			if c.want.Key == "own" {
				c.want.Key = key
			}
			if c.want.Head == "own" {
				c.want.Head = head.Hash
			}
			got, err := hashchain.Verify(strings.NewReader(strings.Join(lines, "\n")+"\n"), c.want)
			if c.reason == "" {
				if err != nil || got != head {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			broken, ok := errors.AsType[*hashchain.BrokenError](err)
			if !ok || broken.Seq != c.broken || !strings.Contains(broken.Reason, c.reason) {
				t.Errorf("%+v, want entry %d: %s", err, c.broken, c.reason)
			}
		})
	}
}

func TestUnreadableExports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, reason string }{
		"empty":      {"", "the file is empty"},
		"no JSON":    {"hello\n", "line 1: it is not an entry"},
		"an array":   {"[1]\n", "line 1: it is not an entry"},
		"empty line": {"\n", "line 1: it is not an entry"},
		"other type": {`{"seq":"x"}`, "entry 1 cannot be read"},
		"too long":   {`{"a":"` + strings.Repeat("x", 5<<20) + `"}`, "is longer than"},
		"cut off":    {`{"seq":1,"ha`, "line 1: it is not an entry"},
	} {
		_, err := hashchain.Verify(strings.NewReader(c.text), hashchain.Expect{})
		if _, ok := errors.AsType[*hashchain.BrokenError](err); ok || err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if head, err := hashchain.Verify(strings.NewReader(`{"head":{"seq":0,"hash":""}}`), hashchain.Expect{}); err != nil || head.Seq != 0 {
		t.Errorf("a ledger without entries: %v, %v", head, err)
	}
}

// Entries as the service writes them are verified like those in any other form, and
// nothing can be put beside what was hashed.
func TestCanonicalLines(t *testing.T) {
	t.Parallel()
	e := hashchain.Entry{ID: "i", At: time.Unix(1700000000, 0), Kind: "a.b", Details: []byte(`{"a":"x"}`)}
	head := e.Seal(hashchain.Head{})
	line := string(e.AppendJSON(nil))
	end := fmt.Sprintf("\n"+`{"head":{"seq":1,"hash":%q}}`, head.Hash)
	hash := fmt.Sprintf(`,"hash":%q`, head.Hash)
	bare := strings.Replace(line, hash, "", 1)
	for name, c := range map[string]struct {
		line  string
		whole bool
	}{
		"as written":           {line, true},
		"with spaces":          {strings.Replace(line, ",", " , ", 1), true},
		"changed":              {strings.Replace(line, `"x"`, `"y"`, 1), false},
		"the hash in a member": {strings.Replace(bare, `"a":"x"`, `"a":"x"`+hash, 1), false},
		"the hash twice":       {strings.Replace(line, `"a":"x"`, `"a":"x"`+hash, 1), false},
		"a name twice":         {strings.Replace(line, `,"id":"i"`, `,"id":"j","id":"i"`, 1), false},
		"another member":       {strings.Replace(line, `,"id"`, `,"hush":1,"id"`, 1), false},
		"text behind it":       {line + "{}", false},
	} {
		if _, err := hashchain.Verify(strings.NewReader(c.line+end), hashchain.Expect{}); (err == nil) != c.whole {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkVerify verifies an export of 10,000 entries: a hundredth of what must be done in
// 10 seconds.
func BenchmarkVerify(b *testing.B) {
	var text []byte
	var head hashchain.Head
	for range 10_000 {
		e := hashchain.Entry{
			ID: "0199a7a4-0000-7000-8000-000000000000", At: time.Unix(1700000000, 0), Kind: "enforcement.blocked", SubjectAgentID: "0199a7a4-0000-7000-8000-000000000001",
			RuleID: "no-mail", RunID: "0199a7a4-0000-7000-8000-000000000002",
			Details: []byte(`{"action":"tool:mail","message":"After reading the web, sending mail needs an approval."}`),
		}
		head = e.Seal(head)
		text = append(e.AppendJSON(text), '\n')
	}
	text = fmt.Appendf(text, `{"head":{"seq":%d,"hash":%q}}`, head.Seq, head.Hash)
	for b.Loop() {
		if _, err := hashchain.Verify(bytes.NewReader(text), hashchain.Expect{}); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"seq":1,"prev_hash":"","hash":"x"}` + "\n" + `{"head":{"seq":1,"hash":"x"}}`))
	f.Add([]byte(`{"head":{"seq":0,"hash":""}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if head, err := hashchain.Verify(bytes.NewReader(text), hashchain.Expect{}); err == nil && head.Seq < 0 {
			t.Errorf("head %v", head)
		}
	})
}

func BenchmarkFollows(b *testing.B) {
	e := hashchain.Entry{ID: "0199a7a4-0000-7000-8000-000000000000", At: time.Unix(1700000000, 0), Kind: "enforcement.blocked", Details: []byte(`{"action":"tool:mail"}`)}
	e.Seal(hashchain.Head{})
	buffer := make([]byte, 0, 1024)
	for b.Loop() {
		if err := e.Follows(hashchain.Head{}, buffer); err != nil {
			b.Fatal(err)
		}
	}
}
