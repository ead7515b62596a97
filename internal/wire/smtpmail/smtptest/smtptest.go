// Package smtptest is an SMTP server for tests, on a port of its own, with
// STARTTLS and AUTH PLAIN. It keeps the messages that it receives.
package smtptest

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Letter is a received message.
type Letter struct {
	From, To string // of the envelope
	User     string // the authenticated user; empty: none
	TLS      bool
	Header   mail.Header
	Text     string
}

// Config configures a server.
type Config struct {
	StartTLS bool   // offer STARTTLS
	Implicit bool   // expect TLS from the first byte
	User     string // the user who may send; empty: everyone
	Password string
}

// Server is a running SMTP server.
type Server struct {
	Addr  string         // host:port
	Roots *x509.CertPool // verifies the server's certificate

	cfg Config

	mu       sync.Mutex
	letters  []Letter
	received chan struct{}
}

// New starts a server that stops with the test. Its certificate is valid for
// example.com and 127.0.0.1.
func New(t testing.TB, cfg Config) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: l.Addr().String(), Roots: x509.NewCertPool(), cfg: cfg, received: make(chan struct{}, 1000)}
	https := httptest.NewTLSServer(nil) // for its certificate
	defer https.Close()
	s.Roots.AddCert(https.Certificate())
	certificates := &tls.Config{Certificates: https.TLS.Certificates}

	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		_, encrypted := c.TLSConnectionState()
		return &session{server: s, letter: Letter{TLS: encrypted}}, nil
	}))
	server.Domain, server.AllowInsecureAuth, server.ErrorLog = "mail.test", true, log.New(io.Discard, "", 0)
	if cfg.StartTLS {
		server.TLSConfig = certificates
	}
	if cfg.Implicit {
		l = tls.NewListener(l, certificates)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		_ = server.Close()
		done.Wait()
	})
	return s
}

// Letters returns the messages that were received and not returned by Next.
func (s *Server) Letters() []Letter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Letter(nil), s.letters...)
}

// Next waits for the next message to an address and removes it.
func (s *Server) Next(t testing.TB, to string) Letter {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		if l, ok := s.take(to); ok {
			return l
		}
		select {
		case <-s.received:
		case <-deadline:
			t.Fatalf("no message to %s was received", to)
		}
	}
}

func (s *Server) take(to string) (Letter, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range s.letters {
		if l.To == to {
			s.letters = append(s.letters[:i:i], s.letters[i+1:]...)
			return l, true
		}
	}
	return Letter{}, false
}

// session is the session of one client.
type session struct {
	server *Server
	letter Letter
}

func (s *session) AuthMechanisms() []string {
	if s.server.cfg.User == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.server.cfg.User || password != s.server.cfg.Password {
			return smtp.ErrAuthFailed
		}
		s.letter.User = user
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.server.cfg.User != "" && s.letter.User == "" {
		return smtp.ErrAuthRequired
	}
	s.letter.From = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.letter.To = to
	return nil
}

func (s *session) Data(r io.Reader) error {
	m, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	body := m.Body
	if m.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	s.letter.Header, s.letter.Text = m.Header, strings.ReplaceAll(string(text), "\r\n", "\n")
	s.server.mu.Lock()
	s.server.letters = append(s.server.letters, s.letter)
	s.server.mu.Unlock()
	s.server.received <- struct{}{}
	return nil
}

func (s *session) Reset() {}

func (s *session) Logout() error { return nil }
