package sqldb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/page"
	"agentd/internal/base/txn"
)

// Labels finds rows by members of their metadata, a JSON object: texts, numbers
// and booleans. They are kept in a table of their own: tenant_id, name, value,
// created_at and the id of the row, which are its key in this order.
//
// A row has at most maxLabels labels, those with the first names in order. Names
// are at most maxLabelName bytes long; a value of more than maxLabelValue bytes
// is kept as a hash.
type Labels struct {
	Table string // of the labels
	ID    string // the column with the id of the row
}

const (
	maxLabels     = 64
	maxLabelName  = 256
	maxLabelValue = 200
)

// Insert stores the labels of a new row.
func (l Labels) Insert(tenant, id string, at time.Time, metadata []byte) txn.Op {
	labels := labelsOf(metadata)
	return func(tx txn.Tx) error {
		if len(labels) == 0 {
			return nil
		}
		var args []any
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			args = append(args, tenant, name, labels[name], Micros(at), id)
		}
		return From(tx).Queue(`INSERT INTO `+l.Table+` (tenant_id, name, value, created_at, `+l.ID+`) VALUES (?, ?, ?, ?, ?)`+
			strings.Repeat(`, (?, ?, ?, ?, ?)`, len(labels)-1), args...)
	}
}

// Replace stores the labels of a row whose metadata may have changed.
func (l Labels) Replace(tx txn.Tx, tenant, id string, at time.Time, metadata []byte) error {
	if err := From(tx).Queue(`DELETE FROM `+l.Table+` WHERE tenant_id = ? AND `+l.ID+` = ?`, tenant, id); err != nil {
		return err
	}
	return l.Insert(tenant, id, at, metadata)(tx)
}

// labelsOf returns the members of an object by which a row is found.
func labelsOf(metadata []byte) map[string]string {
	if len(metadata) <= len(`{}`) {
		return nil
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(metadata, &members, jsontext.AllowDuplicateNames(true)) != nil {
		return nil
	}
	labels := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := members[name]
		if name == "" || len(name) > maxLabelName || strings.Contains(name, "\x00") || len(labels) == maxLabels {
			continue
		}
		switch value.Kind() {
		case '"':
			unquoted, err := jsontext.AppendUnquote(nil, value)
			if err != nil {
				continue
			}
			labels[name] = labelValue(string(unquoted))
		case '0', 't', 'f':
			labels[name] = labelValue(string(value))
		}
	}
	return labels
}

// labelValue returns how a value is stored. PostgreSQL stores no zero characters.
func labelValue(text string) string {
	if len(text) <= maxLabelValue && !strings.Contains(text, "\x00") {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// SelectBy returns what follows "SELECT … FROM" for one page of a list by
// "created_at, id", narrowed to the rows with some labels. It walks the rows of the
// label that the fewest have; where these are many, and another filter has an index,
// that index. The other labels are looked up row by row: as EXISTS, PostgreSQL would
// join all rows with all labels to show the first few.
func (all Filters[F]) SelectBy(ctx context.Context, db *DB, l Labels, labels map[string]string, table, tenant string, f *F,
	w page.Window) (string, []any, error) {
	names := slices.Sorted(maps.Keys(labels))
	indexed := all.indexed(f)
	if len(names) > 1 || len(names) == 1 && indexed {
		counts, err := l.count(ctx, db, tenant, names, labels)
		if err != nil {
			return "", nil, err
		}
		least := slices.Min(counts)
		if least < fewRows || !indexed {
			rarest := slices.Index(counts, least)
			names[0], names[rarest] = names[rarest], names[0]
			indexed = false
		}
	}
	if len(names) > 0 && !indexed {
		from, args := all.selectLabelled(l, names, labels, table, tenant, f, w)
		return from, args, nil
	}
	var also strings.Builder
	var values []any
	for _, name := range names {
		also.WriteString(` AND (SELECT 1 FROM ` + l.Table + ` AS label WHERE label.tenant_id = ? AND label.name = ? AND label.value = ?
			AND label.created_at = ` + table + `.created_at AND label.` + l.ID + ` = ` + table + `.` + l.ID + `) = 1`)
		values = append(values, tenant, name, labelValue(labels[name]))
	}
	where, args := all.selectAlso(also.String(), values, table, tenant, f, `created_at, `+l.ID, w)
	return table + where, args, nil
}

// fewRows is up to where the rows with a label are counted.
const fewRows = 1000

// count returns how many rows have each label, at most fewRows.
func (l Labels) count(ctx context.Context, db *DB, tenant string, names []string, labels map[string]string) ([]int, error) {
	var args, into []any
	counts := make([]int, len(names))
	for i, name := range names {
		args = append(args, tenant, name, labelValue(labels[name]), fewRows)
		into = append(into, &counts[i])
	}
	count := `, (SELECT COUNT(*) FROM (SELECT 1 FROM ` + l.Table + ` WHERE tenant_id = ? AND name = ? AND value = ? LIMIT ?) AS few)`
	return counts, db.QueryRow(ctx, `SELECT `+strings.Repeat(count, len(names))[1:], args...).Scan(into...)
}

// selectLabelled is [Filters.Select] for the rows with some labels, at least one. The
// list walks the labels of the first name, which are in its order too.
func (all Filters[F]) selectLabelled(l Labels, names []string, labels map[string]string, table, tenant string, f *F,
	w page.Window) (string, []any) {
	var text strings.Builder
	text.WriteString(`(SELECT created_at AS label_at, ` + l.ID + ` AS label_id FROM ` + l.Table + `
		WHERE tenant_id = ? AND name = ? AND value = ?) AS label
		CROSS JOIN ` + table + ` WHERE tenant_id = ? AND ` + l.ID + ` = label_id`)
	args := []any{tenant, names[0], labelValue(labels[names[0]]), tenant}
	for _, name := range names[1:] {
		text.WriteString(` AND (SELECT 1 FROM ` + l.Table + ` AS other WHERE other.tenant_id = ? AND other.name = ? AND other.value = ?
			AND other.created_at = label_at AND other.` + l.ID + ` = label_id) = 1`)
		args = append(args, tenant, name, labelValue(labels[name]))
	}
	and, args := all.conditions(f, args, nil, 0)
	after, order, position := window(`label_at, label_id`, w)
	text.WriteString(strings.ReplaceAll(and, ` created_at `, ` label_at `) + after + order)
	return text.String(), append(append(args, position...), w.Limit)
}
