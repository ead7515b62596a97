package schema

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
)

type wheel struct {
	Size int    `json:"size" required:"true" minimum:"10" maximum:"29"`
	Tyre string `json:"tyre" enum:"road,gravel"`
}

type bike struct {
	Name     string         `json:"name" required:"true" minLength:"1" maxLength:"8" doc:"What it is called."`
	OwnerID  string         `json:"owner_id" format:"uuid"`
	Front    wheel          `json:"front" required:"true"`
	Spares   []wheel        `json:"spares" maxItems:"2"`
	Tags     []string       `json:"tags" maxLength:"4"`
	Meta     Object         `json:"meta"`
	Thinking Nullable       `json:"thinking"`
	Parts    Array          `json:"parts"`
	Extra    jsontext.Value `json:"extra"`
	Bought   *time.Time     `json:"bought"`
	Rent     *float64       `json:"rent,omitzero" exclusiveMinimum:"0"`
	Basket   *basket        `json:"basket"`
	Colour   string         `json:"colour" enum:"red,blue" nullable:"true"`
	Limits   map[string]int `json:"limits"`
	Gears    int            `json:"gears" default:"7"`
	Code     string         `json:"code" pattern:"^[a-z]+$"`
	Made     *bike          `json:"made,omitzero"`
	Small    int32          `json:"small"`
	Ok       bool           `json:"ok"`
}

type basket struct {
	_      struct{} `additionalProperties:"false"`
	Litres float64  `json:"litres" required:"true"`
}

const valid = `{"name":"Ada","front":{"size":28}}`

