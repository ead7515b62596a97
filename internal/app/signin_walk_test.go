package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"agentd/internal/base/config"
)

// forPeople are operations that need what a person has in a letter, in an app or
// from a provider. TestSignIn and its neighbours do them.
var forPeople = map[string]bool{
	"requestOtpCode": true, "verifyOtpCode": true, "register": true, "verifyEmail": true,
	"startOAuthLogin": true, "completeOAuthLogin": true, "exchangeOAuthAppCode": true,
	"verifyMfa": true, "verifyMfaRecovery": true, "disableMfa": true,
}

// wholeKeys are operations about how a person gets in: of keys, only one that
// carries everything may do them. signin.TestKeysOfPart proves it.
var wholeKeys = map[string]bool{"enrolMfa": true, "verifyMfa": true, "verifyMfaRecovery": true, "disableMfa": true, "unlinkAuthProvider": true}

// corp is a provider that nobody signs in with.
const corp = "corp"

func withCorp(tb testing.TB) func(*config.Config) {
	tb.Helper()
	return withProviders(tb, `[{"id": "corp", "issuer": "https://id.example.com", "client_id": "agentd"}]`)
}

func withProviders(tb testing.TB, file string) func(*config.Config) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "providers.json")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		tb.Fatal(err)
	}
	return func(c *config.Config) { c.SignIn.OIDCProviders = path }
}
