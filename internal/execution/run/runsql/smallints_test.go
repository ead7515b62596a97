package runsql

import (
	"slices"
	"testing"
)

func TestSmallNumbers(t *testing.T) {
	t.Parallel()
	for _, want := range []smallInts{{}, {0}, {31}, {32}, {0, 31, 32, 1023, 1024, 1 << 40, 5}} {
		text, err := want.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got smallInts
		if err := got.UnmarshalText(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v is %s is %v, %v", want, text, got, err)
		}
	}
	if got := differences([]int{3, 10, 9, 12}); !slices.Equal(got, smallInts{3, 7, 0, 2}) {
		t.Errorf("the differences are %v", got)
	}
}

func FuzzSmallNumbers(f *testing.F) {
	for _, seed := range []string{"", "A", "gB", "g", "!", "ggggggggggggggggB"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got, again smallInts
		if got.UnmarshalText([]byte(text)) != nil {
			return
		}
		short, err := got.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalText(short); err != nil || !slices.Equal(got, again) {
			t.Errorf("%q is %v, then %v, %v", text, got, again, err)
		}
	})
}