func TestCheckNamesEveryWrongField(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body string
		want map[string]string
	}{
		"valid":               {valid, nil},
		"unknown ignored":     {`{"name":"Ada","front":{"size":28,"x":[{}]},"X":1}`, nil},
		"names match by case": {`{"NAME":"Ada","front":{"size":28}}`, map[string]string{"name": "required but missing"}},
		"missing nested":      {`{"name":"Ada","front":{}}`, map[string]string{"front.size": "required but missing"}},
		"missing in item": {`{"name":"A","front":{"size":20},"spares":[{"size":20},{"tyre":"road"}]}`,
			map[string]string{"spares[1].size": "required but missing"}},
		"all at once": {`{"name":7,"front":{"size":3,"tyre":"ice"},"tags":["a",5,"toolong"],"gears":1.5}`, map[string]string{
			"name": "expected a string", "front.size": "expected at least 10", "front.tyre": "expected one of road, gravel",
			"tags[1]": "expected a string", "tags[2]": "expected at most 4 characters",
			"gears": "expected a whole number, without fraction or exponent",
		}},
		"root":              {`[]`, map[string]string{"body": "expected an object"}},
		"too short":         {`{"name":"","front":{"size":20}}`, map[string]string{"name": "expected at least 1 character"}},
		"length in runes":   {`{"name":"ääääääää","front":{"size":20}}`, nil},
		"escapes count one": {`{"name":"\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\ud83d\ude00","front":{"size":20}}`, nil},
		"escaped name":      {`{"n\u0061me":7,"front":{"size":20}}`, map[string]string{"name": "expected a string"}},
		"nul":               {`{"name":"a\u0000","front":{"size":20}}`, map[string]string{"name": "expected text without the NUL character"}},
		"uuid": {`{"name":"a","front":{"size":20},"owner_id":"0"}`,
			map[string]string{"owner_id": "expected a UUID in its canonical lower-case form"}},
		"free object takes no array": {`{"name":"a","front":{"size":20},"meta":[],"parts":{},"extra":[1]}`,
			map[string]string{"meta": "expected an object", "parts": "expected an array"}},
		"null where nullable": {`{"name":"a","front":{"size":20},"thinking":null,"bought":null,"basket":null,"colour":null,"extra":null}`, nil},
		"null where not": {`{"name":null,"front":{"size":20},"meta":null,"rent":null,"tags":null,"ok":null}`, map[string]string{
			"name": "expected a string", "meta": "expected an object", "rent": "expected a number",
			"tags": "expected an array", "ok": "expected true or false",
		}},
		"kinds of nullable": {`{"name":"a","front":{"size":20},"basket":1,"thinking":1}`, map[string]string{
			"basket": "expected an object or null", "thinking": "expected an object or null",
		}},
		"closed":          {`{"name":"a","front":{"size":20},"basket":{"litres":1,"gallons":2}}`, map[string]string{"basket.gallons": "there is no such field"}},
		"date-time":       {`{"name":"a","front":{"size":20},"bought":"yesterday"}`, map[string]string{"bought": formats["date-time"].expected}},
		"map values":      {`{"name":"a","front":{"size":20},"limits":{"x":1,"y":"z"}}`, map[string]string{"limits.y": "expected a whole number"}},
		"too many":        {`{"name":"a","front":{"size":20},"spares":[{"size":20},{"size":20},{"size":20},{}]}`, map[string]string{"spares": "expected at most 2 items"}},
		"recursive":       {`{"name":"a","front":{"size":20},"made":{"name":"b","front":{"size":1}}}`, map[string]string{"made.front.size": "expected at least 10"}},
		"exclusive":       {`{"name":"a","front":{"size":20},"rent":0}`, map[string]string{"rent": "expected more than 0"}},
		"pattern":         {`{"name":"a","front":{"size":20},"code":"A"}`, map[string]string{"code": "expected text that matches ^[a-z]+$"}},
		"number too big":  {`{"name":"a","front":{"size":20},"rent":1e999}`, map[string]string{"rent": "expected a number that fits 64 bits"}},
		"integer too big": {`{"name":"a","front":{"size":20},"small":3000000000}`, map[string]string{"small": "expected a whole number that fits 32 bits"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Of[bike]().Check([]byte(tt.body), false)
			if tt.want == nil {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				if _, err := Decode[bike]([]byte(tt.body)); err != nil {
					t.Fatalf("checked but not decoded: %v", err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, wrongFields(t, err)); diff != "" {
				t.Errorf("wrong fields (-want +got):\n%s", diff)
			}
		})
	}
}

// Programs read where and what is wrong in their own terms.
func TestViolationsHavePointersAndCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, pointer, code string
		params              map[string]any
	}{
		"missing":   {`{"front":{"size":20}}`, "/name", fault.CodeRequired, nil},
		"in_item":   {`{"name":"a","front":{"size":20},"spares":[{"size":20},{}]}`, "/spares/1/size", fault.CodeRequired, nil},
		"type":      {`{"name":7,"front":{"size":20}}`, "/name", fault.CodeType, map[string]any{"type": []string{"string"}}},
		"whole":     {`{"name":"a","front":{"size":20},"gears":1.5}`, "/gears", fault.CodeType, map[string]any{"type": []string{"integer"}}},
		"root":      {`[]`, "", fault.CodeType, map[string]any{"type": []string{"object"}}},
		"short":     {`{"name":"","front":{"size":20}}`, "/name", fault.CodeTooShort, map[string]any{"min": 1}},
		"long":      {`{"name":"a","front":{"size":20},"tags":["toolong"]}`, "/tags/0", fault.CodeTooLong, map[string]any{"max": 4}},
		"enum":      {`{"name":"a","front":{"size":20,"tyre":"ice"}}`, "/front/tyre", fault.CodeEnum, map[string]any{"allowed": []string{"road", "gravel"}}},
		"format":    {`{"name":"a","front":{"size":20},"owner_id":"0"}`, "/owner_id", fault.CodeFormat, map[string]any{"format": "uuid"}},
		"pattern":   {`{"name":"a","front":{"size":20},"code":"A"}`, "/code", fault.CodePattern, map[string]any{"pattern": "^[a-z]+$"}},
		"unknown":   {`{"name":"a","front":{"size":20},"basket":{"litres":1,"gallons":2}}`, "/basket/gallons", fault.CodeUnknown, nil},
		"small":     {`{"name":"a","front":{"size":3}}`, "/front/size", fault.CodeTooSmall, map[string]any{"min": 10.0}},
		"exclusive": {`{"name":"a","front":{"size":20},"rent":0}`, "/rent", fault.CodeTooSmall, map[string]any{"above": 0.0}},
		"many":      {`{"name":"a","front":{"size":20},"spares":[{"size":20},{"size":20},{"size":20}]}`, "/spares", fault.CodeTooMany, map[string]any{"max": 2}},
		"odd_name":  {`{"name":"a","front":{"size":20},"limits":{"run.awaiting/x":"z"}}`, "/limits/run.awaiting~1x", fault.CodeType, map[string]any{"type": []string{"integer"}}},
		"nul":       {`{"name":"a\u0000","front":{"size":20}}`, "/name", fault.CodeInvalid, nil},
	} {
		f := fault.From(Of[bike]().Check([]byte(c.body), false))
		if f == nil || len(f.Fields) != 1 {
			t.Errorf("%s: %+v", name, f)
			continue
		}
		got := f.Fields[0]
		if diff := cmp.Diff(c.params, got.Params); diff != "" || *got.Pointer != c.pointer || got.Code != c.code {
			t.Errorf("%s: %s at %s, params %s", name, got.Code, *got.Pointer, diff)
		}
	}
}

