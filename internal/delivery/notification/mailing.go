package notification

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"html/template"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/text"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/mail"
)

// The paths of the links in emails.
const (
	confirmPath     = "/api/v1/notifications/confirm"
	unsubscribePath = "/api/v1/notifications/unsubscribe"
)

// confirmLife is how long the link of a confirmation letter works.
const confirmLife = 24 * time.Hour

// mailing sends notifications by email, to those who want them.
type mailing struct{ *Service }

func (s *Service) mailing() mailing { return mailing{s} }

// mailLimit is how many emails are sent within a time. Anyone can name any address, and
// agents choose the words: without limits a company could flood a stranger from the
// operator's address.
type mailLimit struct {
	subject string // what is counted
	shared  bool   // over all companies
	most    int
	per     time.Duration
}

// AddressHash identifies an email address in counts and opt-outs.
type AddressHash = [sha256.Size]byte

func hashAddress(address string) AddressHash { return sha256.Sum256([]byte(strings.ToLower(address))) }

// confirmLimits bound confirmation letters: to an address one a day from a company and
// three from all, and what a company sends.
func confirmLimits(a AddressHash) []mailLimit {
	address := "confirm/" + hex.EncodeToString(a[:])
	return []mailLimit{
		{address, false, 1, 24 * time.Hour}, {address, true, 3, 24 * time.Hour}, {"confirm", false, 20, 24 * time.Hour},
	}
}

// noticeLimits bound notifications.
func noticeLimits(a AddressHash) []mailLimit {
	address := "notice/" + hex.EncodeToString(a[:])
	return []mailLimit{{address, true, 30, time.Hour}, {"notice", false, 500, time.Hour}}
}

// withinTx counts an email and reports whether it is within the limits.
func (s mailing) withinTx(tx txn.Tx, tenant string, limits []mailLimit) (bool, error) {
	now := s.Clock.Now()
	for _, l := range limits {
		of := tenant
		if l.shared {
			of = ""
		}
		n, err := s.Delivery.CountMailTx(tx, of, l.subject, now, l.per)
		if err != nil || n > l.most {
			return false, err
		}
	}
	return true, s.Delivery.DeleteOldCountsTx(tx, now)
}

// sendTx mails a notification to an address that is known to want it, unless it
// unsubscribed or the limits are reached. It returns why nothing was sent, or "".
func (s mailing) sendTx(tx txn.Tx, tenant string, m mail.Message) (failure string, err error) {
	if !s.canMail() {
		return "This deployment can no longer send mail.", nil
	}
	address := hashAddress(m.To)
	out, err := s.Delivery.HasOptOutTx(tx, tenant, address)
	if err != nil || out {
		return "This address has unsubscribed.", err
	}
	ok, err := s.withinTx(tx, tenant, noticeLimits(address))
	if err != nil || !ok {
		return "Too many emails were sent within an hour.", err
	}
	return "", s.Mail.Send(tx, tenant, m)
}

// mailOf returns a notification as mail. Subject, text and footer say which company it
// is from: companies and their agents choose the words, and must not pass for the
// operator.
func (s mailing) mailOf(ctx context.Context, to string, n *Notification) mail.Message {
	company, stop := s.company(ctx, n.TenantID), s.unsubscribeURL(n.TenantID, to)
	who := "The company \"" + company + "\" sends you this"
	if n.Type == AgentMessage || n.Type == RunAwaitingInput {
		who = "An agent of the company \"" + company + "\" wrote this"
	}
	body := who + ":\n\n> " + strings.ReplaceAll(strings.TrimSpace(n.Title+"\n\n"+n.Message), "\n", "\n> ")
	if link := s.link(n); link != "" {
		body += "\n\n" + link
	}
	return mail.Message{
		To: to, Subject: "[" + company + "] " + text.OneLine(n.Title), Unsubscribe: stop,
		Text: body + "\n\n-- \nThis is a notification of the company \"" + company + "\" on " + s.Public() +
			", whose operator did not write it.\nStop these emails: " + stop + "\n",
	}
}

// company returns the name of a company as emails show it: its words, and no link that
// a mail program would make of it.
func (s mailing) company(ctx context.Context, tenant string) string {
	name := ""
	if s.Company != nil {
		name = s.Company(ctx, tenant)
	}
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-&'", r) {
			return r
		}
		return ' '
	}, name)
	if name = text.OneLine(fit(strings.Join(strings.Fields(name), " "), 60)); name == "" {
		return "unnamed"
	}
	return name
}

// subscription is what the link to unsubscribe carries, sealed.
type subscription struct {
	Tenant  string `json:"t"`
	Address string `json:"a"`
}

const unsubscribePurpose = "notification_unsubscribe"

func (s mailing) unsubscribeURL(tenant, address string) string {
	plain, err := json.Marshal(subscription{tenant, address})
	if err != nil {
		panic(err) // strings always encode
	}
	return s.Public() + unsubscribePath + "?token=" + base64.RawURLEncoding.EncodeToString(s.Box.Seal(plain, unsubscribePurpose))
}

func (s mailing) openSubscription(token string) (sub subscription, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		var plain []byte
		if plain, err = s.Box.Open(sealed, unsubscribePurpose); err == nil {
			err = json.Unmarshal(plain, &sub)
		}
	}
	if err != nil {
		return sub, badLink()
	}
	return sub, nil
}

func badLink() error {
	return fault.New(fault.NotFound, "", "This link is not one of ours, or has expired; use the one in the newest email.")
}

