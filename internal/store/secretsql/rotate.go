package secretsql

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

const (
	// batch is how many rows are sealed again in one transaction.
	batch = 200
	// maxPasses is how often Rotate begins again because servers changed rows that it
	// was about to write.
	maxPasses = 3
	// maxBroken is how many rows that cannot be opened are named.
	maxBroken = 20
)

// Count is how many sealed values of a table name a key.
type Count struct {
	Table string       `json:"table"`
	KeyID secret.KeyID `json:"key_id"` // "": they are from before values named their key
	Rows  int          `json:"rows"`
}

// Progress is called by Rotate after each batch, with the rows of a table that it
// has sealed again so far.
type Progress func(table string, resealed int)

// Result is what Rotate did.
type Result struct {
	Resealed int            `json:"resealed"`
	Left     []Count        `json:"left"`    // values that still need another key
	Broken   []string       `json:"broken"`  // rows that no configured key opens
	Retired  []secret.KeyID `json:"retired"` // keys that can be taken away
	Sealing  []Server       `json:"sealing"` // servers that still seal with another key
}

// Done reports whether the first key alone is needed from now on.
func (r *Result) Done() bool { return len(r.Left) == 0 && len(r.Broken) == 0 && len(r.Sealing) == 0 }

// Rotate seals every value again that is not sealed with the first key, in short
// transactions, while servers run. It can be interrupted and called again at any
// time. Keys that no value needs then are retired.
func (k *Keys) Rotate(ctx context.Context, progress Progress) (*Result, error) {
	if err := k.Check(ctx); err != nil {
		return nil, err
	}
	servers, err := k.Servers(ctx)
	if err != nil {
		return nil, err
	}
	first := k.box.KeyIDs()[0]
	r := &Result{Left: []Count{}, Broken: []string{}, Retired: []secret.KeyID{}, Sealing: []Server{}}
	for _, s := range servers {
		if !slices.Contains(s.KeyIDs, first) {
			return nil, fmt.Errorf("the server %s does not have the key %s and could not read what is sealed with it; start it with "+
				"both keys first (a server that was killed is forgotten after %s)", s.Node, first, silence)
		}
		if s.KeyIDs[0] != first {
			r.Sealing = append(r.Sealing, s)
		}
	}
	for range maxPasses {
		missed := 0
		r.Broken = r.Broken[:0]
		for i := range Columns {
			n, err := k.rotateColumn(ctx, &Columns[i], r, progress)
			if err != nil {
				return r, err
			}
			missed += n
		}
		if missed == 0 {
			break
		}
	}
	return r, k.retire(ctx, r)
}

// retire looks at what is left, and forgets the keys that nothing needs.
func (k *Keys) retire(ctx context.Context, r *Result) error {
	counts, err := k.Count(ctx)
	if err != nil {
		return err
	}
	first := k.box.KeyIDs()[0]
	for _, c := range counts {
		if c.KeyID != first {
			r.Left = append(r.Left, c)
		}
	}
	if !r.Done() {
		return nil
	}
	recorded, err := k.recorded(ctx)
	if err != nil {
		return err
	}
	for _, id := range recorded {
		if id == first {
			continue
		}
		if err := k.Forget(ctx, id); err != nil {
			return err
		}
		r.Retired = append(r.Retired, id)
	}
	return nil
}

// rotateColumn seals the values of a column again; missed counts the rows that
// were changed meanwhile.
func (k *Keys) rotateColumn(ctx context.Context, c *Column, r *Result, progress Progress) (missed int, err error) {
	resealed := 0
	for after := []any(nil); ; {
		rows, err := k.page(ctx, c, after, true)
		if err != nil || len(rows) == 0 {
			return missed, err
		}
		changes := make(map[int][]byte, len(rows))
		for i, row := range rows {
			sealed, err := k.reseal(row)
			if err != nil {
				if len(r.Broken) < maxBroken {
					r.Broken = append(r.Broken, row.name()+": "+err.Error())
				}
			} else if sealed != nil {
				changes[i] = sealed
			}
		}
		n, err := k.write(ctx, c, rows, changes)
		if err != nil {
			return missed, err
		}
		missed += len(changes) - n
		r.Resealed += n
		resealed += n
		if n > 0 && progress != nil {
			progress(c.Table, resealed)
		}
		after = rows[len(rows)-1].key()
	}
}

