// Package smtptest is a mail server for tests: it speaks SMTP on a port of its
// own, with STARTTLS and AUTH, and keeps what it is given.
package smtptest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"
)

// Letter is what came.
type Letter struct {
	From, To string // of the envelope
	User     string // who was signed in; "" for nobody
	TLS      bool
	Header   mail.Header
	Text     string
}

// Config is how a server behaves.
type Config struct {
	StartTLS bool   // offers it
	Implicit bool   // speaks TLS from the first byte
	User     string // who may send; "": everybody
	Password string
}

// Server is a running mail server.
type Server struct {
	Addr  string         // host:port
	Roots *x509.CertPool // who vouches for it

	cfg      Config
	tls      *tls.Config
	listener net.Listener
	done     sync.WaitGroup

	mu      sync.Mutex
	letters []Letter
	refuse  func(command, argument string) string
	conns   map[net.Conn]bool
	came    chan struct{}
	opened  int
}

// New starts a server that ends with the test.
func New(t testing.TB, cfg Config) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: l.Addr().String(), cfg: cfg, listener: l, conns: map[net.Conn]bool{}, came: make(chan struct{}, 1000)}
	s.certify(t)
	s.done.Go(s.accept)
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.done.Wait()
	})
	return s
}

func (s *Server) certify(t testing.TB) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail.test"}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"mail.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s.Roots = x509.NewCertPool()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s.Roots.AddCert(cert)
	s.tls = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// Refuse has the server answer commands (MAIL, RCPT, DATA, ".") with what f
// gives, where that is not "".
func (s *Server) Refuse(f func(command, argument string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = f
}

// Letters gives what came so far.
func (s *Server) Letters() []Letter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Letter(nil), s.letters...)
}

// Connections counts how often somebody connected.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Next waits for the next letter to an address.
func (s *Server) Next(t testing.TB, to string) Letter {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		for i, l := range s.letters {
			if l.To == to {
				s.letters = append(s.letters[:i:i], s.letters[i+1:]...)
				s.mu.Unlock()
				return l
			}
		}
		s.mu.Unlock()
		select {
		case <-s.came:
		case <-deadline:
			t.Fatalf("no letter to %s came", to)
		}
	}
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.opened++
		s.mu.Unlock()
		s.done.Go(func() {
			defer c.Close()
			s.talk(c)
		})
	}
}

// conversation is with one client.
type conversation struct {
	s      *Server
	conn   net.Conn
	in     *bufio.Reader
	letter Letter
	tls    bool
	user   string
}

func (s *Server) talk(conn net.Conn) {
	c := &conversation{s: s, conn: conn}
	if s.cfg.Implicit {
		c.conn, c.tls = tls.Server(conn, s.tls), true
	}
	c.in = bufio.NewReader(c.conn)
	c.say("220 mail.test")
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return
		}
		command, argument, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		if command = strings.ToUpper(command); command == "QUIT" {
			c.say("221 bye")
			return
		}
		if answer := c.refused(command, argument); answer != "" {
			c.say(answer)
			continue
		}
		if !c.obey(command, argument) {
			return
		}
	}
}

func (c *conversation) refused(command, argument string) string {
	c.s.mu.Lock()
	f := c.s.refuse
	c.s.mu.Unlock()
	if f == nil {
		return ""
	}
	return f(command, argument)
}

func (c *conversation) say(line string) { _, _ = fmt.Fprintf(c.conn, "%s\r\n", line) }

// obey carries a command out, and says whether the conversation goes on.
func (c *conversation) obey(command, argument string) bool {
	switch command {
	case "EHLO", "HELO":
		c.greet()
	case "STARTTLS":
		c.say("220 go on")
		c.conn, c.tls = tls.Server(c.conn, c.s.tls), true
		c.in = bufio.NewReader(c.conn)
	case "AUTH":
		return c.auth(argument)
	case "MAIL":
		if c.s.cfg.User != "" && c.user == "" {
			c.say("530 sign in first")
			return true
		}
		c.letter = Letter{From: address(argument), TLS: c.tls, User: c.user}
		c.say("250 ok")
	case "RCPT":
		c.letter.To = address(argument)
		c.say("250 ok")
	case "DATA":
		return c.data()
	case "RSET", "NOOP":
		c.say("250 ok")
	default:
		c.say("502 what?")
	}
	return true
}

func (c *conversation) greet() {
	words := []string{"mail.test"}
	if c.s.cfg.StartTLS && !c.tls {
		words = append(words, "STARTTLS")
	}
	if c.s.cfg.User != "" {
		words = append(words, "AUTH PLAIN LOGIN")
	}
	words = append(words, "8BITMIME", "SIZE 1000000")
	for i, w := range words {
		if i < len(words)-1 {
			c.say("250-" + w)
		} else {
			c.say("250 " + w)
		}
	}
}

func (c *conversation) auth(argument string) bool {
	mechanism, first, _ := strings.Cut(argument, " ")
	if mechanism != "PLAIN" {
		c.say("504 PLAIN only")
		return true
	}
	raw, err := base64.StdEncoding.DecodeString(first)
	parts := strings.Split(string(raw), "\x00")
	if err != nil || len(parts) != 3 || parts[1] != c.s.cfg.User || parts[2] != c.s.cfg.Password {
		c.say("535 wrong")
		return true
	}
	c.user = parts[1]
	c.say("235 welcome")
	return true
}

func (c *conversation) data() bool {
	c.say("354 go on")
	var text strings.Builder
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return false
		}
		if line == ".\r\n" {
			break
		}
		text.WriteString(strings.TrimPrefix(line, "."))
	}
	if answer := c.refused(".", ""); answer != "" {
		c.say(answer)
		return answer != "hang up"
	}
	m, err := mail.ReadMessage(strings.NewReader(text.String()))
	if err != nil {
		c.say("554 no letter")
		return true
	}
	body, _ := io.ReadAll(m.Body)
	c.letter.Header, c.letter.Text = m.Header, decoded(m.Header.Get("Content-Transfer-Encoding"), string(body))
	c.s.mu.Lock()
	c.s.letters = append(c.s.letters, c.letter)
	c.s.mu.Unlock()
	c.say("250 taken")
	c.s.came <- struct{}{}
	return true
}

// address is what stands in FROM:<…> or TO:<…>.
func address(argument string) string {
	_, rest, _ := strings.Cut(argument, "<")
	rest, _, _ = strings.Cut(rest, ">")
	return rest
}

func decoded(encoding, body string) string {
	if encoding != "quoted-printable" {
		return body
	}
	text, _ := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
