package fault

import "testing"

func TestFieldsAreCompleted(t *testing.T) {
	t.Parallel()
	given := "/type_overrides/run.failed/0"
	for name, c := range map[string]struct {
		field         Field
		pointer, code string
	}{
		"whole":   {Field{Field: "body"}, "", CodeInvalid},
		"name":    {Field{Field: "name", Message: Missing}, "/name", CodeRequired},
		"deep":    {Field{Field: "skills[2].tags[0]", Code: CodeTooLong}, "/skills/2/tags/0", CodeTooLong},
		"escaped": {Field{Field: "a/b~c"}, "/a~1b~0c", CodeInvalid},
		"given":   {Field{Field: "type_overrides.run.failed[0]", Pointer: &given}, given, CodeInvalid},
	} {
		got := BadFields(c.field).Fields[0]
		if *got.Pointer != c.pointer || got.Code != c.code || got.Field != c.field.Field {
			t.Errorf("%s: %+v at %s", name, got, *got.Pointer)
		}
		if again := got.Complete(); *again.Pointer != c.pointer || again.Code != c.code {
			t.Errorf("%s, twice: %+v", name, again)
		}
	}
}

func TestFieldsUnderAName(t *testing.T) {
	t.Parallel()
	given := "/a.b/0"
	for want, f := range map[string]Field{
		"input.x /input/x":          {Field: "x"},
		"input /input":              {Field: "body"},
		"input.a.b[0] /input/a.b/0": {Field: "a.b[0]", Pointer: &given},
	} {
		got := f.Under("input").Complete()
		if s := got.Field + " " + *got.Pointer; s != want {
			t.Errorf("%s, want %s", s, want)
		}
		if done := f.Complete().Under("input"); *done.Pointer != *got.Pointer {
			t.Errorf("completed first: %s, want %s", *done.Pointer, *got.Pointer)
		}
	}
	if given != "/a.b/0" {
		t.Error("the pointer of the original changed")
	}
}
