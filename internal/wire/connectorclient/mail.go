package connectorclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/delivery/integration"
	"agentd/internal/kernel/mail"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/smtpmail"
)

// Mailer implements integration.Mailer.
type Mailer struct {
	Guarded *outbound.Client
}

var _ integration.Mailer = Mailer{}

func (m Mailer) sender(s *integration.MailServer) (*smtpmail.Sender, error) {
	u := url.URL{Scheme: "smtp", Host: fmt.Sprintf("%s:%d", s.Host, s.Port)}
	switch s.TLS {
	case integration.TLSOn:
		u.Scheme = "smtps"
	case integration.TLSOff:
		u.RawQuery = "tls=off"
	}
	if s.User != "" {
		u.User = url.UserPassword(s.User, s.Password.Reveal())
	}
	sender, err := smtpmail.New(smtpmail.Config{URL: u.String(), From: s.From, Dial: m.Guarded.Dial})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "", "The settings of the mail server cannot be used: it %s.",
			strings.TrimPrefix(err.Error(), "it ")).Because(err)
	}
	return sender, nil
}

// Send implements integration.Mailer.
func (m Mailer) Send(ctx context.Context, s *integration.MailServer, l *integration.Letter) error {
	sender, err := m.sender(s)
	if err != nil {
		return err
	}
	err = sender.Send(ctx, mail.Letter{ID: l.ID, Message: mail.Message{To: l.To, Subject: l.Subject, Text: l.Text}})
	if errors.Is(err, mail.ErrRefused) {
		return fault.New(fault.Invalid, "", "The mail server refuses the message (%.300s).", reason(err)).Because(err)
	}
	return notSent(err)
}

// Check implements integration.Mailer.
func (m Mailer) Check(ctx context.Context, s *integration.MailServer) error {
	sender, err := m.sender(s)
	if err != nil {
		return err
	}
	return notSent(sender.Check(ctx))
}

func notSent(err error) error {
	if err == nil {
		return nil
	}
	if outbound.IsDenied(err) {
		if e, ok := errors.AsType[*fault.Error](err); ok {
			return e
		}
	}
	return fault.New(fault.Unavailable, "EXTERNAL_SERVICE_ERROR", "The mail server cannot be used (%.300s).", reason(err)).Because(err)
}

// reason returns an error as one line without what this package put before it.
func reason(err error) string {
	return strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), mail.ErrRefused.Error()+": ")
}
