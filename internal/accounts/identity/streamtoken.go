package identity

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
)

const (
	streamTokenMark = "svt_"
	streamTokenLife = time.Minute
	// streamTokenForm is what a sealed token is bound to: another form gets
	// another one, and tokens of the older form die with it.
	streamTokenForm = "stream token 1"
	mostSealedLen   = 512
)

// streamScopes are those that a stream token can carry (interface.md section
// 5, point 4). Their order is part of the token's form.
var streamScopes = []authz.Scope{"sessions:read", "runs:read", "agents:read", "notifications:read"}

var tokenText = base64.RawURLEncoding.Strict()

// streamToken is what a stream token says: for whom, made with which key or
// session, how long it lasts and what it carries. It is kept nowhere; every
// node can open it, and what it was made with must still count.
type streamToken struct {
	who     authz.Caller // ids only
	scopes  byte         // a bit for each of streamScopes
	expires time.Time
}

// streamBox seals tokens under a key that is used for nothing else.
func streamBox(deployment *secret.Box) *secret.Box {
	master := make([]byte, 32)
	if deployment != nil {
		master = deployment.Derive("stream-tokens")
	} else {
		rand.Read(master)
	}
	box, err := secret.NewBox(master)
	if err != nil {
		panic(err) // only for a master of another length
	}
	return box
}

func (t streamToken) seal(box *secret.Box) string {
	plain := binary.BigEndian.AppendUint64([]byte{t.scopes}, uint64(t.expires.UnixMicro()))
	plain = append(plain, strings.Join([]string{t.who.TenantID, t.who.UserID, t.who.KeyID, t.who.SessionID}, "/")...)
	return streamTokenMark + tokenText.EncodeToString(box.Seal(plain, streamTokenForm))
}

// openStreamToken reads what seal made. ok is false for everything else; that
// the token still lasts is not checked.
func openStreamToken(box *secret.Box, sealed string) (t streamToken, ok bool) {
	if len(sealed) > mostSealedLen {
		return t, false
	}
	bytes, err := tokenText.DecodeString(sealed)
	if err != nil || strings.ContainsAny(sealed, "\r\n") { // which the decoder skips
		return t, false
	}
	plain, err := box.Open(bytes, streamTokenForm)
	if err != nil || len(plain) < 9 {
		return t, false
	}
	ids := strings.Split(string(plain[9:]), "/")
	if len(ids) != 4 {
		return t, false
	}
	t.scopes = plain[0]
	t.expires = time.UnixMicro(int64(binary.BigEndian.Uint64(plain[1:9]))).UTC()
	t.who = authz.Caller{TenantID: ids[0], UserID: ids[1], KeyID: ids[2], SessionID: ids[3]}
	return t, true
}

func cutStreamToken(raw string) (sealed string, ok bool) {
	return strings.CutPrefix(raw, streamTokenMark)
}

// StreamToken makes a token that opens event streams for a minute, with those
// of the caller's scopes that it can carry. Errors: MISSING_SCOPE for a caller
// who has none of them; 403 for one who came with a stream token.
func (s *Service) StreamToken(who authz.Caller) (token string, expires time.Time, err error) {
	if who.StreamOnly {
		return "", time.Time{}, fault.New(fault.Forbidden, "STREAM_TOKEN_ONLY", "A stream token cannot make another one; use the key or session that made it.")
	}
	t := streamToken{who: who, expires: s.clock.Now().Add(streamTokenLife).Truncate(time.Microsecond)}
	for i, scope := range streamScopes {
		if who.Has(scope) {
			t.scopes |= 1 << i
		}
	}
	if t.scopes == 0 {
		return "", time.Time{}, fault.New(fault.Forbidden, "MISSING_SCOPE",
			"A stream token carries what its maker may read: this needs one of the scopes sessions:read, runs:read, agents:read and notifications:read.")
	}
	return t.seal(s.box), t.expires, nil
}

// streamCaller gives the caller of a sealed token: whoever made it, with those
// of its scopes that they still have. Errors: as Authenticate.
func (s *Service) streamCaller(ctx context.Context, sealed string) (authz.Caller, error) {
	t, ok := openStreamToken(s.box, sealed)
	if !ok || !s.clock.Now().Before(t.expires) {
		return authz.Caller{}, Unauthenticated()
	}
	cred, err := s.again(ctx, t.who)
	if err != nil {
		return authz.Caller{}, err
	}
	who := cred.caller
	who.StreamOnly = true
	who.Scopes = slices.DeleteFunc(slices.Clone(streamScopes), func(scope authz.Scope) bool {
		return t.scopes&(1<<slices.Index(streamScopes, scope)) == 0 || !cred.caller.Has(scope)
	})
	return who, nil
}