// write replaces values, unless they were changed since they were read. It
// returns how many it replaced.
func (k *Keys) write(ctx context.Context, c *Column, rows []row, changes map[int][]byte) (written int, err error) {
	if len(changes) == 0 {
		return 0, nil
	}
	update := `UPDATE ` + c.Table + ` SET ` + c.Column + ` = ? WHERE ` + strings.Join(c.Key, ` = ? AND `) + ` = ? AND ` + c.Column + ` = ?`
	err = k.db.Write(ctx, func(tx txn.Tx) error {
		written = 0
		for i, row := range rows {
			change, ok := changes[i]
			if !ok {
				continue
			}
			old := row.values[len(row.values)-1]
			var value any = change
			if _, isText := old.(string); isText {
				value = string(change)
			}
			n, err := sqldb.From(tx).Exec(update, slices.Concat([]any{value}, row.key(), []any{old})...)
			if err != nil {
				return err
			}
			written += int(n)
		}
		return nil
	})
	return written, err
}

// page reads the next rows of a column in the order of the primary key; stale
// leaves out those that are sealed with the first key, where SQL can tell.
func (k *Keys) page(ctx context.Context, c *Column, after []any, stale bool) ([]row, error) {
	where, args := []string{`LENGTH(` + c.Column + `) > 0`}, []any{}
	if c.Where != "" {
		where = append(where, c.Where)
	}
	if stale && c.Members == nil {
		where = append(where, `SUBSTR(`+c.Column+fmt.Sprintf(`, 1, %d) <> ?`, len(k.box.Header())))
		args = append(args, k.box.Header())
	}
	key := strings.Join(c.Key, `, `)
	if after != nil {
		where = append(where, `(`+key+`) > `+sqldb.Values(key))
		args = append(args, after...)
	}
	names := c.selected()
	query := fmt.Sprintf(`SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d`,
		strings.Join(names, `, `), c.Table, strings.Join(where, ` AND `), key, batch)
	return sqldb.Collect(k.db.Reader(ctx), query, args, func(r sqldb.Row) (row, error) {
		found := row{of: c, values: make([]any, len(names))}
		into := make([]any, len(names))
		for i := range into {
			into[i] = &found.values[i]
		}
		return found, r.Scan(into...)
	})
}

// value is a sealed value of a row.
type value struct {
	member string // "": the column itself
	text   string // as it stands in the column, where it is a member
	sealed []byte
}

// values returns the sealed values of a row.
func (r row) sealed() ([]value, error) {
	if r.of.Members == nil {
		return []value{{sealed: r.stored()}}, nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(r.stored(), &members, jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, fmt.Errorf("%s is no JSON object", r.of.Column)
	}
	var all []value
	for _, name := range r.of.Members {
		var text string
		if members[name] == nil || json.Unmarshal(members[name], &text) != nil || text == "" {
			continue
		}
		sealed, err := r.of.Encoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%s is not sealed", name)
		}
		all = append(all, value{name, text, sealed})
	}
	return all, nil
}

// reseal returns the new content of a row's column; nil where every value is
// sealed with the first key.
func (k *Keys) reseal(r row) ([]byte, error) {
	values, err := r.sealed()
	if err != nil {
		return nil, err
	}
	var content []byte
	for _, v := range values {
		if bytes.HasPrefix(v.sealed, k.box.Header()) {
			continue
		}
		bound, former := r.context(r.of.Context, v.member), r.context(r.of.Former, v.member)
		if former == "" {
			former = bound
		}
		plain, err := k.box.Open(v.sealed, bound, former)
		if err != nil {
			return nil, err
		}
		sealed := k.box.Seal(plain, bound)
		if v.member == "" {
			return sealed, nil
		}
		if content == nil {
			content = r.stored()
		}
		content = bytes.Replace(content, []byte(`"`+v.text+`"`), []byte(`"`+r.of.Encoding.EncodeToString(sealed)+`"`), 1)
	}
	return content, nil
}

// Count counts the sealed values by table and key.
func (k *Keys) Count(ctx context.Context) ([]Count, error) {
	counts := []Count{}
	for i := range Columns {
		for after := []any(nil); ; {
			rows, err := k.page(ctx, &Columns[i], after, false)
			if err != nil {
				return nil, err
			}
			if len(rows) == 0 {
				break
			}
			for _, row := range rows {
				values, err := row.sealed()
				if err != nil {
					continue // Rotate reports it
				}
				for _, v := range values {
					id, _ := secret.SealedWith(v.sealed)
					counts = add(counts, row.of.Table, id)
				}
			}
			after = rows[len(rows)-1].key()
		}
	}
	return counts, nil
}

func add(counts []Count, table string, id secret.KeyID) []Count {
	i := slices.IndexFunc(counts, func(c Count) bool { return c.Table == table && c.KeyID == id })
	if i < 0 {
		return append(counts, Count{table, id, 1})
	}
	counts[i].Rows++
	return counts
}

// needing counts the values that need a key: those that name it, and those that
// name none.
func (k *Keys) needing(ctx context.Context, id secret.KeyID) ([]Count, error) {
	counts, err := k.Count(ctx)
	return slices.DeleteFunc(counts, func(c Count) bool { return c.KeyID != id && c.KeyID != "" }), err
}
