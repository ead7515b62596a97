package identity

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

const (
	// SessionCookieName is the name of the cookie of a signed-in browser.
	SessionCookieName = "svc_session"
	// SessionWindow is how long a session lives after its last use.
	SessionWindow = 90 * 24 * time.Hour
	// renewEvery is the interval after which the cookie is sent to the browser
	// again, so that its copy of the window does not expire.
	renewEvery = 24 * time.Hour
	// maxSessions bounds the sessions of a member; the least recently used one
	// is ended to make room.
	maxSessions = 100
	// keepEnded is how long an ended session is stored, so that ending it again
	// can be distinguished from ending one that never existed.
	keepEnded = 30 * 24 * time.Hour

	maxLabelLen = 120 // characters
)

// Device describes where and how a person signed in.
type Device struct {
	Label       string // a name for the devices list, from the person or the browser
	Address     string // the client's network address
	Method      string // otp, the ID of an OpenID provider, link, key or invite
	NeedsFactor bool   // the session is half open until a second factor is verified
	KeyID       string // of the key with which the session is opened, whose rights it has; "": none
}

// Session is a signed-in browser or program. The token of its cookie is accepted only
// there. A program that keeps no cookies has the session's key, which has the form of
// an API key. A session has the current role of its member, and ends when it has not
// been used for 90 days.
type Session struct {
	TenantID    string
	SessionID   string
	UserID      string
	Prefix      string // the 12 characters by which it is looked up
	KeyPrefix   string // the 8 characters by which its key is looked up; "": it has none
	Label       string
	Address     string // the client's address at sign-in
	Method      string // as Device.Method
	KeyID       string // of the key with which it was opened; "": none
	NeedsFactor bool
	CreatedAt   time.Time
	LastUsedAt  time.Time // accurate to about a minute
	RenewedAt   time.Time // when the browser was last sent the cookie
	VerifiedAt  time.Time // when a second factor was last verified; zero: never
	EndedAt     time.Time // zero: not ended
}

// ExpiresAt returns when the session ends unless it is used before.
func (s Session) ExpiresAt() time.Time { return s.LastUsedAt.Add(SessionWindow) }

// live reports whether the session is neither ended nor expired.
func (s Session) live(now time.Time) bool { return s.EndedAt.IsZero() && now.Before(s.ExpiresAt()) }

// SessionCredential is what decides whether a session authenticates. Key is the key
// with which it was opened, if it was: only KeyID, Scopes, Status and ExpiresAt are
// set, and Status is empty where that key does not exist any more.
type SessionCredential struct {
	Session Session
	Hash    Hash
	Key     Key
	Holder
}

// SessionStore is the port to browser sessions. A session belongs to a person
// and may move to another tenant of theirs: methods that act on one session find
// it by its ID, and methods that list sessions take the member.
type SessionStore interface {
	// GetSessionCredential finds a session by its prefix, ended ones too.
	GetSessionCredential(ctx context.Context, prefix string) (*SessionCredential, error)
	// GetSessionCredentialByKey finds a session by the prefix of its key, with the hash
	// of that.
	GetSessionCredentialByKey(ctx context.Context, keyPrefix string) (*SessionCredential, error)
	// GetSessionCredentialByID finds a session while it is in that tenant.
	GetSessionCredentialByID(ctx context.Context, tenantID, sessionID string) (*SessionCredential, error)
	// ListSessions lists the sessions of a member that have not ended, including
	// expired ones, most recently used first.
	ListSessions(ctx context.Context, tenantID, userID string) ([]Session, error)

	CreateSessionTx(tx txn.Tx, s Session, hash Hash) error
	// ListSessionsTx is ListSessions as a write sees it.
	ListSessionsTx(tx txn.Tx, tenantID, userID string) ([]Session, error)
	// GetSessionTx reads a session, ended or not.
	GetSessionTx(tx txn.Tx, sessionID string) (Session, error)
	// UpdateSessionTx updates tenant, member, NeedsFactor, VerifiedAt and EndedAt of
	// a session.
	UpdateSessionTx(tx txn.Tx, s Session) error
	// UpdateSessionKeyTx sets the key of a session.
	UpdateSessionKeyTx(tx txn.Tx, sessionID, keyPrefix string, hash Hash) error
	// DeleteSessionsTx deletes the sessions of a member that ended, or were last
	// used, no later than those times.
	DeleteSessionsTx(tx txn.Tx, tenantID, userID string, ended, used time.Time) error
}

// Factors reports who has a second factor.
type Factors interface {
	Enrolled(tx txn.Tx, tenantID, userID string) (bool, error)
}

// Sessions opens and ends browser sessions.
type Sessions struct {
	store   Store
	clock   clock.Clock
	auth    *Authenticator
	factors Factors // nil: no second factors
}

// SetFactors sets the port to second factors. It is called once, before use.
func (s *Sessions) SetFactors(f Factors) { s.factors = f }

