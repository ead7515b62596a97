package smtpmail_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"agentd/internal/kernel/mail"
	"agentd/internal/wire/smtpmail"
	"agentd/internal/wire/smtpmail/smtptest"
)

var letter = mail.Letter{ID: "0190-abc", Message: mail.Message{
	To: "ann@example.com", Subject: "Grüße", Text: "Ihr Code ist\n\n    123 456\n.\nUnd ein Punkt.\n",
}}

func sender(t *testing.T, cfg smtpmail.Config) *smtpmail.Sender {
	t.Helper()
	s, err := smtpmail.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSend(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		server smtptest.Config
		url    string // with HOST
		tls    bool
	}{
		"plain to this machine":     {smtptest.Config{}, "smtp://HOST", false},
		"plain though TLS is there": {smtptest.Config{StartTLS: true}, "smtp://HOST?tls=off", false},
		"signed in without TLS":     {smtptest.Config{User: "bob", Password: "s:e/c@r,et"}, "smtp://bob:s%3Ae%2Fc%40r%2Cet@HOST", false},
		"implicit TLS":              {smtptest.Config{Implicit: true}, "smtps://HOST", true},
		"signed in with TLS":        {smtptest.Config{Implicit: true, User: "bob", Password: "secret"}, "smtps://bob:secret@HOST", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := smtptest.New(t, tt.server)
			s := sender(t, smtpmail.Config{URL: strings.ReplaceAll(tt.url, "HOST", server.Addr), From: "Acme <agentd@example.org>", Root: server.Roots})
			if err := s.Send(t.Context(), letter); err != nil {
				t.Fatal(err)
			}
			got := server.Next(t, "ann@example.com")
			if got.TLS != tt.tls || got.User != tt.server.User || got.From != "agentd@example.org" {
				t.Errorf("came with TLS %t, from %q, signed in as %q", got.TLS, got.From, got.User)
			}
			if got.Text != letter.Text {
				t.Errorf("text %q", got.Text)
			}
			for header, want := range map[string]string{
				"Message-Id": "<0190-abc@example.org>", "Subject": "=?UTF-8?q?Gr=C3=BC=C3=9Fe?=", "From": `"Acme" <agentd@example.org>`,
				"To": "<ann@example.com>", "Auto-Submitted": "auto-generated",
			} {
				if got.Header.Get(header) != want {
					t.Errorf("%s is %q, want %q", header, got.Header.Get(header), want)
				}
			}
			if at, err := got.Header.Date(); err != nil || time.Since(at).Abs() > time.Minute {
				t.Errorf("date %v, %v", at, err)
			}
		})
	}
}

