package identity

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

const (
	// SessionCookieName is the cookie of a signed-in browser (interface.md
	// section 5, point 11).
	SessionCookieName = "svc_session"
	// SessionWindow is how long a session outlives its last use.
	SessionWindow = 90 * 24 * time.Hour
	// renewEvery is how old the browser's copy of the window gets.
	renewEvery = 24 * time.Hour
	// mostSessions is how many a member may have; the one that was used the
	// longest ago makes room.
	mostSessions = 100
	// keepEnded is how long an ended session is remembered, so that ending it
	// again is told from ending what never was.
	keepEnded = 30 * 24 * time.Hour

	mostLabelLen = 120 // characters
)

// Device says where and how somebody signed in.
type Device struct {
	Label       string // a name for the devices list: what the person or the browser calls itself
	Address     string // the client's network address
	Method      string // otp, the id of an OpenID provider, or invite
	NeedsFactor bool   // the session is half open until a second factor is shown
}

// Session is a signed-in browser. It is no key: it is only taken from its
// cookie, has the role that the member has at the moment, and ends when it was
// not used for 90 days.
type Session struct {
	TenantID    string
	SessionID   string
	UserID      string
	Prefix      string // the 12 characters by which it is found
	Label       string
	Address     string // where it was opened from
	Method      string // as Device.Method
	NeedsFactor bool
	CreatedAt   time.Time
	LastUsedAt  time.Time // kept to about a minute
	RenewedAt   time.Time // when the browser was last sent the cookie
	VerifiedAt  time.Time // when a second factor was last shown; zero: never
	EndedAt     time.Time // zero: not ended
}

// ExpiresAt is when the session ends unless it is used before.
func (s Session) ExpiresAt() time.Time { return s.LastUsedAt.Add(SessionWindow) }

// live says whether the session is neither ended nor expired.
func (s Session) live(now time.Time) bool { return s.EndedAt.IsZero() && now.Before(s.ExpiresAt()) }

// SessionCredential is what decides whether a session authenticates.
type SessionCredential struct {
	Session Session
	Hash    Hash
	Holder
}

// SessionStore is the port to browser sessions. A session is its person's and
// may move to another tenant of theirs, so what acts on one finds it by its
// id, and what lists them takes the member.
type SessionStore interface {
	// GetSessionCredential finds a session by its prefix, ended ones too.
	GetSessionCredential(ctx context.Context, prefix string) (*SessionCredential, error)
	// GetSessionCredentialByID finds a session while it is in that tenant.
	GetSessionCredentialByID(ctx context.Context, tenantID, sessionID string) (*SessionCredential, error)
	// ListSessions lists those of a member that have not ended, expired ones too,
	// the last used first.
	ListSessions(ctx context.Context, tenantID, userID string) ([]Session, error)

	CreateSessionTx(tx txn.Tx, s Session, hash Hash) error
	// ListSessionsTx is Sessions as a write sees it.
	ListSessionsTx(tx txn.Tx, tenantID, userID string) ([]Session, error)
	// GetSessionTx reads a session, ended or not.
	GetSessionTx(tx txn.Tx, sessionID string) (Session, error)
	// UpdateSessionTx keeps where a session is, what it owes, when a second factor
	// was shown and when it ended.
	UpdateSessionTx(tx txn.Tx, s Session) error
	// DeleteSessionsTx removes those of a member that ended, or were last used,
	// no later than those moments.
	DeleteSessionsTx(tx txn.Tx, tenantID, userID string, ended, used time.Time) error
}

// Factors says who has a second factor to show.
type Factors interface {
	Enrolled(tx txn.Tx, tenantID, userID string) (bool, error)
}

// Connect sets the port to second factors, whose implementation is built after
// the service. It is called once, before the first request.
func (s *Service) Connect(f Factors) { s.factors = f }

