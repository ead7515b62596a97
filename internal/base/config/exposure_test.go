package config

import "testing"

func TestUnencrypted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s    Server
		want bool
	}{
		{Server{Listen: "127.0.0.1:8080"}, false},
		{Server{Listen: "[::1]:8080"}, false},
		{Server{Listen: "localhost:8080"}, false},
		{Server{Listen: "127.8.0.1:0"}, false},
		{Server{Listen: ":8080"}, true},
		{Server{Listen: "0.0.0.0:8080"}, true},
		{Server{Listen: "[::]:8080"}, true},
		{Server{Listen: "10.0.0.1:8080"}, true},
		{Server{Listen: ":8080", PublicURL: "http://agents.example.com"}, true},
		{Server{Listen: ":8080", PublicURL: "HTTPS://agents.example.com"}, false},
		{Server{Listen: ":8080", TLSCert: "cert.pem"}, false},
	} {
		if got := tt.s.Unencrypted(); got != tt.want {
			t.Errorf("%+v: %t", tt.s, got)
		}
	}
	for url, want := range map[string]bool{
		"":                                 false,
		"nats://127.0.0.1:4222":            false,
		"nats://localhost:4222":            false,
		"nats://10.0.0.1:4222":             true,
		"nats://nats:4222":                 true,
		"tls://nats:4222":                  false,
		"nats://user:secret@nats:4222":     false,
		"nats://127.0.0.1:1,nats://b:4222": true,
	} {
		b := Bus{NATSURL: NewURL(url)}
		if got := b.Unencrypted(); got != want {
			t.Errorf("%s: %t", url, got)
		}
	}
}
