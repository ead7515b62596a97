// Package route describes operations as rows of data: method, path, who may
// call, what goes in and out, and the typed function that does it. Slices list
// their rows; the HTTP edge mounts them and derives the OpenAPI document. No
// row knows HTTP.
//
// An input type is a struct whose fields say where they come from:
//
//	type cancelIn struct {
//		RunID string `path:"runId"`              // a malformed id never reaches the function: 404
//		Limit string `query:"limit" doc:"…"`     // string | int | bool; see page.Limit
//		Match string `header:"If-Match"`
//		Left  string `cookie:"svc_oauth"`        // never a credential: the middleware reads those
//		Body  T                                  // decoded strictly and checked against T's schema
//	}
//
// A Body of type jsontext.Value receives the raw, syntactically valid JSON; the
// row's BodyOf then names the type whose schema is published. A Body of type
// [Upload] receives a file, in the forms that the row's Uploads lists; one of
// type [Message] receives any bytes, up to the row's MaxBytes.
//
// A function that returns a [*Content] answers with bytes: its route is a
// download, and accepts the key in the query.
package route

import (
	"context"
	"io"
	"iter"
	"reflect"
	"time"

	"agentd/internal/base/authz"
)

// Row describes an operation.
type Row struct {
	Method  string
	Path    string // chi pattern: /api/v1/runs/{runId}
	ID      string // OpenAPI operation id: cancelRun
	Tag     string // area, as in the reference contract: Runs
	Summary string // one line
	Doc     string // more, if there is more to say

	Public bool          // no key needed
	Scopes []authz.Scope // any one of them; empty: any key
	And    []authz.Scope // and every one of these
	Role   authz.Role    // least role; empty: any
	// HalfOpen rows also serve a browser session that has not passed its second
	// factor yet.
	HalfOpen bool
	// Fresh rows are dangerous: the browser session of a person with a second
	// factor must have verified it lately.
	Fresh bool
	// Destroys rows delete what a legal hold keeps: 423 while the caller's company is
	// under one.
	Destroys bool
	// Person rows concern the caller's person beyond the company of the
	// credential: of keys, only one with the scope * may call them.
	Person bool
	// Operator rows are only for members of the first tenant, which runs the
	// platform.
	Operator bool

	// CrossOrigin rows are called by pages of other origins too: their function says
	// whose by AllowOrigin, and refuses the others.
	CrossOrigin bool

	// SignIn rows sign a person in: their refusals are in the audit log.
	SignIn bool
	// Refused is the action of the entry that a 401, 403 or 404 of a Public row leaves
	// in the audit log, such as sensor.call_refused, where a link or a signature takes
	// the place of a credential.
	Refused string
	// Reads is the action of the entry that a success leaves in the audit log, such
	// as file.downloaded, where an operation hands out data as a whole. The entry's
	// target is the first parameter of the path.
	Reads string

	Status   int          // of success; 0 means 200
	Also     []int        // further success statuses
	Errors   []int        // refusals beyond those that every such row can answer
	BodyOf   reflect.Type // published body schema, where Body is raw
	Partial  bool         // the published body has no required fields (merges)
	Optional bool         // the body may be absent
	Example  string       // a body that succeeds, as JSON: published, and sent by the tests that walk all operations
	Outside  bool         // works outside of the database before it writes to it; see docs/idempotency.md
	Repeats  bool         // takes an Idempotency-Key, as every write under /api/v1/ does
	AnswerOf reflect.Type // published answer schema, where the answer is a Reply
	AlsoOf   reflect.Type // published schema of the Also answers, where it is another
	Nullable bool         // the answer may be null
	// Conditional rows have an ETag: a read answers 304 to an If-None-Match that names
	// it; a write on the same path takes an If-Match, and calls [Match].
	Conditional bool
	Uploads     []string // of an Upload: Form, JSON and Bytes, those that it may come as
	MaxBytes    int64    // of a Message: how long it may be

	Events *Events // published messages of an event stream
	Sends  *Events // published webhooks that the operation subscribes to

	Limits []Limit // beyond those that the operator sets for every operation; a request needs room in each

	// Hidden rows are served and not published: another path of a published row.
	Hidden bool

	Deprecated string // X-API-Deprecation-Info, where the route is deprecated
	Successor  string // Link rel=successor-version
}

// Limit is how often an operation may be called within a time: by one client
// address where the row is Public (an IPv6 network of 64 bits counts as one),
// otherwise with one credential. All of it may be used in a burst; used calls
// come back evenly over Per. It protects secrets that can be guessed and
// resources that others pay for, so it also holds where the operator switched
// rate limits off.
type Limit struct {
	N   int // at least 1
	Per time.Duration
}

