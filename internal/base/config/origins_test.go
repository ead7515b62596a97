package config

import "testing"

func TestOrigins(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"": true, "*": true, "https://app.example.com": true, "HTTPS://App.Example.com , http://localhost:3000": true, "http://[::1]:80": true,
		"https://app.example.com/": false, "app.example.com": false, "https://": false, "ftp://x": false, "https://*.example.com/x": false,
		"https://user@example.com": false, "https://a,b": false, "null": false,
	} {
		if err := checkOrigins(Server{CORSOrigins: text}.Origins()); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
