package app

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/signin"
	"agentd/internal/accounts/signin/signinsql"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/work"
	"agentd/internal/wire/oidcclient"
	"agentd/internal/wire/smtpmail"
)

// buildMail makes the outbox, and the runner that sends what is in it.
func (a *App) buildMail(queue work.Queue, runners map[string]*work.Runner) (*mail.Post, error) {
	letters := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentd_mail_attempts_total", Help: "Attempts at sending letters, by outcome: sent, delayed (tried again) or dropped.",
	}, []string{"outcome"})
	a.metrics.MustRegister(letters)
	for _, o := range []mail.Outcome{mail.Sent, mail.Delayed, mail.Dropped} {
		letters.WithLabelValues(string(o)) // so that they are seen before they happen
	}
	cfg := mail.Config{
		Queue: queue, Writer: a.db, Box: a.box, Clock: a.clock, Logger: a.log,
		Observe: func(o mail.Outcome) { letters.WithLabelValues(string(o)).Inc() },
	}
	if url := a.cfg.Mail.SMTPURL; !url.Empty() {
		sender, err := smtpmail.New(smtpmail.Config{URL: url.Reveal(), From: a.cfg.Mail.From})
		if err != nil {
			return nil, fmt.Errorf("AGENTD_SMTP_URL and AGENTD_MAIL_FROM: %w", err)
		}
		cfg.Sender = sender
	}
	post := mail.NewPost(cfg)
	runners[mail.WorkKind] = work.NewRunner(work.Config{
		Kind: mail.WorkKind, Owner: a.node, Queue: queue, Handler: post.Handle, Slots: 4, Lease: lease,
		Backoff: mail.Backoff, Clock: a.clock, Logger: a.log,
	})
	return post, nil
}

// buildSignIn makes the ways in for the members. recorder may be nil.
func (a *App) buildSignIn(
	queue work.Queue, post mail.Outbox, recorder audit.Recorder, members *identity.People, runners map[string]*work.Runner,
) (*signin.Service, error) {
	providers, err := a.buildProviders()
	if err != nil {
		return nil, err
	}
	s := signin.New(signin.Config{
		Writer: a.db, Store: signinsql.New(a.db), Members: identitysql.New(a.db), Sessions: a.people.Sessions, SignUp: a.people.Tenants.SignUp,
		Outbox: post, Queue: queue, Box: a.box, Clock: a.clock, Log: a.log, Audit: recorder,
		Public: a.public, Signup: a.cfg.SignIn.Signup == "on", Providers: providers,
		Prove:   members.Prove,
		Invited: members.HasInvite,
	})
	a.people.Sessions.SetFactors(s)
	members.OnRemove(s.DeleteMember)
	a.addRunner(runners, queue, signin.WorkKind, 4, s.Handle)
	return s, nil
}

// buildProviders reads the operator's file of OpenID providers. They may be
// private: nobody else names them.
func (a *App) buildProviders() ([]signin.ConfiguredProvider, error) {
	path := a.cfg.SignIn.OIDCProviders
	if path == "" {
		return nil, nil
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("AGENTD_OIDC_PROVIDERS: %w", err)
	}
	configs, err := signin.ParseProviders(file)
	if err != nil {
		return nil, fmt.Errorf("AGENTD_OIDC_PROVIDERS: %w", err)
	}
	client := oidcclient.New(a.clock)
	a.onStop(stopper(client.Close))
	providers := make([]signin.ConfiguredProvider, len(configs))
	for i, c := range configs {
		providers[i] = signin.ConfiguredProvider{ProviderConfig: c, Port: client.Provider(c)}
	}
	return providers, nil
}