// Route is a row with its function. Exactly one of Call and Open is set.
type Route struct {
	Row
	In, Out reflect.Type
	// Call receives a *In. Its result is sent as JSON with Row.Status, or as
	// the *Reply describes.
	Call func(ctx context.Context, who authz.Caller, in any) (any, error)
	// Open receives a *In and returns the frames of an event stream. An error of
	// Open itself is a refusal; an error after it just ends the stream. It holds
	// no resources until the first frame is read: a HEAD request reads none.
	Open func(ctx context.Context, who authz.Caller, in any) (iter.Seq2[Frame, error], error)
	// Off, if set, refuses every request that may be sent, whatever its input is: what
	// the route is of is switched off.
	Off error
}

// Action lists a typed function as a route.
func Action[In, Out any](row Row, do func(context.Context, authz.Caller, *In) (Out, error)) Route {
	return Route{
		Row: row, In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out](),
		Call: func(ctx context.Context, who authz.Caller, in any) (any, error) { return do(ctx, who, in.(*In)) },
	}
}

// Stream lists an event stream as a route.
func Stream[In any](row Row, open func(context.Context, authz.Caller, *In) (iter.Seq2[Frame, error], error)) Route {
	return Route{
		Row: row, In: reflect.TypeFor[In](),
		Open: func(ctx context.Context, who authz.Caller, in any) (iter.Seq2[Frame, error], error) {
			return open(ctx, who, in.(*In))
		},
	}
}

// Instead is an error of [Route.Open]: there is nothing to follow. The answer is the
// row's status with Value as JSON, which the row's AnswerOf describes.
type Instead struct{ Value any }

// Error implements error.
func (Instead) Error() string { return "route: there is nothing to follow" }

// Reply is an answer that differs from "the row's status and a JSON body".
type Reply struct {
	Status int    // 0: the row's
	ETag   string // without quotes; empty: none
	JSON   []byte // rendered already; nil: no body
	Media  string // what the body is, where it is not JSON: text/markdown

	// Pieces is the body in place of JSON, sent as it comes. An error before the first
	// piece is a refusal; a later one cuts the answer off.
	Pieces iter.Seq2[[]byte, error]

	Location string  // where a redirect leads
	Cookie   *Cookie // to be set in the browser
}

// Lines is an answer of lines of JSON (application/x-ndjson), which are sent as
// they come. An error before the first line is a refusal; a later one cuts the
// answer off.
type Lines iter.Seq2[[]byte, error]

// ShownOnce is an answer with a secret that no later answer shows, a repetition of
// the request included.
type ShownOnce interface {
	// WithoutSecret returns the answer as a repetition shows it, with its
	// Repetition set.
	WithoutSecret() any
}

// Repetition is a part of the answers that are ShownOnce.
type Repetition struct {
	SecretShownOnce bool `json:"secret_shown_once,omitzero" doc:"In answers to a repeated Idempotency-Key: the first answer showed the secret."`
}

// Repeated is the Repetition of an answer without its secret.
var Repeated = Repetition{SecretShownOnce: true}

// Cookie is a credential that a browser keeps. The edge makes it unreadable for
// scripts and, where the service is reached over TLS, secure.
type Cookie struct {
	Name   string
	Value  string        // "" with Lasts 0: it is taken away
	Lasts  time.Duration // from now
	Strict bool          // SameSite=Strict in place of Lax
	Host   bool          // under https, with the prefix __Host-: no other host of the domain can set it
}

// The forms of an Upload: a form whose field "file" is the file, JSON (which
// the row's BodyOf describes), or the bytes themselves, of any type that the
// request names.
const (
	Form  = "multipart/form-data"
	JSON  = "application/json"
	Bytes = "application/octet-stream"
)

// Upload is a file on its way in. It lasts as long as the call.
type Upload struct {
	Name string // as the client sent it; "" if it sent none
	Type string // as the client sent it; "" if it sent none
	Size int64  // -1 if it is not known before the end
	// Content can be read once. Its errors are refusals: the body is cut off,
	// late or larger than an upload may be. Nil if JSON was sent.
	Content io.Reader
	JSON    []byte // valid JSON; nil if a file was sent
}

// Message is a body of any media type, as the bytes that were sent: for signed
// messages, and for formats that others define. It may be empty, and come
// without a length. It lasts as long as the call.
type Message struct {
	Header map[string][]string // of the request, by canonical names; not to be changed
	Data   []byte              // up to the row's MaxBytes
}

// Content is an answer of bytes, which is closed after it is sent. The edge
// handles ranges and conditional requests.
type Content struct {
	Name   string // for whoever saves it
	Type   string // media type
	Inline bool   // a browser may show it in place of saving it
	ETag   string // without quotes
	Time   time.Time
	Size   int64
	Body   io.ReadSeekCloser
}
