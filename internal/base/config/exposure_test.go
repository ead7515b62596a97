package config

import (
	"strings"
	"testing"

	"agentd/internal/base/secret"
)

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

func TestAuditPush(t *testing.T) {
	t.Parallel()
	for _, setting := range []struct {
		url, secret, want string // part of the error; "": none
	}{
		{"", "", ""},
		{"https://siem.example.com/agentd", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", ""},
		{"syslog+tls://siem.example.com:6514", "", ""},
		{"udp://siem.example.com:514", "", "AGENTD_AUDIT_PUSH"},
		{"https://", "", "AGENTD_AUDIT_PUSH"},
		{"https://siem.example.com", "hunter2", "AGENTD_AUDIT_PUSH_SECRET must be whsec_"},
		{"https://siem.example.com", "whsec_c2hvcnQ=", "AGENTD_AUDIT_PUSH_SECRET must be whsec_"},
	} {
		var v verdict
		(&Observability{AuditPush: NewURL(setting.url), AuditPushSecret: secret.New(setting.secret)}).validatePush(&v)
		err := v.err()
		if setting.want == "" && err != nil || setting.want != "" && (err == nil || !strings.Contains(err.Error(), setting.want)) {
			t.Errorf("%+v: %v", setting, err)
		}
	}
}