func wrongFields(t *testing.T, err error) map[string]string {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.Invalid {
		t.Fatalf("want fault.Invalid, got %v", err)
	}
	got := map[string]string{}
	for _, w := range f.Fields {
		got[w.Field] = w.Message
	}
	return got
}

func TestCheckRefusesWhatIsNotStrictJSON(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"empty":               ``,
		"blank":               ` `,
		"cut off":             `{"name":`,
		"syntax":              `{name:1}`,
		"trailing comma":      `{"name":"a",}`,
		"duplicate":           `{"name":"a","name":"b"}`,
		"duplicate unknown":   `{"x":{"a":1,"a":2}}`,
		"duplicate escaped":   `{"name":"a","n\u0061me":"b"}`,
		"duplicate in free":   `{"meta":{"a":1,"a":2}}`,
		"bytes after":         valid + `{}`,
		"invalid UTF-8":       "{\"name\":\"\xff\"}",
		"invalid in free":     "{\"meta\":{\"a\":\"\xc0\xaf\"}}",
		"lone surrogate":      `{"name":"\ud800"}`,
		"lone in name":        `{"\udfff":1}`,
		"deep":                `{"meta":` + strings.Repeat(`{"a":`, 64) + `1` + strings.Repeat(`}`, 64) + `}`,
		"not a number":        `{"gears":NaN}`,
		"leading zero":        `{"gears":01}`,
		"comment":             `{}//`,
		"single quotes":       `{'name':'a'}`,
		"byte order mark":     "\ufeff" + valid,
		"control in a string": "{\"name\":\"a\nb\"}",
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, err := range []error{Of[bike]().Check([]byte(body), false), Syntax([]byte(body))} {
				f, ok := errors.AsType[*fault.Error](err)
				if !ok || f.Kind != fault.Malformed || f.Fields != nil || f.Detail == "" {
					t.Errorf("want fault.Malformed, got %v", err)
				}
			}
		})
	}
	if err := Syntax([]byte(strings.Repeat(`[`, 64) + strings.Repeat(`]`, 64))); err != nil {
		t.Errorf("64 levels are allowed: %v", err)
	}
}

func TestPartial(t *testing.T) {
	t.Parallel()
	s := Of[bike]()
	for _, body := range []string{`{}`, `{"front":{}}`, `{"tags":null,"meta":null}`} {
		if err := s.Check([]byte(body), true); err != nil {
			t.Errorf("%s refused: %v", body, err)
		}
	}
	got := wrongFields(t, s.Check([]byte(`{"name":null,"gears":"7"}`), true))
	want := map[string]string{"name": "required: it cannot be cleared", "gears": "expected a whole number"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wrong fields (-want +got):\n%s", diff)
	}
}

