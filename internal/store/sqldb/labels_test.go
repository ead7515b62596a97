package sqldb

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLabelsOfMetadata(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLabelValue+1)
	for name, c := range map[string]struct {
		metadata string
		want     map[string]string
	}{
		"scalars":     {`{"order":"4711","n":1.50,"big":1e3,"yes":true,"no":false,"ü":"ß"}`, map[string]string{"order": "4711", "n": "1.50", "big": "1e3", "yes": "true", "no": "false", "ü": "ß"}},
		"not_scalars": {`{"a":null,"b":[1],"c":{"d":1}}`, map[string]string{}},
		"long_value":  {`{"a":"` + long + `"}`, map[string]string{"a": labelValue(long)}},
		"zero":        {`{"a":"\u0000","\u0000":"b"}`, map[string]string{"a": labelValue("\x00")}},
		"names":       {`{"":"a","` + strings.Repeat("n", maxLabelName+1) + `":"b","c":""}`, map[string]string{"c": ""}},
		"empty":       {`{}`, nil},
		"nothing":     {``, nil},
		"broken":      {`{"a":`, nil},
	} {
		if diff := cmp.Diff(c.want, labelsOf([]byte(c.metadata))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := labelValue(long); len(got) != len("sha256:")+64 {
		t.Errorf("a long value is kept as %q", got)
	}
	var many strings.Builder
	for i := range 1000 {
		many.WriteString(`,"k` + strconv.Itoa(i) + `":1`)
	}
	if n := len(labelsOf([]byte("{" + many.String()[1:] + "}"))); n != maxLabels {
		t.Errorf("%d labels", n)
	}
}
