package app

import (
	"os"
	"path/filepath"
	"testing"

	"agentd/internal/base/config"
	"agentd/internal/base/secret"
)

// Providers of Bedrock without a key take those of the AWS environment, and no others do.
func TestAWSEnvironment(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "providers.json")
	err := os.WriteFile(file, []byte(`{"providers": [
		{"name": "a", "base_url": "https://bedrock-runtime.eu-west-1.amazonaws.com"},
		{"name": "b", "base_url": "https://bedrock-runtime.eu-west-1.amazonaws.com", "api_key": "own-key"},
		{"name": "c", "base_url": "https://bedrock-runtime.eu-west-1.amazonaws.com", "aws": {"access_key_id": "OWN", "secret_access_key": "s"}},
		{"name": "d", "base_url": "https://gateway.example/x", "wire": "bedrock"},
		{"name": "e", "base_url": "https://api.openai.com/v1"}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		env  config.Models
		want [5]string // what each is called with
	}{
		"nothing": {config.Models{}, [5]string{"", "own-key", "OWN", "", ""}},
		"keys": {
			config.Models{AWSAccessKeyID: "ID", AWSSecretAccessKey: secret.New("s"), AWSSessionToken: secret.New("t")}, [5]string{"ID", "own-key", "OWN", "ID", ""},
		},
		"a key of Bedrock's": {config.Models{AWSBearerToken: secret.New("bedrock-key")}, [5]string{"bedrock-key", "own-key", "OWN", "bedrock-key", ""}},
	} {
		tt.env.Providers = file
		providers, err := modelProviders(tt.env)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range providers {
			got := p.APIKey.Reveal()
			if p.AWS != nil {
				got += p.AWS.AccessKeyID
			}
			if got != tt.want[i] {
				t.Errorf("%s: the provider %s is called with %q, want %q", name, p.Name, got, tt.want[i])
			}
		}
	}
}