// OpenSession signs a member in on a device. The raw token goes into the
// browser's cookie ([SessionCookie]) and nowhere else. Where the member has too
// many sessions, the one that was used the longest ago ends.
func (s *Service) OpenSession(tx txn.Tx, m Member, d Device) (Session, RawSession, error) {
	now := s.clock.Now()
	if err := s.store.DeleteSessionsTx(tx, m.TenantID, m.UserID, now.Add(-keepEnded), now.Add(-SessionWindow)); err != nil {
		return Session{}, "", err
	}
	open, err := s.store.ListSessionsTx(tx, m.TenantID, m.UserID)
	if err != nil {
		return Session{}, "", err
	}
	for len(open) >= mostSessions {
		if err := s.end(tx, open[len(open)-1], now); err != nil {
			return Session{}, "", err
		}
		open = open[:len(open)-1]
	}
	raw := NewRawSession()
	one := Session{
		TenantID: m.TenantID, SessionID: ident.New(), UserID: m.UserID, Prefix: raw.Prefix(),
		Label: label(d.Label), Address: label(d.Address), Method: d.Method, NeedsFactor: d.NeedsFactor,
		CreatedAt: now, LastUsedAt: now, RenewedAt: now,
	}
	if err := s.store.CreateSessionTx(tx, one, raw.Hash()); err != nil {
		return Session{}, "", err
	}
	return one, raw, s.store.UpdateLastLoginTx(tx, m.TenantID, m.UserID, now)
}

// SwitchSession moves a session to another tenant of its person: to is who
// they are there. The cookie stays the same. A second factor that was shown
// before does not count there: where that member has one, the session is half
// open until it is shown. Errors: 401 for a session that is not open.
func (s *Service) SwitchSession(tx txn.Tx, sessionID string, to Member) error {
	owes := false
	if s.factors != nil {
		var err error
		if owes, err = s.factors.Enrolled(tx, to.TenantID, to.UserID); err != nil {
			return err
		}
	}
	return s.change(tx, sessionID, func(one *Session) {
		one.TenantID, one.UserID = to.TenantID, to.UserID
		one.NeedsFactor, one.VerifiedAt = owes, time.Time{}
	})
}

// Verified notes that a second factor was shown in a session, which makes it
// whole. Errors: 401 for a session that is not open.
func (s *Service) Verified(tx txn.Tx, sessionID string, at time.Time) error {
	return s.change(tx, sessionID, func(one *Session) { one.NeedsFactor, one.VerifiedAt = false, at })
}

// EndSessions signs a member out everywhere but in one session ("": in that
// one too).
func (s *Service) EndSessions(tx txn.Tx, tenantID, userID string, except string) error {
	open, err := s.store.ListSessionsTx(tx, tenantID, userID)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	for _, one := range open {
		if one.SessionID == except {
			continue
		}
		if err := s.end(tx, one, now); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) end(tx txn.Tx, one Session, now time.Time) error {
	one.EndedAt = now
	return s.keep(tx, one)
}

func (s *Service) change(tx txn.Tx, sessionID string, edit func(*Session)) error {
	one, err := s.store.GetSessionTx(tx, sessionID)
	if errors.Is(err, ErrNotFound) || err == nil && !one.live(s.clock.Now()) {
		return Unauthenticated()
	}
	if err != nil {
		return err
	}
	edit(&one)
	return s.keep(tx, one)
}

// keep writes a session that was changed, and forgets it as it was.
func (s *Service) keep(tx txn.Tx, one Session) error {
	tx.AfterCommit(func() { s.drop(sessionKind, one.Prefix, one.SessionID) })
	return s.store.UpdateSessionTx(tx, one)
}

// SessionCookie puts a session into the browser.
func SessionCookie(raw RawSession) *route.Cookie {
	return &route.Cookie{Name: SessionCookieName, Value: string(raw), Lasts: SessionWindow}
}

// NoSessionCookie takes it away.
func NoSessionCookie() *route.Cookie { return &route.Cookie{Name: SessionCookieName} }

// label is a text of the client's as it may be shown.
func label(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if runes := []rune(strings.TrimSpace(text)); len(runes) > mostLabelLen {
		return string(runes[:mostLabelLen])
	}
	return strings.TrimSpace(text)
}
