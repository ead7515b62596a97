// Package personal is how packages of tables declare what they keep of people: a row of
// data for each table in which a person stands. The access to and the erasure of a
// person's data (package privacy) are made of these rows. A test fails where a column
// that can name a person is in none of them.
package personal

// Owner is how the rows of a person are found.
type Owner string

// The owners.
const (
	// Member: a column has the id of the member.
	Member Owner = "member"
	// Email: a column has the member's address.
	Email Owner = "email"
	// Run and Session: a column has the id of a run or a session of the person.
	Run     Owner = "run"
	Session Owner = "session"
	// Part: the rows are parts of rows of another table of the person's, Table.Of.
	Part Owner = "part"
	// Nobody: rows are not looked up for a person. Table.Why says why not.
	Nobody Owner = ""
)

// Erasure is what becomes of rows when a person's data is erased.
type Erasure int

// The erasures.
const (
	Kept      Erasure = iota // Table.Why says why
	Deleted                  // at once
	WhenEnded                // as Deleted, once the row's column completed_at is set
)

// Table is what a table keeps of a person.
type Table struct {
	Name string
	// People are the columns that can name a person, or that say something about one.
	People []string

	By     Owner
	Of     string // of parts: the table that they are parts of
	Column string // that has the owner's id
	Where  string // a further condition, such as that of a partial index, without values; "": none

	// Key is the column of the row's id, where there are parts of it.
	Key string
	// Shown are the columns of an export; nil: Why says why they are not in it.
	Shown []string
	// Order are columns in whose order an index has the owner's rows; nil: there are few.
	Order []string

	Erased Erasure
	Why    string
}

// Exports reports whether the rows of a person are in an export.
func (t *Table) Exports() bool { return t.By != Nobody && t.Shown != nil }
