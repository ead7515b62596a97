package smtpmail_test

import (
	"bytes"
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
		"without TLS to localhost":     {smtptest.Config{}, "smtp://HOST", false},
		"without TLS although offered": {smtptest.Config{StartTLS: true}, "smtp://HOST?tls=off", false},
		"AUTH without TLS":             {smtptest.Config{User: "bob", Password: "s:e/c@r,et"}, "smtp://bob:s%3Ae%2Fc%40r%2Cet@HOST", false},
		"implicit TLS":                 {smtptest.Config{Implicit: true}, "smtps://HOST", true},
		"AUTH with TLS":                {smtptest.Config{Implicit: true, User: "bob", Password: "secret"}, "smtps://bob:secret@HOST", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := smtptest.New(t, tt.server)
			s := sender(t, smtpmail.Config{URL: strings.ReplaceAll(tt.url, "HOST", server.Addr), From: "Acme <agentd@example.org>",
				Root: server.Roots})
			if err := s.Send(t.Context(), letter); err != nil {
				t.Fatal(err)
			}
			got := server.Next(t, "ann@example.com")
			if got.TLS != tt.tls || got.User != tt.server.User || got.From != "agentd@example.org" {
				t.Errorf("TLS %t, from %q, user %q", got.TLS, got.From, got.User)
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

// The headers name no program, and how to unsubscribe only where one click does it.
func TestHeaders(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]string{
		"": {}, "http://agentd.example.com/u?token=x": {},
		"https://agentd.example.com/u?token=x": {"<https://agentd.example.com/u?token=x>", "List-Unsubscribe=One-Click"},
	} {
		server := smtptest.New(t, smtptest.Config{})
		s := sender(t, smtpmail.Config{URL: "smtp://" + server.Addr, From: "agentd@example.org"})
		l := letter
		l.Unsubscribe = url
		if err := s.Send(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		got := server.Next(t, "ann@example.com").Header
		if has := [2]string{got.Get("List-Unsubscribe"), got.Get("List-Unsubscribe-Post")}; has != want {
			t.Errorf("%q: %v", url, has)
		}
		for _, name := range []string{"User-Agent", "X-Mailer"} {
			if got.Get(name) != "" {
				t.Errorf("%s: %s", name, got.Get(name))
			}
		}
	}
}

// For a remote host STARTTLS is mandatory, whatever the server offers.
func TestStartTLS(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		server  smtptest.Config
		trusted bool
		failure string // empty: none
	}{
		"offered and trusted": {smtptest.Config{StartTLS: true, User: "bob", Password: "secret"}, true, ""},
		"not trusted":         {smtptest.Config{StartTLS: true, User: "bob", Password: "secret"}, false, "certificate"},
		"not offered":         {smtptest.Config{User: "bob", Password: "secret"}, true, "STARTTLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := smtptest.New(t, tt.server)
			cfg := smtpmail.Config{
				URL: "smtp://bob:secret@example.com", From: "agentd@example.org",
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					if address != "example.com:587" {
						t.Errorf("dialled %s", address)
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
					t.Error("the message was sent without TLS")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := server.Next(t, "ann@example.com"); !got.TLS || got.User != "bob" {
				t.Errorf("TLS %t, user %q", got.TLS, got.User)
			}
		})
	}
}

// rejecting is a client's connection to a server that answers a command with an
// error ("hang up": closes the connection), and all later commands with 250.
// The command "." is the end of a message.
type rejecting struct {
	net.Conn
	command, answer string
	rejected        bool
	replies         bytes.Buffer // to commands that the server does not see
}

func (c *rejecting) Write(p []byte) (int, error) {
	line := string(p)
	switch {
	case c.rejected:
		c.replies.WriteString("250 ok\r\n")
	case strings.HasPrefix(line, c.command+" "), strings.TrimRight(line, "\r\n") == c.command,
		c.command == "." && strings.HasSuffix(line, "\r\n.\r\n"):
		c.rejected = true
		if c.answer == "hang up" {
			return len(p), c.Close()
		}
		c.replies.WriteString(c.answer + "\r\n")
	default:
		return c.Conn.Write(p)
	}
	return len(p), nil
}

func (c *rejecting) Read(p []byte) (int, error) {
	if c.replies.Len() > 0 {
		return c.replies.Read(p)
	}
	return c.Conn.Read(p)
}

func dialRejecting(command, answer string) smtpmail.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &rejecting{Conn: conn, command: command, answer: answer}, err
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		command, answer string
		final           bool
	}{
		"unknown recipient": {"RCPT", "550 5.1.1 unknown", true},
		"mailbox full":      {"RCPT", "452 4.2.2 full", false},
		"rejected as spam":  {".", "554 5.7.1 spam", true},
		"greylisted":        {".", "451 4.7.1 later", false},
		"DATA rejected":     {"DATA", "554 no", true},
		"sender rejected":   {"MAIL", "550 5.7.1 not allowed", false}, // a configuration error: it is not about this message
		"connection closed": {".", "hang up", false},
		"greeting rejected": {"EHLO", "421 busy", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := smtptest.New(t, smtptest.Config{})
			s := sender(t, smtpmail.Config{
				URL: "smtp://" + server.Addr, From: "agentd@example.org", Dial: dialRejecting(tt.command, tt.answer),
			})
			err := s.Send(t.Context(), letter)
			if err == nil || errors.Is(err, mail.ErrRefused) != tt.final {
				t.Errorf("error %v, want final: %t", err, tt.final)
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
	t.Run("error after delivery", func(t *testing.T) {
		t.Parallel()
		server := smtptest.New(t, smtptest.Config{})
		s := sender(t, smtpmail.Config{URL: "smtp://" + server.Addr, From: "agentd@example.org", Dial: dialRejecting("RSET", "451 no")})
		if err := s.Send(t.Context(), letter); err != nil {
			t.Errorf("the message was delivered, but: %v", err)
		}
	})
	t.Run("connection refused", func(t *testing.T) {
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
	t.Run("no greeting", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and sends nothing
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

// The content of a message cannot add headers or SMTP commands.
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
		t.Errorf("headers %v, text %q, more messages %v", got.Header, got.Text, server.Letters())
	}
	for _, to := range []string{"ann@example.com>\r\nRCPT TO:<eve@example.com", "ann@example.com, eve@example.com", "", "ann"} {
		err := s.Send(t.Context(), mail.Letter{ID: "2", Message: mail.Message{To: to, Text: "x"}})
		if !errors.Is(err, mail.ErrRefused) {
			t.Errorf("to %q: %v", to, err)
		}
	}
	if n := len(server.Letters()); n > 0 {
		t.Errorf("%d messages were received", n)
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
