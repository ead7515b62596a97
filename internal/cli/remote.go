package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/base/text"
	"agentd/internal/client"
)

// remote is what every command has that calls a server.
type remote struct {
	Server config.Client `embed:"" group:"Server"`
	JSON   bool          `help:"Print JSON, for scripts."`
}

// server is the server that a command calls, with where and how to print.
type server struct {
	*invocation
	*client.Client
	json  bool
	names map[string]string // of agents, by id
}

// ProvideServer makes the argument of the Run method of these commands.
func (r remote) ProvideServer(inv *invocation) (*server, error) {
	if r.Server.Key.Empty() {
		return nil, fmt.Errorf("no key is given; set AGENTD_KEY to the one that the server printed on its first start, or use --key\n"+
			"A lost one is replaced on the server's machine:  %s admin key create --role owner --scopes '*' --name NAME", inv.deps.Program)
	}
	c, err := client.New(r.Server.URL, r.Server.Key, client.InTenant(r.Server.Tenant))
	if err != nil {
		return nil, fmt.Errorf("AGENTD_URL (--url) %q is no address of a server: %w", r.Server.URL, err)
	}
	return &server{invocation: inv, Client: c, json: r.JSON}, nil
}

// call sends a request and reads its answer in both forms.
func call[T any](s *server, method, path string, body any) (client.Doc[T], error) {
	var doc client.Doc[T]
	err := s.Do(s, method, path, body, &doc)
	return doc, err
}

// get reads what a path answers.
func get[T any](s *server, path string) (client.Doc[T], error) {
	return call[T](s, http.MethodGet, path, nil)
}

// send sends a request whose answer is printed with --json, and otherwise said
// in a sentence.
func (s *server) send(method, path string, body any, format string, args ...any) error {
	var answer jsontext.Value
	if err := s.Do(s, method, path, body, &answer); err != nil {
		return err
	}
	if s.json && len(answer) > 0 {
		return s.printJSON(answer)
	}
	s.say(format, args...)
	return nil
}

// listing is what every command has that prints a list.
type listing struct {
	remote
	Limit int `default:"50" placeholder:"N" help:"How many to list; 0: all."`
}

// Validate implements a hook of kong.
func (l *listing) Validate() error {
	if l.Limit < 0 {
		return fmt.Errorf("--limit is %d and must be 0 (all) or more", l.Limit)
	}
	return nil
}

// list describes a list of the API and how it is printed for a person.
type list[T any] struct {
	path    string
	query   url.Values
	limit   int
	empty   string // what to say where there is nothing
	heading []string
	row     func(T) []string
}

// show prints the list: as {items, has_more} with --json, otherwise as a table.
func (l list[T]) show(s *server) error {
	docs, more, err := l.read(s)
	if err != nil {
		return err
	}
	if s.json {
		raw := make([]jsontext.Value, len(docs))
		for i, d := range docs {
			raw[i] = d.Raw
		}
		return s.printAny(items[jsontext.Value]{raw, more})
	}
	if len(docs) == 0 {
		s.note("%s", l.empty)
		return nil
	}
	rows := make([][]string, len(docs))
	for i, d := range docs {
		rows[i] = l.row(d.Value)
	}
	if err := s.table(l.heading, rows); err != nil {
		return err
	}
	if more {
		s.note("There are more; --limit 0 lists all.")
	}
	return nil
}

// read reads the list up to its limit, and reports whether there is more.
func (l list[T]) read(s *server) (docs []client.Doc[T], more bool, err error) {
	most := l.limit
	if most > 0 {
		most++ // one more, to know whether there is one
	}
	for doc, err := range client.List[T](s, s.Client, l.path, l.query, most) {
		switch {
		case err != nil:
			return nil, false, err
		case l.limit > 0 && len(docs) == l.limit:
			return docs, true, nil
		}
		docs = append(docs, doc)
	}
	return docs, false, nil
}

// query makes the query of a list; what is empty is left out.
func query(pairs ...string) url.Values {
	q := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if name, value := pair[0], pair[1]; value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// meant proposes the name that was probably meant, as the end of a refusal.
func meant(name string, names []string) string {
	if near := text.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// lookup finds resources of a kind, which commands take by an id or an exact name.
type lookup[T any] struct {
	path string // of their list in the API
	noun string // what one is called
	list string // the command that lists them
	key  func(T) (id, name string)
}

// find returns the path in the API of the resource with an id or a name, or of what is
// below it.
func (l lookup[T]) find(s *server, idOrName string, below ...string) (string, error) {
	if ident.Valid(idOrName) {
		return client.Path(l.path, append([]string{idOrName}, below...)...), nil
	}
	var ids, names []string
	for doc, err := range client.List[T](s, s.Client, l.path, nil, 0) {
		if err != nil {
			return "", err
		}
		id, name := l.key(doc.Value)
		names = append(names, name)
		if name == idOrName {
			ids = append(ids, id)
		}
	}
	switch len(ids) {
	case 1:
		return client.Path(l.path, append(ids, below...)...), nil
	case 0:
		return "", fmt.Errorf("there is no %s with the name %q%s\nThey are listed by:  %s %s",
			l.noun, idOrName, meant(idOrName, names), s.deps.Program, l.list)
	}
	return "", fmt.Errorf("%d %ss have the name %q; say which by its id:\n  %s", len(ids), l.noun, idOrName, strings.Join(ids, "\n  "))
}
