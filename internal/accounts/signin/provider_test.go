package signin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/internal/accounts/signin"
	"agentd/internal/base/secret"
)

func TestParseProviders(t *testing.T) {
	t.Parallel()
	got, err := signin.ParseProviders([]byte(`[
		{"id": "corp", "issuer": "https://id.example.com/realm", "client_id": "agentd", "client_secret": "s3cret"},
		{"id": "lab-2", "name": "Lab", "issuer": "http://10.0.0.7:8080", "client_id": "x", "scopes": ["email"]}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []signin.ProviderConfig{
		{ID: "corp", Name: "corp", Issuer: "https://id.example.com/realm", ClientID: "agentd", Scopes: []string{"openid", "email", "profile"}},
		{ID: "lab-2", Name: "Lab", Issuer: "http://10.0.0.7:8080", ClientID: "x", Scopes: []string{"openid", "email"}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(secret.String{})); diff != "" {
		t.Error(diff)
	}
	if got[0].ClientSecret.Reveal() != "s3cret" || strings.Contains(fmt.Sprintf("%+v", got), "s3cret") {
		t.Errorf("the secret: %+v", got)
	}
}

func TestBadProviders(t *testing.T) {
	t.Parallel()
	const good = `"issuer": "https://id.example.com", "client_id": "agentd", "client_secret": "s3cret"`
	for file, want := range map[string]string{
		``:   "must be a JSON array",
		`{}`: "must be a JSON array",
		`[{"id": "a", "isuer": "https://id.example.com", "client_id": "x", "client_secret": "s3cret"}]`: "isuer",
		`[{"id": "a", ` + good + `}, {"id": "a", ` + good + `}]`:                                        "two providers",
		`[{"id": "", ` + good + `}]`:                                                     "the id",
		`[{"id": "A B", ` + good + `}]`:                                                  "the id",
		`[{"id": "otp", ` + good + `}]`:                                                  "the id",
		`[{"id": "` + strings.Repeat("a", 33) + `", ` + good + `}]`:                      "the id",
		`[{"id": "a", "issuer": "https://id.example.com"}]`:                              "client_id",
		`[{"id": "a", "issuer": "", "client_id": "x"}]`:                                  "issuer",
		`[{"id": "a", "issuer": "id.example.com", "client_id": "x"}]`:                    "issuer",
		`[{"id": "a", "issuer": "ftp://id.example.com", "client_id": "x"}]`:              "issuer",
		`[{"id": "a", "issuer": "https://u:s3cret@id.example.com", "client_id": "x"}]`:   "issuer",
		`[{"id": "a", "issuer": "https://id.example.com/?a=s3cret", "client_id": "x"}]`:  "issuer",
		`[{"id": "a", "issuer": "https://id.example.com/#s3cret", "client_id": "x"}]`:    "issuer",
		`[{"id": "a", "id": "b", "issuer": "https://id.example.com", "client_id": "x"}]`: "duplicate",
	} {
		if _, err := signin.ParseProviders([]byte(file)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}

func FuzzParseProviders(f *testing.F) {
	f.Add([]byte(`[{"id": "corp", "issuer": "https://id.example.com/realm", "client_id": "agentd", "client_secret": "s3cret"}]`))
	f.Fuzz(func(t *testing.T, file []byte) {
		all, err := signin.ParseProviders(file)
		if err != nil {
			return
		}
		for _, p := range all {
			if p.ID == "" || p.ClientID == "" || p.Name == "" || p.Issuer == "" || len(p.Scopes) == 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}
