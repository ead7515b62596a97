package contract

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/ident"
)

// tape is where a generator takes its choices from: the bytes of a fuzzer,
// which so learns what its bytes do. What is beyond the end is zero.
type tape struct {
	data []byte
	at   int
}

// choose returns a number below n.
func (s *tape) choose(n int) int {
	if s.at >= len(s.data) || n < 2 {
		return 0
	}
	b := int(s.data[s.at])
	s.at++
	if n > 256 && s.at < len(s.data) {
		b = b<<8 | int(s.data[s.at])
		s.at++
	}
	return b % n
}

// pick returns one of the given values.
func pick[T any](s *tape, all []T) T { return all[s.choose(len(all))] }

// writer writes a body as an operation's schema has it, with ids of the
// company where it names things, and at one of its values something else.
type writer struct {
	*tape
	op   *contracttest.Operation
	c    *contracttest.Company
	base object // of the operation's recipe
	rich bool   // with more than the recipe has and the schema requires

	mutate int // at this value; -1: nowhere
	values int // written so far
	out    strings.Builder
}

// bodyFrom writes a valid body, or one that is not as it should be at one place.
func bodyFrom(c *contracttest.Company, op *contracttest.Operation, s *tape, base object, mutated bool) string {
	rich := s.choose(2) == 1
	start := *s
	w := &writer{tape: s, op: op, c: c, base: base, rich: rich, mutate: -1}
	w.value(op.BodySchema, "", 0)
	if !mutated {
		return w.out.String()
	}
	place := s.choose(max(w.values, 1))
	again := &writer{tape: &start, op: op, c: c, base: base, rich: rich, mutate: place}
	again.value(op.BodySchema, "", 0)
	return again.out.String()
}

// spoils are operations that delete what their bodies name, which others need: they name
// what is not there.
var spoils = map[string]bool{"bulkDeleteSessions": true, "dataSubjectErasure": true}

// value writes one value.
func (w *writer) value(s *contracttest.Schema, path string, depth int) {
	s = w.op.Resolve(s)
	at := w.values
	w.values++
	if at == w.mutate {
		w.mutant(s)
		return
	}
	name := strings.TrimSuffix(path[strings.LastIndexByte(path, '.')+1:], "[]")
	for _, field := range []string{strings.TrimSuffix(path, "[]"), name} {
		if ids := w.c.IDs[contracttest.References[field]]; len(ids) > 0 && len(s.Properties) == 0 && s.Items == nil {
			if spoils[w.op.ID] {
				ids = []string{ident.New()}
			}
			w.text(pick(w.tape, ids))
			return
		}
	}
	kinds := typesOf(s)
	switch kind := pick(w.tape, kinds); {
	case len(s.AnyOf) > 0:
		w.value(pick(w.tape, s.AnyOf), path, depth)
	case len(s.Enum) > 0 && kind != "null":
		w.json(pick(w.tape, s.Enum))
	case kind == "object":
		w.object(s, path, depth)
	case kind == "array":
		w.array(s, path, depth)
	case kind == "string":
		w.text(w.string(s, name))
	case kind == "integer", kind == "number":
		w.out.WriteString(w.number(s))
	case kind == "boolean":
		w.json(w.choose(2) == 1)
	case kind == "null":
		w.out.WriteString("null")
	default: // anything goes
		w.out.WriteString(pick(w.tape, anything))
	}
}

// anything is for places that take any JSON.
var anything = []string{`"text"`, `{}`, `{"message":"hello"}`, `[]`, `[{"type":"text","text":"x"}]`, `null`, `0`, `true`, `{"a":{"b":[1,"2",null]}}`}

// typesOf lists the types that a value may have.
func typesOf(s *contracttest.Schema) (all []string) {
	switch t := s.Type.(type) {
	case string:
		return []string{t}
	case []any:
		for _, kind := range t {
			all = append(all, kind.(string))
		}
	}
	if all == nil {
		all = []string{""}
	}
	return all
}

func (w *writer) json(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		w.c.T.Fatal(err)
	}
	w.out.Write(text)
}

func (w *writer) text(s string) { w.json(strings.ToValidUTF8(s, "?")) }

// object writes the required members, those of the recipe, and some others.
func (w *writer) object(s *contracttest.Schema, path string, depth int) {
	w.out.WriteByte('{')
	first := true
	member := func(name string) {
		if !first {
			w.out.WriteByte(',')
		}
		first = false
		w.text(name)
		w.out.WriteByte(':')
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		given, has := w.base[name]
		needed := slices.Contains(s.Required, name)
		switch {
		case depth == 0 && has && (!w.rich || w.choose(4) != 1):
			member(name)
			if w.values++; w.values-1 == w.mutate {
				w.mutant(s.Properties[name])
			} else {
				w.json(given)
			}
		case needed || w.rich && depth < 4 && w.choose(3) == 1:
			member(name)
			w.value(s.Properties[name], strings.TrimPrefix(path+"."+name, "."), depth+1)
		}
	}
	if s.More != nil && w.rich && w.choose(3) == 1 {
		member(pick(w.tape, nasty))
		w.out.WriteString(pick(w.tape, anything))
	}
	w.out.WriteByte('}')
}

func (w *writer) array(s *contracttest.Schema, path string, depth int) {
	least, most := 0, 3
	if s.MinItems != nil {
		least = *s.MinItems
	}
	if s.MaxItems != nil {
		most = min(most, *s.MaxItems)
	}
	w.out.WriteByte('[')
	for i := range least + w.choose(max(most-least, 0)+1) {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if s.Items == nil {
			w.out.WriteString(pick(w.tape, anything))
			continue
		}
		w.value(s.Items, path+"[]", depth+1)
	}
	w.out.WriteByte(']')
}

