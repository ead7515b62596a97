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

// routeOperation compiles a row and its function.
func (s *Server) routeOperation(r route.Route) *operation {
	o := &operation{
		row: r.Row, status: cmp.Or(r.Status, http.StatusOK), stream: r.Open != nil,
		queryToken: r.Out == contentType, https: s.https, repeatable: repeatable(r.Row),
	}
	in := s.compile(r.Row, r.In)
	if o.stream {
		o.serve = func(x *exchange, req *http.Request) error { return s.serveStream(x, req, in, r.Open) }
		return o
	}
	answer := func(ctx context.Context, x *exchange, req *http.Request, arg any) error {
		out, err := r.Call(ctx, x.who, arg)
		if err != nil {
			return err
		}
		if content, ok := out.(*route.Content); ok {
			return x.serveContent(req, content)
		}
		return o.reply(x, out)
	}
	o.serve = func(x *exchange, req *http.Request) error {
		if key := req.Header[keyHeader]; key != nil && o.repeatable {
			return s.serveOnce(x, req, o, in, answer)
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
// page, an upgrade. It passes the same chain; its row is published where it
// has an ID.
type Raw struct {
	route.Row

	APIKeyHeader bool // the key may come in x-api-key
	QueryToken   bool // the key may come in ?token=: downloads
	Upgrade      bool // becomes a WebSocket: the key may come in ?token= and as the subprotocol svc.<base64 of the key>
	Quiet        bool // a probe: logged at debug level
	Streams      bool // the answer is always an event stream

	// Attached rows tell their Place, and answer repetitions themselves; see
	// DoneBefore.
	Attached bool
	// In is what Params gives: fields that say where in the path, the query or the
	// headers they come from, as of a row's input; nil: nothing is published of
	// them but the path.
	In reflect.Type
	// Media is what the answer is, where it is bytes: audio/*.
	Media string
	// FailOf is the published schema of what Fail sends.
	FailOf reflect.Type
	// Mixed are the statuses whose refusals may be problem documents all the same.
	Mixed []int
	// Fail renders what Serve or the chain refuses; nil: a problem document. It
	// calls RefusalHeaders, or Problem for refusals that keep the document.
	Fail func(w http.ResponseWriter, r *http.Request, status int, e *fault.Error)
	// Serve answers. It reads its body with ReadBody or DecodeBody, its parameters
	// with Params or r.PathValue, and streams with OpenStream.
	Serve func(w http.ResponseWriter, r *http.Request, who authz.Caller) error
}

// InOwnTenant refuses a call that names another tenant than the key's: the
// compatible routes know no other (interface.md section 4).
func InOwnTenant(serve func(http.ResponseWriter, *http.Request, authz.Caller) error) func(http.ResponseWriter, *http.Request, authz.Caller) error {
	return func(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
		if t := r.Header.Get("X-Active-Tenant"); t != "" && t != who.TenantID {
			return fault.New(fault.Malformed, "", "X-Active-Tenant names another company; these routes run in the key's own. Leave the header out.")
		}
		return serve(w, r, who)
	}
}

func (s *Server) rawOperation(raw Raw) *operation {
	names := pathNames(raw.Path)
	o := &operation{
		row: raw.Row, status: http.StatusOK,
		apiKeyHeader: raw.APIKeyHeader, queryToken: raw.QueryToken, upgrade: raw.Upgrade, quiet: raw.Quiet, https: s.https,
		repeatable: repeatable(raw.Row), fail: raw.Fail,
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
		case raw.Attached:
			return s.serveAttached(x, r, raw.Serve)
		default:
			return s.serveRawOnce(x, r, o, raw.Serve)
		}
		return raw.Serve(x, r, x.who)
	}
	return o
}
