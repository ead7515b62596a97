package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"agentd/internal/base/authz"
)

// IsUpgrade reports whether a request asks for a WebSocket.
func IsUpgrade(r *http.Request) bool { return upgrades(r) }

// OfferedProtocols returns the subprotocols that a WebSocket client offers. One that has its
// key comes last: browsers want one of theirs back.
func OfferedProtocols(r *http.Request) (all []string) {
	var keys []string
	for _, line := range r.Header["Sec-Websocket-Protocol"] {
		for one := range strings.SplitSeq(line, ",") {
			if one = strings.TrimSpace(one); strings.HasPrefix(one, subprotocol) {
				keys = append(keys, one)
			} else if one != "" {
				all = append(all, one)
			}
		}
	}
	return append(all, keys...)
}

// OpenSocket registers the WebSocket of a Raw route's request as a caller's. Its context
// ends when the credential is revoked and when the server stops. The
// handler closes it when the connection has ended. Errors: as [OpenStream].
func OpenSocket(r *http.Request, who authz.Caller) (*Socket, error) {
	x := exchangeOf(r.Context())
	x.who = who // for the log
	detached := x.detachedCopy()
	st, err := x.server.streams.open(context.WithoutCancel(detached), detached, StreamOptions{Resumable: true})
	if err != nil {
		return nil, err
	}
	x.server.streams.running.Add(1)
	return &Socket{st, x.op.on}, nil
}

// Socket is a WebSocket among the streams of the server.
type Socket struct {
	st *Stream
	on func() error
}

// CheckFeature returns an error if the operator has switched off the feature that the
// socket belongs to since it was opened.
func (s *Socket) CheckFeature() error {
	if s.on == nil {
		return nil
	}
	return s.on()
}

// Context ends with the credential, and with the server.
func (s *Socket) Context() context.Context { return s.st.ctx }

// Revoked reports whether the credential is no longer valid.
func (s *Socket) Revoked() bool { return errors.Is(context.Cause(s.st.ctx), errRevoked) }

// Draining reports whether the server stops.
func (s *Socket) Draining() bool { return errors.Is(context.Cause(s.st.ctx), errDraining) }

// Close takes the socket off the streams.
func (s *Socket) Close() {
	s.st.Close()
	s.st.all.running.Done()
}

// AuthenticateLate returns the caller of a key that came in the first message of a
// WebSocket, as the chain would have. The row of the request says what the key needs.
func AuthenticateLate(r *http.Request, key string) (authz.Caller, error) {
	x := exchangeOf(r.Context())
	if key == "" || len(key) > maxCredentialSize {
		return authz.Caller{}, unauthenticated(errCredentialLen)
	}
	if err := x.server.limits.checkGuess(x, key); err != nil {
		return authz.Caller{}, err
	}
	who, err := x.server.auth.Authenticate(x, key)
	if err != nil {
		x.server.limits.countFailure(x)
		return authz.Caller{}, unauthenticated(err)
	}
	who.Address, who.RequestID = x.who.Address, x.id
	return who, mayCall(&who, &x.op.row)
}
