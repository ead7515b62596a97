package identity

import (
	"context"
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
	// streamTokenForm is bound to every sealed token. A new format gets a new
	// value, which makes tokens of the old format invalid.
	streamTokenForm = "stream token 1"
	maxSealedLen    = 512
)

// streamScopes are the scopes that a stream token can carry. Their order is
// part of the token's format.
var streamScopes = []authz.Scope{"sessions:read", "runs:read", "agents:read", "notifications:read", "runs:create"}

var tokenText = base64.RawURLEncoding.Strict()

// streamToken is the content of a stream token: who created it with which key or
// session, when it expires and which scopes it carries. It is not stored. Every
// node can open it, and the credential that created it must still be valid.
type streamToken struct {
	who     authz.Caller // ids only
	scopes  byte         // a bit for each of streamScopes
	expires time.Time
}

// streamBox returns a box with a key that only seals stream tokens.
func streamBox(deployment *secret.Box) *secret.Box {
	masters := [][]byte{secret.Random(32)}
	if deployment != nil {
		masters = deployment.DeriveAll("stream-tokens")
	}
	box, err := secret.NewBox(masters...)
	if err != nil {
		panic(err) // the master keys always have the right length
	}
	return box
}

func (t streamToken) seal(box *secret.Box) string {
	plain := binary.BigEndian.AppendUint64([]byte{t.scopes}, uint64(t.expires.UnixMicro()))
	plain = append(plain, strings.Join([]string{t.who.TenantID, t.who.UserID, t.who.KeyID, t.who.SessionID}, "/")...)
	return streamTokenMark + tokenText.EncodeToString(box.Seal(plain, streamTokenForm))
}

// openStreamToken decodes a token that seal returned; ok is false for any other
// text. It does not check the expiry.
func openStreamToken(box *secret.Box, sealed string) (t streamToken, ok bool) {
	if len(sealed) > maxSealedLen {
		return t, false
	}
	bytes, err := tokenText.DecodeString(sealed)
	if err != nil || strings.ContainsAny(sealed, "\r\n") { // the decoder ignores line breaks
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

// StreamToken creates a token that opens event streams for a minute, with the
// caller's scopes that a stream token can carry. Errors: MISSING_SCOPE for a
// caller who has none of them; 403 for one who uses a stream token.
func (a *Authenticator) StreamToken(who authz.Caller) (token string, expires time.Time, err error) {
	if who.StreamOnly {
		return "", time.Time{}, fault.New(fault.Forbidden, "STREAM_TOKEN_ONLY",
			"A stream token cannot create another one; use the key or session that created it.")
	}
	t := streamToken{who: who, expires: a.clock.Now().Add(streamTokenLife).Truncate(time.Microsecond)}
	for i, scope := range streamScopes {
		if who.Has(scope) {
			t.scopes |= 1 << i
		}
	}
	if t.scopes == 0 {
		return "", time.Time{}, fault.New(fault.Forbidden, "MISSING_SCOPE",
			"A stream token carries scopes of its creator: you need one of sessions:read, runs:read, agents:read, notifications:read "+
				"and runs:create.")
	}
	return t.seal(a.box), t.expires, nil
}

// streamCaller returns the caller of a sealed token: its creator, with the
// token's scopes that they still hold. Errors: as Authenticate.
func (a *Authenticator) streamCaller(ctx context.Context, sealed string) (authz.Caller, error) {
	t, ok := openStreamToken(a.box, sealed)
	if !ok || !a.clock.Now().Before(t.expires) {
		return authz.Caller{}, Unauthenticated()
	}
	cred, err := a.credentialOf(ctx, t.who)
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
