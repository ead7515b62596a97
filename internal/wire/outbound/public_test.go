package outbound

import (
	"strings"
	"testing"

	"agentd/internal/base/fault"
)

// What is saved is public as far as one can tell beforehand.
func TestChecker(t *testing.T) {
	t.Parallel()
	allow, err := ParseAllow("10.1.0.0/16,127.0.0.1:9100")
	if err != nil {
		t.Fatal(err)
	}
	c := NewChecker(Config{Allow: allow, Resolver: resolver(t, map[string][][]string{
		"public.example": {{"93.184.216.34"}}, "inside.example": {{"10.0.0.5"}}, "allowed.example": {{"10.1.2.3"}},
		"mixed.example": {{"93.184.216.34", "192.168.0.1"}}, "six.example": {{"fd00::1"}},
	})})
	for _, url := range []string{
		"https://public.example/hook", "http://public.example:8080/", "https://unknown.example/", "https://allowed.example/", "http://10.1.2.3/",
		"http://127.0.0.1:9100/", "https://93.184.216.34/", "https://[2606:2800:220:1::1]/",
	} {
		if err := c.Check(t.Context(), url); err != nil {
			t.Errorf("%s is refused: %v", url, err)
		}
	}
	for _, url := range []string{
		"https://inside.example/", "https://mixed.example/", "https://six.example/", "http://10.0.0.5/", "http://127.0.0.1/", "http://127.0.0.1:9101/",
		"http://localhost/", "http://LOCALHOST./", "http://a.localhost/", "http://[::1]/", "http://[::ffff:10.0.0.1]/", "http://169.254.169.254/",
		"http://100.64.0.1/", "http://[64:ff9b::a00:1]/", "http://１２７.0.0.1/", "http://①②⑦.0.0.1/", "http://127。0。0。1/",
	} {
		err := c.Check(t.Context(), url)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.From(err).Detail, "not on the public internet") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"", "ftp://public.example/", "http://127.1/", "http://0x7f.1/", "https://ann@public.example/"} {
		if err := c.Check(t.Context(), url); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