// string makes a text of a format, or one that is as short or as long as may be.
func (w *writer) string(s *contracttest.Schema, name string) string {
	switch s.Format {
	case "uuid":
		return ident.New()
	case "date-time":
		return pick(w.tape, []string{"2026-09-10T12:00:00Z", "2199-01-01T00:00:00.000001+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"})
	case "date":
		return "2026-09-10"
	case "uri":
		return pick(w.tape, []string{"https://example.com/a?b#c", "https://xn--n3h.example/", "http://127.0.0.1:1/", "https://[::1]/"})
	case "email":
		return "a.b+c@example.com"
	case "byte":
		return "aGVsbG8="
	}
	if name == "cron" {
		return "0 0 1 1 *"
	}
	least, most := 0, 40
	if s.MinLength != nil {
		least = *s.MinLength
	}
	if s.MaxLength != nil {
		most = *s.MaxLength
	}
	switch w.choose(4) {
	case 0:
		return strings.Repeat("a", max(least, min(most, 5)))
	case 1:
		return strings.Repeat("é", least)
	case 2:
		return strings.Repeat("z", min(most, 70_000))
	}
	text := []rune(pick(w.tape, nasty))
	return string(text[:min(len(text), most)])
}

func (w *writer) number(s *contracttest.Schema) string {
	low, high := -10.0, 10.0
	if s.Minimum != nil {
		low, high = *s.Minimum, max(*s.Minimum, high)
	}
	if s.Maximum != nil {
		high = *s.Maximum
	}
	v := pick(w.tape, []float64{low, high, math.Trunc(low + (high-low)/2), math.Ceil(low)})
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// raw are values that no schema has in mind, many of them no JSON.
var raw = []string{
	`null`, `true`, `0`, `-1`, `-0`, `1.5`, `1e400`, `-1e400`, `1e-400`, `9223372036854775807`, `9223372036854775808`, `-9223372036854775809`,
	`18446744073709551616`, `0.1e1`, `123456789012345678901234567890`, `""`, `" "`, `"\u0000"`, `"a\u0000b"`, `[]`, `{}`, `[null]`, `[[]]`, `[{}]`,
	`{"":null}`, `{"a":{"a":{"a":{"a":1}}}}`, `"\ud83d\ude00"`, `"2026-13-45T99:99:99Z"`, `"https://"`, `"http://169.254.169.254/latest"`, `"javascript:alert(1)"`,
	// No JSON, or none that is taken.
	`"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `NaN`, `Infinity`, `01`, `+1`, `.5`, `1.`, `0x1F`,
	`'x'`, `"`, `"\x"`, `"\u12"`, "\"\t\"", `[1,]`, `{,}`, `{"a"}`, `tru`, ``, `/**/1`, `1//`, "\u00a0" + `1`,
}

// mutant writes what does not belong at a place, or no JSON at all.
func (w *writer) mutant(s *contracttest.Schema) {
	switch w.choose(9) {
	case 0: // deep
		n := pick(w.tape, []int{3, 60, 64, 1000, 100_000})
		w.out.WriteString(strings.Repeat("[", n) + strings.Repeat("]", n))
	case 1:
		n := pick(w.tape, []int{3, 62, 1000, 100_000})
		w.out.WriteString(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
	case 2: // long
		w.text(strings.Repeat("x", w.long(s)))
	case 3:
		w.text(pick(w.tape, nasty))
	case 4: // beyond the bounds
		w.out.WriteString(w.beyond(s))
	case 5: // many
		w.out.WriteString("[" + strings.Repeat("0,", pick(w.tape, []int{1, 300, 20_000})) + "0]")
	case 6: // wide
		w.out.WriteByte('{')
		for i := range pick(w.tape, []int{1, 300, 5000}) {
			fmt.Fprintf(&w.out, `"k%d":0,`, i)
		}
		w.out.WriteString(`"k":0}`)
	default:
		w.out.WriteString(pick(w.tape, raw))
	}
}

func (w *writer) long(s *contracttest.Schema) int {
	if s = w.op.Resolve(s); s != nil && s.MaxLength != nil && w.choose(2) == 0 {
		return *s.MaxLength + 1
	}
	return pick(w.tape, []int{256, 70_000, 300_000})
}

func (w *writer) beyond(s *contracttest.Schema) string {
	s = w.op.Resolve(s)
	switch {
	case s != nil && s.Maximum != nil && w.choose(2) == 0:
		return strconv.FormatFloat(*s.Maximum+1, 'f', -1, 64)
	case s != nil && s.Minimum != nil:
		return strconv.FormatFloat(*s.Minimum-1, 'f', -1, 64)
	case s != nil && s.MinLength != nil:
		return `""`
	}
	return `1e18`
}

// What is written without a mutation is a body by the schema.
func TestBodiesThatAreWritten(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	c := &contracttest.Company{Server: n, IDs: map[string][]string{}}
	for _, op := range contracttest.Operations(n) {
		if op.BodySchema == nil {
			continue
		}
		for seed := range 40 {
			text := bodyFrom(c, op, &tape{data: noise(uint64(seed), 200)}, nil, false)
			var v any
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatalf("%s: %v: %.300s", op, err, text)
			}
			for _, complaint := range compareWithSchema(op, op.BodySchema, v, "") {
				t.Errorf("%s: %s: %.300s", op, complaint, text)
			}
		}
	}
}
