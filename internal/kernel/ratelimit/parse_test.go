package ratelimit

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Limits{
		"":                               {},
		"off":                            {},
		" off ":                          {},
		"tenant=6000/m,key=3000/m":       {Tenant: Limit{6000, time.Minute}, Key: Limit{3000, time.Minute}},
		" key=5/s , endpoint=1000000/s ": {Key: Limit{5, time.Second}, Endpoint: Limit{1_000_000, time.Second}},
		"tenant=3600000000/h":            {Tenant: Limit{3_600_000_000, time.Hour}},
	} {
		got, err := Parse(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
	for text, part := range map[string]string{
		"on":                         `"on" is not a limit`,
		"OFF":                        `"OFF" is not a limit`,
		"tenant":                     `"tenant" is not a limit`,
		",":                          `"" is not a limit`,
		"tenant=1/m,":                `"" is not a limit`,
		"off,tenant=1/m":             `"off" is not a limit`,
		"user=1/m":                   `no limit for "user"`,
		"Tenant=1/m":                 `no limit for "Tenant"`,
		"tenant =1/m":                `no limit for "tenant "`,
		"tenant=1/m,tenant=2/s":      "tenant is set twice",
		"tenant=6000":                "tenant: \"6000\" has no period",
		"tenant=6000/d":              "has no period",
		"tenant=6000/m/s":            "has no period",
		"tenant=6000/min":            "has no period",
		"key=/m":                     `"" is not a whole number`,
		"key=x/m":                    `"x" is not a whole number`,
		"key=-1/m":                   `"-1" is not a whole number`,
		"key=+1/m":                   `"+1" is not a whole number`,
		"key=1.5/m":                  `"1.5" is not a whole number`,
		"key= 1/m":                   `" 1" is not a whole number`,
		"key=1_0/m":                  `"1_0" is not a whole number`,
		"key=0/m":                    "0 would admit nothing",
		"key=1000001/s":              "more than the maximum of 1000000",
		"key=3600000001/h":           "more than the maximum of 3600000000",
		"key=18446744073709551616/h": "more than the maximum of 3600000000",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %s", text, err, part)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"off", "", "tenant=6000/m,key=3000/m", "endpoint=1/h", "key=0/s", "tenant=99999999999999999999/h", "a=b/c,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limits, err := Parse(text)
		if err != nil {
			if limits.String() != "off" || err.Error() == "" {
				t.Errorf("%q: %+v, %v", text, limits, err)
			}
			return
		}
		again, err := Parse(limits.String())
		if err != nil || again.String() != limits.String() {
			t.Errorf("%q says %v, which says %v, %v", text, limits, again, err)
		}
		l := New(limits) // must not panic, and admits at least one request
		if v := l.Reserve(time.Now(), of); v.Bucket != "" || l.On() != (limits.String() != "off") {
			t.Errorf("%q: %+v", text, v)
		}
	})
}
