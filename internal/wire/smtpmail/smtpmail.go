// Package smtpmail implements mail.Sender over SMTP, with the server that the
// operator configures.
package smtpmail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"agentd/internal/kernel/mail"
)

// stepTime is the timeout of one step of the SMTP dialogue.
const stepTime = 20 * time.Second

// Config configures a Sender.
type Config struct {
	// URL is smtp://user:password@host:587 (the server must offer STARTTLS,
	// unless the host is local or the query contains tls=off) or
	// smtps://user:password@host:465.
	URL  string
	From string         // an address, with or without a name before it
	Root *x509.CertPool // verifies the server's certificate; nil: the system's roots
	Dial Dial           // nil: net.Dialer
}

// Dial connects to a host and port.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Sender implements mail.Sender. Each message uses a new connection: messages
// are few, and servers close idle connections.
type Sender struct {
	host    string
	tls     *tls.Config
	wrapped bool // TLS from the first byte
	dial    Dial
	options []gomail.Option
	from    *netmail.Address
	domain  string // of message ids
}

var _ mail.Sender = (*Sender)(nil)

// New returns a Sender. Its errors do not contain the password.
func New(cfg Config) (*Sender, error) {
	at, err := url.Parse(cfg.URL)
	if err != nil || at.Hostname() == "" || at.Scheme != "smtp" && at.Scheme != "smtps" {
		return nil, errors.New("must be smtp://user:password@host:587 or smtps://user:password@host:465")
	}
	s := &Sender{host: at.Hostname(), dial: cfg.Dial}
	if s.dial == nil {
		s.dial = new(net.Dialer).DialContext
	}
	if s.from, err = netmail.ParseAddress(cfg.From); err != nil {
		return nil, errors.New("the sender must be an email address, such as agentd@example.com or Acme <agentd@example.com>")
	}
	s.domain = s.from.Address[strings.LastIndexByte(s.from.Address, '@')+1:]
	s.tls = &tls.Config{ServerName: s.host, RootCAs: cfg.Root, MinVersion: tls.VersionTLS12}
	s.options = []gomail.Option{gomail.WithTimeout(stepTime), gomail.WithTLSConfig(s.tls)}
	encrypted, err := s.encryption(at)
	if err != nil {
		return nil, err
	}
	if user := at.User; user != nil {
		password, _ := user.Password()
		auth := gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthSCRAMSHA1, gomail.SMTPAuthPlain, gomail.SMTPAuthLogin)
		if !encrypted {
			auth = gomail.WithSMTPAuth(gomail.SMTPAuthPlainNoEnc)
		}
		s.options = append(s.options, auth, gomail.WithUsername(user.Username()), gomail.WithPassword(password))
	}
	_, err = gomail.NewClient(s.host, s.options...)
	return s, err
}

// encryption sets the port and the TLS policy.
func (s *Sender) encryption(at *url.URL) (encrypted bool, err error) {
	port, policy := 587, gomail.TLSMandatory
	switch off := at.Query().Get("tls"); {
	case off != "" && off != "off", off == "off" && at.Scheme == "smtps":
		return false, errors.New("accepts only tls=off in its query, and only with smtp://")
	case at.Scheme == "smtps":
		port = 465
		s.wrapped, policy = true, gomail.NoTLS // the connection is encrypted when the library gets it
	case off == "off" || loopback(s.host):
		policy = gomail.NoTLS
	}
	if text := at.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			return false, errors.New("must have a port between 1 and 65535")
		}
	}
	s.options = append(s.options, gomail.WithTLSPolicy(policy), gomail.WithPort(port))
	return s.wrapped || policy == gomail.TLSMandatory, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Send implements mail.Sender.
func (s *Sender) Send(ctx context.Context, l mail.Letter) error {
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent()) // which programs run here is nobody's business
	m.FromMailAddress(s.from)
	if err := m.To(l.To); err != nil {
		return fmt.Errorf("%w: invalid recipient address: %w", mail.ErrRefused, err)
	}
	m.Subject(l.Subject)
	m.SetDate()
	m.SetMessageIDWithValue(l.ID + "@" + s.domain)
	m.SetGenHeader("Auto-Submitted", "auto-generated") // no out-of-office answers (RFC 3834)
	if strings.HasPrefix(l.Unsubscribe, "https://") {  // RFC 8058 asks for https
		m.SetGenHeader(gomail.HeaderListUnsubscribe, "<"+l.Unsubscribe+">")
		m.SetGenHeader(gomail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
	}
	m.SetBodyString(gomail.TypeTextPlain, l.Text)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := s.client(ctx)
	if err != nil {
		return err
	}
	err = client.DialAndSendWithContext(ctx, m)
	if m.IsDelivered() {
		return nil // an error after delivery is from closing the connection
	}
	var failed *gomail.SendError
	if errors.As(err, &failed) && failed.ErrorCode() >= 500 && aboutMessage(failed.Reason) {
		return fmt.Errorf("%w: %w", mail.ErrRefused, err)
	}
	return err
}

// client returns a client whose connection ends with ctx.
func (s *Sender) client(ctx context.Context) (*gomail.Client, error) {
	dial := func(dialing context.Context, network, address string) (net.Conn, error) {
		conn, err := s.connect(dialing, network, address)
		if err == nil {
			// The library does not close the connection after every failure, and
			// ignores the context while it waits for the server.
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
	return gomail.NewClient(s.host, append(slices.Clone(s.options), gomail.WithDialContextFunc(dial))...)
}

// Check connects to the server and signs in, and sends nothing.
func (s *Sender) Check(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := s.client(ctx)
	if err != nil {
		return err
	}
	if err := client.DialWithContext(ctx); err != nil {
		return err
	}
	return client.Close()
}

// aboutMessage reports whether a rejection is about this message. A rejection of
// the sender's address is about the configuration, which the operator can fix.
func aboutMessage(reason gomail.SendErrReason) bool {
	return reason == gomail.ErrSMTPRcptTo || reason == gomail.ErrSMTPData || reason == gomail.ErrSMTPDataClose
}

// connect opens a connection, with implicit TLS if configured.
func (s *Sender) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if s.wrapped {
		secured := tls.Client(conn, s.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return secured, nil
	}
	return conn, nil
}