// Open signs a member in on a device. The raw token goes into the browser's
// cookie ([SessionCookie]) and nowhere else. If the member has too many
// sessions, the least recently used ones end.
func (s *Sessions) Open(tx txn.Tx, m Member, d Device) (Session, RawSession, error) {
	now := s.clock.Now()
	if err := s.store.DeleteSessionsTx(tx, m.TenantID, m.UserID, now.Add(-keepEnded), now.Add(-SessionWindow)); err != nil {
		return Session{}, "", err
	}
	open, err := s.store.ListSessionsTx(tx, m.TenantID, m.UserID)
	if err != nil {
		return Session{}, "", err
	}
	for len(open) >= maxSessions {
		if err := s.end(tx, open[len(open)-1], now); err != nil {
			return Session{}, "", err
		}
		open = open[:len(open)-1]
	}
	raw := NewRawSession()
	session := Session{
		TenantID: m.TenantID, SessionID: ident.New(), UserID: m.UserID, Prefix: raw.Prefix(),
		Label: label(d.Label), Address: label(d.Address), Method: d.Method, KeyID: d.KeyID, NeedsFactor: d.NeedsFactor,
		CreatedAt: now, LastUsedAt: now, RenewedAt: now,
	}
	if err := s.store.CreateSessionTx(tx, session, raw.Hash()); err != nil {
		return Session{}, "", err
	}
	return session, raw, s.store.UpdateLastLoginTx(tx, m.TenantID, m.UserID, now)
}

// CreateKey creates the key of a session that was just opened: a bearer that acts as
// the session does, and ends with it.
func (s *Sessions) CreateKey(tx txn.Tx, sessionID string) (RawKey, error) {
	raw := NewRawKey()
	return raw, s.store.UpdateSessionKeyTx(tx, sessionID, raw.Prefix(), raw.Hash())
}

// Switch moves a session to another tenant of its person; to is their member
// record there. The cookie stays the same. A second factor that was verified
// before does not count there: if that member has one, the session is half open
// until it is verified. Errors: 401 for a session that is not open.
func (s *Sessions) Switch(tx txn.Tx, sessionID string, to Member) error {
	needsFactor := false
	if s.factors != nil {
		var err error
		if needsFactor, err = s.factors.Enrolled(tx, to.TenantID, to.UserID); err != nil {
			return err
		}
	}
	return s.change(tx, sessionID, func(session *Session) {
		session.TenantID, session.UserID = to.TenantID, to.UserID
		session.NeedsFactor, session.VerifiedAt = needsFactor, time.Time{}
	})
}

// MarkVerified records that a second factor was verified in a session, which
// makes the session fully open. Errors: 401 for a session that is not open.
func (s *Sessions) MarkVerified(tx txn.Tx, sessionID string, at time.Time) error {
	return s.change(tx, sessionID, func(session *Session) { session.NeedsFactor, session.VerifiedAt = false, at })
}

// EndAll signs a member out everywhere except in one session ("": in all).
func (s *Sessions) EndAll(tx txn.Tx, tenantID, userID string, except string) error {
	open, err := s.store.ListSessionsTx(tx, tenantID, userID)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	for _, session := range open {
		if session.SessionID == except {
			continue
		}
		if err := s.end(tx, session, now); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sessions) end(tx txn.Tx, session Session, now time.Time) error {
	session.EndedAt = now
	return s.update(tx, session)
}

func (s *Sessions) change(tx txn.Tx, sessionID string, edit func(*Session)) error {
	session, err := s.store.GetSessionTx(tx, sessionID)
	if errors.Is(err, ErrNotFound) || err == nil && !session.live(s.clock.Now()) {
		return Unauthenticated()
	}
	if err != nil {
		return err
	}
	edit(&session)
	return s.update(tx, session)
}

// update stores a changed session and drops it from the cache.
func (s *Sessions) update(tx txn.Tx, session Session) error {
	tx.AfterCommit(func() {
		s.auth.invalidate(sessionKind, session.Prefix, session.SessionID)
		if session.KeyPrefix != "" {
			s.auth.invalidate(keyKind, session.KeyPrefix, session.SessionID)
		}
	})
	return s.store.UpdateSessionTx(tx, session)
}

// SessionCookie returns the cookie that signs a browser in.
func SessionCookie(raw RawSession) *route.Cookie {
	return &route.Cookie{Name: SessionCookieName, Value: string(raw), Lasts: SessionWindow}
}

// NoSessionCookie returns the cookie that signs a browser out.
func NoSessionCookie() *route.Cookie { return &route.Cookie{Name: SessionCookieName} }

// label returns a text of the client in a form that may be shown.
func label(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if runes := []rune(strings.TrimSpace(text)); len(runes) > maxLabelLen {
		return string(runes[:maxLabelLen])
	}
	return strings.TrimSpace(text)
}