// Elsewhere than on this machine TLS is not given up, whatever the server says.
func TestStartTLS(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		server  smtptest.Config
		trusted bool
		failure string // "": none
	}{
		"offered and trusted": {smtptest.Config{StartTLS: true, User: "bob", Password: "secret"}, true, ""},
		"not trusted":         {smtptest.Config{StartTLS: true, User: "bob", Password: "secret"}, false, "certificate"},
		"not offered":         {smtptest.Config{User: "bob", Password: "secret"}, true, "STARTTLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := smtptest.New(t, tt.server)
			cfg := smtpmail.Config{
				URL: "smtp://bob:secret@mail.test", From: "agentd@example.org",
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					if address != "mail.test:587" {
						t.Errorf("it calls %s", address)
					}
					return new(net.Dialer).DialContext(ctx, network, server.Addr)
				},
			}
			if tt.trusted {
				cfg.Root = server.Roots
			}
			err := sender(t, cfg).Send(t.Context(), letter)
			if tt.failure != "" {
				if err == nil || !strings.Contains(err.Error(), tt.failure) || errors.Is(err, mail.ErrRefused) {
					t.Errorf("error %v", err)
				}
				if len(server.Letters()) > 0 {
					t.Error("the letter came all the same")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := server.Next(t, "ann@example.com"); !got.TLS || got.User != "bob" {
				t.Errorf("came with TLS %t, signed in as %q", got.TLS, got.User)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		command, answer string
		final           bool
	}{
		"no such person":          {"RCPT", "550 5.1.1 nobody", true},
		"mailbox full for now":    {"RCPT", "452 4.2.2 full", false},
		"taken for spam":          {".", "554 5.7.1 spam", true},
		"greylisted":              {".", "451 4.7.1 later", false},
		"data not wanted":         {"DATA", "554 no", true},
		"sender not allowed":      {"MAIL", "550 5.7.1 you?", false}, // the operator's matter, not this letter's
		"connection cut off":      {".", "hang up", false},
		"sign-in does not happen": {"EHLO", "421 busy", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := smtptest.New(t, smtptest.Config{})
			server.Refuse(func(command, _ string) string {
				if command == tt.command || tt.command == "EHLO" && command == "HELO" {
					return tt.answer
				}
				return ""
			})
			err := sender(t, smtpmail.Config{URL: "smtp://" + server.Addr, From: "agentd@example.org"}).Send(t.Context(), letter)
			if err == nil || errors.Is(err, mail.ErrRefused) != tt.final {
				t.Errorf("error %v, want it to be final: %t", err, tt.final)
			}
		})
	}
	t.Run("wrong password", func(t *testing.T) {
		t.Parallel()
		server := smtptest.New(t, smtptest.Config{User: "bob", Password: "secret"})
		err := sender(t, smtpmail.Config{URL: "smtp://bob:wr0ng@" + server.Addr, From: "agentd@example.org"}).Send(t.Context(), letter)
		if err == nil || errors.Is(err, mail.ErrRefused) || strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("farewell refused", func(t *testing.T) {
		t.Parallel()
		server := smtptest.New(t, smtptest.Config{})
		server.Refuse(func(command, _ string) string {
			if command == "RSET" {
				return "451 no"
			}
			return ""
		})
		if err := sender(t, smtpmail.Config{URL: "smtp://" + server.Addr, From: "agentd@example.org"}).Send(t.Context(), letter); err != nil {
			t.Errorf("the letter was taken, and yet: %v", err)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		_ = l.Close()
		err = sender(t, smtpmail.Config{URL: "smtp://" + address, From: "agentd@example.org"}).Send(t.Context(), letter)
		if err == nil || errors.Is(err, mail.ErrRefused) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("too slow", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		s := sender(t, smtpmail.Config{URL: "smtp://" + l.Addr().String(), From: "agentd@example.org"})
		if err := s.Send(ctx, letter); err == nil || errors.Is(err, mail.ErrRefused) {
			t.Errorf("error %v", err)
		}
	})
}

// What a letter says becomes no header and no command.
func TestNoInjection(t *testing.T) {
	t.Parallel()
	server := smtptest.New(t, smtptest.Config{})
	s := sender(t, smtpmail.Config{URL: "smtp://" + server.Addr, From: "agentd@example.org"})
	evil := mail.Letter{ID: "1", Message: mail.Message{
		To: "ann@example.com", Subject: "Hello\r\nBcc: eve@example.com\r\n\r\nbody", Text: "one\r\n.\r\nMAIL FROM:<eve@example.com>\r\n",
	}}
	if err := s.Send(t.Context(), evil); err != nil {
		t.Fatal(err)
	}
	got := server.Next(t, "ann@example.com")
	if got.Header.Get("Bcc") != "" || len(server.Letters()) != 0 || !strings.Contains(got.Text, "MAIL FROM") {
		t.Errorf("headers %v, text %q, more letters %v", got.Header, got.Text, server.Letters())
	}
	for _, to := range []string{"ann@example.com>\r\nRCPT TO:<eve@example.com", "ann@example.com, eve@example.com", "", "ann"} {
		err := s.Send(t.Context(), mail.Letter{ID: "2", Message: mail.Message{To: to, Text: "x"}})
		if !errors.Is(err, mail.ErrRefused) {
			t.Errorf("to %q: %v", to, err)
		}
	}
	if n := len(server.Letters()); n > 0 {
		t.Errorf("%d letters came", n)
	}
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	for _, cfg := range []smtpmail.Config{
		{URL: "", From: "a@example.org"},
		{URL: "http://mail.example.org", From: "a@example.org"},
		{URL: "smtp://", From: "a@example.org"},
		{URL: "smtp://s3cret:%zz@mail.example.org", From: "a@example.org"},
		{URL: "smtp://u:s3cret@mail.example.org:0", From: "a@example.org"},
		{URL: "smtp://u:s3cret@mail.example.org:99999", From: "a@example.org"},
		{URL: "smtp://u:s3cret@mail.example.org?tls=maybe", From: "a@example.org"},
		{URL: "smtps://u:s3cret@mail.example.org?tls=off", From: "a@example.org"},
		{URL: "smtp://u:s3cret@mail.example.org", From: ""},
		{URL: "smtp://u:s3cret@mail.example.org", From: "not an address"},
	} {
		if _, err := smtpmail.New(cfg); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q from %q: %v", cfg.URL, cfg.From, err)
		}
	}
}