func TestWrongFieldsAreBounded(t *testing.T) {
	t.Parallel()
	body := `{"name":"a","front":{"size":20},"tags":[` + strings.Repeat("1,", 999) + `1]}`
	if got := wrongFields(t, Of[bike]().Check([]byte(body), false)); len(got) != maxWrong {
		t.Errorf("%d fields", len(got))
	}
}

func TestDecodeDefaultsAndFreeJSON(t *testing.T) {
	t.Parallel()
	got, err := Decode[bike]([]byte(`{"name":"A","front":{"size":20},"meta": {"k" : 1.0},"extra":[ ]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Gears != 7 || string(got.Meta) != `{"k" : 1.0}` {
		t.Errorf("got %+v", got)
	}
	if got, _ = Decode[bike]([]byte(`{"name":"A","front":{"size":20},"gears":0}`)); got.Gears != 0 {
		t.Errorf("a given zero became the default %d", got.Gears)
	}
	sent, err := json.Marshal(&bike{Name: "A", Meta: Object("{\"k\"\n:1.0}")})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"meta":{"k":1.0}`, `"thinking":null`, `"parts":[]`, `"bought":null`, `"spares":[]`, `"limits":{}`} {
		if !strings.Contains(string(sent), part) {
			t.Errorf("%s lacks %s", sent, part)
		}
	}
	if strings.Contains(string(sent), "rent") {
		t.Errorf("omitted field sent: %s", sent)
	}
}

func TestPublishedSchema(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	r.Schema(reflect.TypeFor[bike](), true, "")
	s := r.Map()["Bike"]
	if diff := cmp.Diff([]string{"name", "front"}, s.Required); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
	if s.AdditionalProperties != nil || r.Map()["Basket"].AdditionalProperties != false {
		t.Error("only the closed struct is published as closed")
	}
	got, err := json.Marshal(map[string]any{
		"basket": s.Properties["basket"], "colour": s.Properties["colour"], "tags": s.Properties["tags"],
		"bought": s.Properties["bought"], "rent": s.Properties["rent"], "thinking": s.Properties["thinking"],
	}, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"basket":{"anyOf":[{"$ref":"#/components/schemas/Basket"},{"type":"null"}]},` +
		`"bought":{"format":"date-time","type":["string","null"]},` +
		`"colour":{"enum":["red","blue",null],"type":["string","null"]},` +
		`"rent":{"exclusiveMinimum":0,"format":"double","type":"number"},` +
		`"tags":{"items":{"maxLength":4,"type":"string"},"type":"array"},` +
		`"thinking":{"additionalProperties":true,"type":["object","null"]}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
}

type textOrList struct{}

func (textOrList) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: "string"}, {Type: "array", Items: &huma.Schema{Type: "integer"}},
	}}
}

func TestUnionByKind(t *testing.T) {
	t.Parallel()
	type body struct {
		Input textOrList `json:"input" required:"true"`
	}
	s := Of[body]()
	for _, ok := range []string{`{"input":"a"}`, `{"input":[1,2]}`} {
		if err := s.Check([]byte(ok), false); err != nil {
			t.Errorf("%s refused: %v", ok, err)
		}
	}
	got := wrongFields(t, s.Check([]byte(`{"input":["x"]}`), false))
	if diff := cmp.Diff(map[string]string{"input[0]": "expected a whole number"}, got); diff != "" {
		t.Error(diff)
	}
	got = wrongFields(t, s.Check([]byte(`{"input":1}`), false))
	if diff := cmp.Diff(map[string]string{"input": "expected a string or an array"}, got); diff != "" {
		t.Error(diff)
	}
}

