package scrape

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const first = `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{route="/a",status="2xx"} 10
requests_total{route="/b",status="5xx"} 2
# TYPE took_seconds histogram
took_seconds_bucket{le="1"} 10
took_seconds_bucket{le="2"} 10
took_seconds_bucket{le="+Inf"} 10
took_seconds_sum 5
took_seconds_count 10
# TYPE held_seconds summary
held_seconds{quantile="0.99"} 0.25
held_seconds{quantile="1"} 3
held_seconds_sum 9
held_seconds_count 9
# TYPE room_bytes gauge
room_bytes 7
`

const second = `# TYPE requests_total counter
requests_total{route="/a",status="2xx"} 15
requests_total{route="/b",status="5xx"} 2
# TYPE took_seconds histogram
took_seconds_bucket{le="1"} 14
took_seconds_bucket{le="2"} 18
took_seconds_bucket{le="+Inf"} 20
took_seconds_sum 50
took_seconds_count 20
# TYPE room_bytes gauge
room_bytes 9
`

func read(t *testing.T, text string) Reading {
	t.Helper()
	r, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReadings(t *testing.T) {
	t.Parallel()
	a, b := read(t, first), read(t, second)
	both := append(read(t, first), b...) // of two nodes
	for name, c := range map[string]struct{ got, want float64 }{
		"a sum":                            {a.Sum("requests_total", nil), 12},
		"of one status":                    {a.Sum("requests_total", Labels{"status": "5xx"}), 2},
		"of no series":                     {a.Sum("requests_total", Labels{"status": "5xx", "route": "/a"}), 0},
		"of no metric":                     {a.Sum("nothing", nil), 0},
		"of two nodes":                     {both.Sum("requests_total", nil), 29},
		"a histogram's count":              {b.Sum("took_seconds", nil), 20},
		"the larger gauge":                 {both.Max("room_bytes", nil, 0), 9},
		"a summary":                        {a.Max("held_seconds", nil, .99), .25},
		"the median since":                 {b.Quantile(a, "took_seconds", nil, .5), 1.25},
		"of all time":                      {b.Quantile(nil, "took_seconds", nil, .35), .5},
		"beyond the last bound":            {b.Quantile(a, "took_seconds", nil, .99), 2},
		"nothing counted":                  {a.Quantile(a, "took_seconds", nil, .5), math.NaN()},
		"no histogram":                     {a.Quantile(nil, "nothing", nil, .5), math.NaN()},
		"no gauge":                         {a.Max("nothing", nil, 0), math.NaN()},
		"a quantile that is not published": {a.Max("held_seconds", nil, .5), math.NaN()},
		"after the node was restarted":     {a.Quantile(b, "took_seconds", nil, .5), math.NaN()},
	} {
		if c.got != c.want && !(math.IsNaN(c.got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if diff := cmp.Diff([]string{"/a", "/b"}, both.Values("requests_total", "route")); diff != "" {
		t.Error(diff)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no metrics": "<html>Not here</html>",
		"too much":   strings.Repeat("# HELP x y\n", maxBytes/10),
	} {
		if r, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// Whatever a node answers is read or refused.
func FuzzRead(f *testing.F) {
	f.Add(first)
	f.Add("x{a=\"\\n\"} +Inf\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, family := range r {
			r.Sum(family.GetName(), nil)
			r.Max(family.GetName(), nil, .99)
			r.Quantile(nil, family.GetName(), nil, .99)
		}
	})
}
