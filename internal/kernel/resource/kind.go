package resource

import (
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/egress"
)

// Kind is one kind of resource, as data. T is a struct that embeds [Meta]; its
// other fields are what clients see, with the tags of package schema, and
//
//	readOnly:"true"   set by the server; ignored if a client sends it
//	immutable:"true"  settable at creation; ignored if it is sent later
//	merge:"1"         an update merges this object's members, one level deep;
//	                  other fields are replaced as a whole
//	secret:"true"     a string that is sealed at rest and answered as
//	                  [redacted]; it keeps its value if that is sent back, or
//	                  if a replacement leaves it out
//	long:"true"       empty in a list with fields=summary
//
// In an update null sets a field back to its default.
type Kind[T any] struct {
	Name    string   // in sentences, storage and changes: "agent"
	Names   string   // its plural; default Name + "s"
	Noun    string   // in operation ids and schema names; default: Name in camel case
	Path    string   // of the collection: "/api/v1/agents"
	Param   string   // path parameter of the id; default: Name in camel case + "Id"
	Tag     string   // area of the OpenAPI document
	IDField string   // the id's name on the wire; default Name + "_id"
	Keys    []string // deprecated names under which a list repeats its items
	Example string   // the body of a creation, as JSON: published, and what the tests that walk all operations create

	Readers, Writers Access
	Omit             []Op // operations that the kind does not have
	Put              PutMode

	PageSize, MaxPageSize int // default and maximum of a list's limit; default 20 and 100

	Indexes []Index[T] // at most Slots
	Filters []string   // indexes that are query parameters of the list
	Unique  Index[T]   // within the tenant; the zero Index: no unique value

	// Counted has the resources counted by state: a list without filters, or filtered
	// by the index "status" alone, then says how many there are. Creations and
	// deletions of one company wait for each other, so it is not for hot kinds.
	Counted bool

	Default  func(*T)               // sets what a new resource has unless its creator sets it
	Validate func(*T) []fault.Field // every invalid field; without side effects
	Label    func(*T) string        // the name that changes and audit entries carry beside the id, and that the list's q finds

	Events []EventType // webhook events of the kind's writes

	// Include is what a list adds to its resources on request; the zero Include: nothing.
	Include Include

	// Addresses lists the URLs that the program calls for the resource. Deps.Egress
	// checks those that a body brings; it does not see an unchanged one again.
	Addresses func(*T) []egress.Address

	State func(*T) *string // the field that Moves change
	Moves []Move[T]

	Before      func(*Edit[T]) error // creation, update, move: may refuse, or adjust Edit.New
	CheckDelete func(*Edit[T]) error // deletion: may refuse
	After       func(*Edit[T]) error // every write, the deletion too (New is nil)
}

// Access states who may do something: a key with any one of the scopes (any key
// if Scopes is empty), whose owner has at least the role (any if Role is zero).
type Access struct {
	Scopes []authz.Scope
	Role   authz.Role
}

// Op is one of the operations that a kind has unless it omits them.
type Op string

// The operations.
const (
	OpCreate Op = "create"
	OpList   Op = "list"
	OpGet    Op = "get"
	OpPatch  Op = "patch"
	OpDelete Op = "delete"
)

// PutMode selects what PUT does.
type PutMode int

// The modes.
const (
	NoPut      PutMode = iota // PUT is not an operation of the kind
	PutMerges                 // the same as PATCH
	PutReplace                // fields that are not sent go back to their defaults
)

// Index finds resources by a value. Lists filter by equal values; a resource
// whose value is "" is in no index.
type Index[T any] struct {
	Name string
	Doc  string // one line, where the index is a filter
	Of   func(*T) string
}

// Edit is a write in progress.
type Edit[T any] struct {
	Tx     txn.Tx
	Who    authz.Caller
	Action string // Created | Updated | Deleted | the action of a move
	Old    *T     // nil at creation; read-only
	New    *T     // nil at deletion
}

// Move is a change of state: POST …/{id}/{action}. In a state that is not in From
// it is answered with a 409 that names the state.
type Move[T any] struct {
	Action  string
	Summary string
	From    []string
	To      string
	With    With[T] // what else the move does; optional
}

// With is what a move reads from its body, and what it does with that. See
// [Doing].
type With[T any] struct {
	body reflect.Type
	do   func(*Edit[T], jsontext.Value) error
}

// Doing returns a With that calls a typed function. The body is optional;
// without one In has the values of its default tags.
func Doing[T, In any](do func(*Edit[T], *In) error) With[T] {
	return With[T]{
		body: reflect.TypeFor[In](),
		do: func(e *Edit[T], body jsontext.Value) error {
			if len(body) == 0 {
				body = jsontext.Value("{}")
			}
			in, err := schema.Decode[In](body)
			if err != nil {
				return err
			}
			return do(e, in)
		},
	}
}

func (k *Kind[T]) has(op Op) bool { return !slices.Contains(k.Omit, op) }
