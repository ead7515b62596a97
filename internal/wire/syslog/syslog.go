// Package syslog pushes entries of the audit log to a syslog receiver: messages of
// RFC 5424, framed by their length (RFC 6587, RFC 5425), over TCP or TLS.
//
// Syslog acknowledges nothing. Each batch has a connection of its own, which is
// closed for writing after the last message; the batch counts as taken once the
// receiver closes it too, or has not complained for a while. A receiver that dies
// at that moment may lose messages; a webhook acknowledges them.
package syslog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/audit"
)

// Receiver is a syslog receiver. Safe for concurrent use.
type Receiver struct {
	address string
	tls     *tls.Config // nil: plain TCP
	host    string      // of this machine
	timeout time.Duration
	linger  time.Duration
}

var _ audit.Receiver = (*Receiver)(nil)

// The schemes of addresses, and their ports where none is given.
var ports = map[string]string{"syslog+tcp": "601", "syslog+tls": "6514"}

// New returns the receiver at an address such as syslog+tls://siem.example.com:6514.
// Of TLS, its certificate must be signed by one of roots; nil: one that the system
// trusts.
func New(address string, roots *x509.CertPool) (*Receiver, error) {
	u, err := url.Parse(address)
	if err != nil || ports[u.Scheme] == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return nil, errors.New("must be syslog+tcp://host:port or syslog+tls://host:port")
	}
	port := u.Port()
	if port == "" {
		port = ports[u.Scheme]
	}
	r := &Receiver{address: net.JoinHostPort(u.Hostname(), port), timeout: 10 * time.Second, linger: time.Second}
	if u.Scheme == "syslog+tls" {
		r.tls = &tls.Config{ServerName: u.Hostname(), RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	if r.host, err = os.Hostname(); err != nil || r.host == "" {
		r.host = "-"
	}
	return r, nil
}

// Push implements [audit.Receiver].
func (r *Receiver) Push(ctx context.Context, lines []audit.Line) error {
	var messages []byte
	for i := range lines {
		m, err := r.message(&lines[i])
		if err != nil {
			return err
		}
		messages = append(strconv.AppendInt(messages, int64(len(m)), 10), ' ')
		messages = append(messages, m...)
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	conn, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	if _, err := conn.Write(messages); err != nil {
		return err
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		if err := half.CloseWrite(); err != nil {
			return err
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(r.linger))
	_, err = io.Copy(io.Discard, io.LimitReader(conn, 4<<10))
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && ctx.Err() == nil {
		return nil // a receiver that keeps its side open
	}
	return err
}

func (r *Receiver) dial(ctx context.Context) (net.Conn, error) {
	if r.tls != nil {
		return (&tls.Dialer{Config: r.tls}).DialContext(ctx, "tcp", r.address)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", r.address)
}

// priority is that of audit messages: facility 13 (log audit), severity 6
// (informational).
const priority = 13*8 + 6

// message returns an entry as a message of RFC 5424: its action is the id of the
// message, and its JSON the text.
func (r *Receiver) message(l *audit.Line) ([]byte, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("<%d>1 %s %s agentd %d %s - ", priority, l.At.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		word(r.host, 255), os.Getpid(), word(l.Action, 32))
	return append([]byte(head), text...), nil
}

// word returns a field of the header: printable ASCII without spaces, "-" for none.
func word(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return -1
		}
		return c
	}, s)
	if s == "" {
		return "-"
	}
	return s[:min(len(s), most)]
}