// A body of many small objects must cost about what its bytes do.
func TestCheckBuildsNothing(t *testing.T) {
	body := []byte(`{"extra":[` + strings.Repeat(`{"a":0},`, 10<<20/8) + `0],"name":"a","front":{"size":20}}`)
	s := Of[bike]()
	got := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if err := s.Check(body, false); err != nil {
				b.Fatal(err)
			}
		}
	})
	if got.AllocedBytesPerOp() > 1<<20 {
		t.Errorf("%d bytes were allocated for a 10 MiB body", got.AllocedBytesPerOp())
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{valid, `{"name":7}`, `{"spares":[{}]}`, `null`, "{\"name\":\"\\ud800\"}", `{"meta":{"a":[1]},"gears":-0}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := Of[bike]()
		err := s.Check(data, false)
		if err == nil {
			// What is checked can be decoded, under the strict rules too.
			if err := json.Unmarshal(data, new(bike)); err != nil {
				t.Errorf("%q was checked but not decoded: %v", data, err)
			}
			return
		}
		if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Detail == "" {
			t.Errorf("%q: %v is no fault", data, err)
		}
		if (Syntax(data) == nil) != fault.Is(err, fault.Invalid) {
			t.Errorf("%q: Check and Syntax differ: %v", data, err)
		}
	})
}

var sixHundred = []byte(`{"name":"Ada","front":{"size":28,"tyre":"road"},"spares":[{"size":20,"tyre":"gravel"},{"size":21}],` +
	`"owner_id":"0198c0de-0000-7000-8000-000000000001","tags":["a","b","c"],"meta":{"team":"research","labels":["x","y"],"n":12},` +
	`"bought":"2026-09-10T12:00:00Z","rent":12.5,"colour":"red","gears":21,"code":"abcdef","ok":true,` +
	`"extra":{"text":"` + strings.Repeat("lorem ipsum ", 16) + `"}}`)

func BenchmarkCheck(b *testing.B) {
	s := Of[bike]()
	b.SetBytes(int64(len(sixHundred)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Check(sixHundred, false); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode[bike](sixHundred); err != nil {
			b.Fatal(err)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	type in struct {
		Order string   `query:"order" enum:"asc,desc"`
		Days  int      `query:"days" minimum:"1" maximum:"90"`
		Deep  bool     `query:"deep"`
		Rate  *float64 `query:"rate"`
		IDs   []string `query:"id" format:"uuid"`
	}
	tests := []struct{ field, text, want string }{
		{"Order", "asc", ""},
		{"Order", "up", "expected one of asc, desc"},
		{"Days", "90", ""},
		{"Days", "91", "expected at most 90"},
		{"Days", "1e1", "expected a whole number, without fraction or exponent"},
		{"Deep", "true", ""},
		{"Deep", "yes", "expected true or false"},
		{"Rate", "1.5", ""},
		{"Rate", "x", "expected a number that fits 64 bits"},
		{"IDs", "x", formats["uuid"].expected},
		{"Order", "\xff", "expected UTF-8"},
	}
	for _, tt := range tests {
		f, _ := reflect.TypeFor[in]().FieldByName(tt.field)
		if got := TextOf(f).Violation(tt.text); got != tt.want {
			t.Errorf("%s=%q: %q, want %q", tt.field, tt.text, got, tt.want)
		}
	}
}

// Zone is embedded, so it has a name of its own.
type Zone struct {
	Town   string `json:"town"`
	Secret string `json:"-"`
	Street string `json:"street"`
}

// The order of an object's fields is that of its type, with those of an embedded type
// where it is embedded.
func TestOrder(t *testing.T) {
	t.Parallel()
	type shop struct {
		Name string `json:"name"`
		Zone
		Area string `json:"area"`
	}
	r := NewRegistry()
	s := r.SchemaFromRef(r.Schema(reflect.TypeFor[shop](), true, "").Ref)
	if diff := cmp.Diff([]string{"name", "town", "street", "area"}, s.Extensions[Order]); diff != "" {
		t.Error(diff)
	}
}
