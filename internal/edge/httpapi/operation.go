package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"reflect"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
)

// obeyFeature makes an operation refuse requests while the operator has switched off the
// feature that its path belongs to.
func (s *Server) obeyFeature(o *operation) {
	if s.feature == nil {
		return
	}
	if o.on = s.feature(o.row.Path); o.on == nil {
		return
	}
	serve := o.serve
	o.serve = func(x *exchange, req *http.Request) error {
		if err := o.on(); err != nil {
			return err
		}
		return serve(x, req)
	}
}

// routeOperation compiles a route.
func (s *Server) routeOperation(r route.Route) *operation {
	o := &operation{
		row: r.Row, status: cmp.Or(r.Status, http.StatusOK), stream: r.Open != nil,
		queryToken: r.Out == contentType, https: s.https, repeatable: repeatable(r.Row),
	}
	in := s.compile(r.Row, r.In)
	if r.Off != nil {
		o.stream = false
		o.serve = func(*exchange, *http.Request) error { return r.Off }
		return o
	}
	if o.stream {
		o.serve = func(x *exchange, req *http.Request) error { return s.serveStream(x, req, in, r.Open) }
		return o
	}
	answer := func(ctx context.Context, x *exchange, req *http.Request, arg any) error {
		out, err := r.Call(ctx, x.who, arg)
		if err != nil {
			return err
		}
		if _, once := out.(route.ShownOnce); once && x.held != nil {
			x.held.once = out
		}
		if content, ok := out.(*route.Content); ok {
			return x.serveContent(req, content)
		}
		if lines, ok := out.(route.Lines); ok {
			return x.serveLines(req, lines)
		}
		if reply, ok := out.(*route.Reply); ok && reply.Pieces != nil {
			return x.servePieces(req, cmp.Or(reply.Media, jsonMedia), reply.Pieces)
		}
		if out, err = o.withTag(out); err != nil {
			return err
		}
		return o.reply(x, o.unchanged(req, out))
	}
	o.serve = func(x *exchange, req *http.Request) error {
		if o.row.Conditional && o.row.Method != http.MethodGet {
			x.match = req.Header.Get("If-Match")
		}
		if key := req.Header[keyHeader]; key != nil && o.repeatable {
			return s.serveIdempotent(x, req, o, in, answer)
		}
		arg, held, err := in.bind(x, req)
		defer held.release()
		if err != nil {
			return err
		}
		return answer(x, x, req, arg)
	}
	return o
}

// Raw is an operation with a wire format of its own: a compatible route, a
// page, an upgrade. It passes the same chain; its row is published if it has an
// ID.
type Raw struct {
	route.Row

	APIKeyHeader bool // the key may come in x-api-key
	QueryToken   bool // the key may come in ?token=: downloads
	Upgrade      bool // becomes a WebSocket: the key may come in ?token= and as the subprotocol svc.<base64 of the key>
	LateKey      bool // of an Upgrade: without a credential the connection opens, and Serve gets a caller that is nobody; see AuthenticateLate
	Quiet        bool // a probe: logged at debug level
	StreamToken  bool // takes a stream token, although it is no GET
	Streams      bool // the answer is always an event stream
	MayStream    bool // the answer is an event stream if the request asks for one
	OwnPages     bool // a Public write that only this service's own pages may send: the form of a page

	// ReplayByRef rows record a ResultRef and answer repeated requests themselves;
	// see EarlierResult.
	ReplayByRef bool
	// In is the type that Params returns: its fields are tagged with their place in
	// the path, the query or the headers, as in a row's input. Nil: only the
	// parameters of the path are published.
	In reflect.Type
	// Media is the media type of an answer of bytes, such as audio/*.
	Media string
	// FailOf is the published schema of what Fail sends.
	FailOf reflect.Type
	// Mixed are the statuses that Fail may also answer with a problem document.
	Mixed []int
	// Fail renders a refusal by Serve or by the chain; nil: a problem document. It
	// calls RefusalHeaders, or Problem.
	Fail func(w http.ResponseWriter, r *http.Request, status int, e *fault.Error)
	// Typed serves in place of Serve: the row and function of a route, whose refusals
	// Fail renders and which always runs in the key's own tenant. Row is its row.
	Typed *route.Route
	// Serve answers. It reads its body with ReadBody or DecodeBody, its parameters
	// with Params or r.PathValue, and streams with OpenStream.
	Serve func(w http.ResponseWriter, r *http.Request, who authz.Caller) error
}

// InOwnTenant wraps serve to refuse a call whose X-Active-Tenant names a tenant
// other than the key's: the compatible routes always run in the key's tenant.
func InOwnTenant(
	serve func(http.ResponseWriter, *http.Request, authz.Caller) error,
) func(http.ResponseWriter, *http.Request, authz.Caller) error {
	return func(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
		if err := inOwnTenant(r, who); err != nil {
			return err
		}
		return serve(w, r, who)
	}
}

func inOwnTenant(r *http.Request, who authz.Caller) error {
	if t := r.Header.Get("X-Active-Tenant"); t != "" && t != who.TenantID {
		return fault.New(
			fault.Malformed,
			"",
			"X-Active-Tenant names another company, but this route always runs in the key's own. Remove the header.",
		)
	}
	return nil
}

// typedOperation makes the operation of a route that of a raw one, whose refusals it has.
func typedOperation(o *operation, raw Raw) *operation {
	o.fail = raw.Fail
	serve := o.serve
	o.serve = func(x *exchange, r *http.Request) error {
		if err := inOwnTenant(r, x.who); err != nil {
			return err
		}
		return serve(x, r)
	}
	return o
}

func (s *Server) rawOperation(raw Raw) *operation {
	if raw.Typed != nil {
		return typedOperation(s.routeOperation(*raw.Typed), raw)
	}
	names := pathNames(raw.Path)
	o := &operation{
		row: raw.Row, status: http.StatusOK,
		apiKeyHeader: raw.APIKeyHeader, queryToken: raw.QueryToken, upgrade: raw.Upgrade, lateKey: raw.LateKey, quiet: raw.Quiet, https: s.https,
		streamToken: raw.StreamToken,
		repeatable:  repeatable(raw.Row), fail: raw.Fail, ownPages: raw.OwnPages,
	}
	if raw.In != nil {
		o.params = s.compile(raw.Row, raw.In)
	}
	o.serve = func(x *exchange, r *http.Request) error {
		for i, name := range names {
			r.SetPathValue(name, x.param(i))
		}
		switch key := r.Header[keyHeader]; {
		case key == nil || !o.repeatable:
		case raw.ReplayByRef:
			return s.serveByRef(x, r, raw.Serve)
		default:
			return s.serveRawIdempotent(x, r, o, raw.Serve)
		}
		return raw.Serve(x, r, x.who)
	}
	return o
}