// askTx sends the confirmation letter of a new email target, unless the address is the
// verified one of the person's account.
func (s mailing) askTx(tx txn.Tx, t *Target, address, company string, own bool) error {
	hash := hashAddress(address)
	if own {
		t.ConfirmedAt = t.CreatedAt
		return s.Delivery.DeleteOptOutTx(tx, t.TenantID, hash)
	}
	out, err := s.Delivery.HasOptOutTx(tx, t.TenantID, hash)
	if err != nil {
		return err
	}
	if out {
		return fault.New(fault.Conflict, "", "This address has unsubscribed from the notifications of your company; use another.")
	}
	ok, err := s.withinTx(tx, t.TenantID, confirmLimits(hash))
	if err != nil {
		return err
	}
	if !ok {
		e := fault.New(fault.Limited, "", "A confirmation letter was sent to this address lately, or your company sent too many of them; "+
			"use the link in the letter, or try again tomorrow.")
		e.RetryAfter = 24 * time.Hour
		return e
	}
	token := rand.Text()
	sum := sha256.Sum256([]byte(token))
	t.ConfirmHash, t.ConfirmUntil = sum[:], t.CreatedAt.Add(confirmLife)
	return s.Mail.Send(tx, t.TenantID, mail.Message{
		To: address, Until: t.ConfirmUntil, Subject: "Confirm that you want notifications of " + company,
		Unsubscribe: s.unsubscribeURL(t.TenantID, address),
		Text: "A member of the company \"" + company + "\" on " + s.Public() + " wants its notifications to be sent to this address.\n\n" +
			"If you want them, open this link within 24 hours:\n\n" + s.Public() + confirmPath + "?token=" + t.TenantID + "." + t.ID + "." + token +
			"\n\nIf not, ignore this email; without your confirmation nothing more is sent.\n",
	})
}

// ownAddress reports whether an address is the verified one of the caller's account.
func (s mailing) ownAddress(ctx context.Context, who authz.Caller, address string) (bool, error) {
	people, err := s.Delivery.ListPeople(ctx, who.TenantID)
	for _, p := range people {
		if p.UserID == who.UserID && p.Email != "" && strings.EqualFold(p.Email, address) {
			return true, err
		}
	}
	return false, err
}

type linkIn struct {
	Token string `query:"token" maxLength:"1000" doc:"From the link in the email."`
}

type pressIn struct {
	Token string `query:"token" maxLength:"1000" doc:"From the link in the email."`
	Body  route.Message
}

var linkPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title></head>
<body><h1>{{.Title}}</h1><p>{{.Text}}</p>
{{if .Button}}<form method="post"><button>{{.Button}}</button></form>{{end}}</body></html>
`))

type linkPageData struct{ Title, Text, Button string }

func renderPage(d linkPageData) (*route.Reply, error) {
	var page bytes.Buffer
	err := linkPage.Execute(&page, d)
	return &route.Reply{JSON: page.Bytes(), Media: "text/html"}, err
}

// askToConfirm shows the page of a confirmation letter's link. Opening the link changes
// nothing, because mail programs open links too.
func (s mailing) askToConfirm(ctx context.Context, _ authz.Caller, in *linkIn) (*route.Reply, error) {
	tenant, _, _, err := confirmation(in.Token)
	if err != nil {
		return nil, err
	}
	return renderPage(linkPageData{
		Title: "Notifications by email", Button: "Yes, send them",
		Text: "Do you want the notifications of the company \"" + s.company(ctx, tenant) + "\" at this address?",
	})
}

// confirmation returns the parts of a confirmation letter's token.
func confirmation(token string) (tenant, target string, hash []byte, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || !ident.Valid(parts[0]) || !ident.Valid(parts[1]) {
		return "", "", nil, badLink()
	}
	sum := sha256.Sum256([]byte(parts[2]))
	return parts[0], parts[1], sum[:], nil
}

// confirm makes an email target effective. Doing it again changes nothing.
func (s mailing) confirm(ctx context.Context, _ authz.Caller, in *pressIn) (*route.Reply, error) {
	tenant, target, hash, err := confirmation(in.Token)
	if err != nil {
		return nil, err
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		found, err := s.Delivery.UpdateConfirmedTx(tx, tenant, target, hash, s.Clock.Now())
		if err == nil && !found {
			err = badLink()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return renderPage(linkPageData{
		Title: "Confirmed", Text: "The notifications are sent to this address from now on. Each has a link to stop them.",
	})
}

func (s mailing) askToUnsubscribe(ctx context.Context, _ authz.Caller, in *linkIn) (*route.Reply, error) {
	sub, err := s.openSubscription(in.Token)
	if err != nil {
		return nil, err
	}
	return renderPage(linkPageData{
		Title: "Stop notifications by email", Button: "Stop them",
		Text: "Stop all notifications of the company \"" + s.company(ctx, sub.Tenant) + "\" to " + sub.Address + "?",
	})
}

// unsubscribe stops the notifications of a company to an address (RFC 8058).
func (s mailing) unsubscribe(ctx context.Context, _ authz.Caller, in *pressIn) (*route.Reply, error) {
	sub, err := s.openSubscription(in.Token)
	if err != nil {
		return nil, err
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		return s.Delivery.CreateOptOutTx(tx, sub.Tenant, hashAddress(sub.Address), s.Clock.Now())
	})
	if err != nil {
		return nil, err
	}
	return renderPage(linkPageData{Title: "Stopped", Text: "No more notifications of this company are sent to this address."})
}
