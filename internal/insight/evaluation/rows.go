package evaluation

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
)

// The formats of files of cases.
const (
	jsonLines = "jsonl"
	commas    = "csv"
)

// rows are the cases of a file, and what is wrong with those rows that are none.
type rows struct {
	cases []Case
	bad   map[string][]int // the numbers of the lines, by what is wrong with them
}

func (r *rows) refuse(line int, format string, args ...any) {
	if r.bad == nil {
		r.bad = map[string][]int{}
	}
	why := fmt.Sprintf(format, args...)
	r.bad[why] = append(r.bad[why], line)
}

// fields returns what is wrong with the rows, where each bad row is named once.
func (r *rows) fields() (wrong []fault.Field) {
	for _, why := range slices.SortedFunc(maps.Keys(r.bad), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.bad[a][0], r.bad[b][0]), cmp.Compare(a, b))
	}) {
		wrong = append(wrong, fault.Field{Field: lineRanges(r.bad[why]), Message: why})
	}
	return wrong
}

// lineRanges returns increasing numbers as "line 3" or "lines 3, 7-9".
func lineRanges(lines []int) string {
	var b strings.Builder
	b.WriteString("line ")
	if len(lines) > 1 {
		b.Reset()
		b.WriteString("lines ")
	}
	for i := 0; i < len(lines); {
		last := i
		for last+1 < len(lines) && lines[last+1] == lines[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", lines[i])
		if last > i {
			fmt.Fprintf(&b, "-%d", lines[last])
		}
		i = last + 1
	}
	return b.String()
}

// skipped returns what is wrong with the rows as sentences.
func (r *rows) skipped() (all []string) {
	for _, f := range r.fields() {
		all = append(all, f.Field+": "+f.Message)
	}
	return all
}

// add takes a row.
func (r *rows) add(line int, in *caseIn) error {
	c, err := in.caseOf()
	switch {
	case err != nil:
		r.refuse(line, "%s", err)
	case len(c.Tags) > maxTags || slices.ContainsFunc(c.Tags, func(t string) bool { return len(t) > maxTagBytes }):
		r.refuse(line, "it has more than %d tags, or one of more than %d bytes", maxTags, maxTagBytes)
	case len(r.cases) == maxCases:
		return fault.BadFields(fault.Field{Field: "file",
			Message: fmt.Sprintf("it has more than %d cases; divide it into several datasets", maxCases)})
	default:
		r.cases = append(r.cases, c)
	}
	return nil
}

// readRows reads a file of cases. Errors: fault.Invalid for a file that is none; those of
// the reader. What is wrong with single rows is in rows.
func readRows(from io.Reader, format string) (*rows, error) {
	in := bufio.NewReaderSize(from, 64<<10)
	if mark, err := in.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
		if _, err := in.Discard(3); err != nil {
			return nil, err
		}
	}
	if format == "" {
		format = commas
		if first, err := in.Peek(1); err == nil && first[0] == '{' {
			format = jsonLines
		}
	}
	r := &rows{}
	var err error
	if format == jsonLines {
		err = r.readLines(in)
	} else {
		err = r.readTable(in)
	}
	if err == nil && len(r.cases) == 0 && r.bad == nil {
		err = fault.BadFields(fault.Field{Field: "file", Message: "it has no cases"})
	}
	return r, err
}

// readLines reads a file with a JSON object on each line.
func (r *rows) readLines(in *bufio.Reader) error {
	for line := 1; ; line++ {
		text, long, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		text = bytes.TrimSpace(text)
		switch {
		case long:
			r.refuse(line, "the case is larger than %d KiB", maxCaseBytes>>10)
		case len(text) > 0:
			c, wrong := schema.Decode[caseIn](text)
			if wrong != nil {
				r.refuse(line, "%s", rowProblem(wrong))
			} else if err := r.add(line, c); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// readLine returns the next line. One that is too long for a case is read to its end, and
// not returned. The error io.EOF comes with the last line.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxCaseBytes+1024; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// rowProblem returns the first thing that is wrong with a row, as a sentence.
func rowProblem(err error) string {
	f := fault.From(err)
	if f == nil {
		return "it cannot be read"
	}
	if len(f.Fields) == 0 {
		return strings.TrimSuffix(f.Detail, ".")
	}
	return strings.TrimSpace(f.Fields[0].Field + ": " + f.Fields[0].Message)
}

// columns of tables of cases that are not metadata.
const (
	columnInput    = "input"
	columnMessage  = "message"
	columnExpected = "expected_output"
	columnCalls    = "expected_tool_calls"
	columnTags     = "tags"
	columnMetadata = "metadata"
)

// readTable reads comma-separated values, whose first row names the columns.
func (r *rows) readTable(in io.Reader) error {
	table := csv.NewReader(in)
	table.ReuseRecord = true
	head, err := table.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return tableProblem(err)
	}
	names := make([]string, len(head))
	for i, name := range head {
		if names[i] = strings.ToLower(strings.TrimSpace(name)); names[i] == "expected" {
			names[i] = columnExpected
		}
	}
	if !slices.Contains(names, columnInput) && !slices.Contains(names, columnMessage) {
		return fault.BadFields(fault.Field{Field: "file",
			Message: "its first row names no column input or message; name the columns there, such as input,expected_output,tags"})
	}
	for {
		cells, err := table.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			why := "its quotes do not match"
			if errors.Is(bad.Err, csv.ErrFieldCount) {
				why = fmt.Sprintf("it does not have as many cells as the first row, which has %d", len(head))
			}
			r.refuse(bad.StartLine, "%s", why)
			continue
		}
		if err != nil {
			return err
		}
		line, _ := table.FieldPos(0)
		c, why := caseOfCells(names, cells)
		if why != "" {
			r.refuse(line, "%s", why)
		} else if err := r.add(line, c); err != nil {
			return err
		}
	}
}

// tableProblem returns the error of a first row that cannot be read.
func tableProblem(err error) error {
	if _, ok := errors.AsType[*csv.ParseError](err); ok {
		return fault.BadFields(fault.Field{Field: "file", Message: "its first row is not comma-separated values"})
	}
	return err
}

// tableRow is the case of a row of a table while its cells are read.
type tableRow struct {
	caseIn

	metadata map[string]jsontext.Value
}

// cellReaders read the cells of the columns that have a meaning, and return what is wrong
// with a cell, or "".
var cellReaders = map[string]func(r *tableRow, cell string) (wrong string){
	columnInput: func(r *tableRow, cell string) string {
		r.Input = schema.Any(jsonOrText(cell, "{"))
		return ""
	},
	columnMessage: func(r *tableRow, cell string) string {
		r.Input = schema.Any(jsonOrText(cell, ""))
		return ""
	},
	columnExpected: func(r *tableRow, cell string) string {
		if cell != "" {
			r.ExpectedOutput = schema.Any(jsonOrText(cell, "{["))
		}
		return ""
	},
	columnCalls:    (*tableRow).readCalls,
	columnTags:     (*tableRow).readTags,
	columnMetadata: (*tableRow).readMetadata,
}

func (r *tableRow) readCalls(cell string) (wrong string) {
	if cell == "" {
		return ""
	}
	if err := json.Unmarshal([]byte(cell), &r.ExpectedToolCalls); err != nil {
		return columnCalls + ` is not JSON such as [{"name":"calculator"}]`
	}
	if slices.ContainsFunc(r.ExpectedToolCalls, func(e ExpectedCall) bool { return e.Name == "" }) {
		return columnCalls + " has a call without a name"
	}
	return ""
}

func (r *tableRow) readTags(cell string) (wrong string) {
	for tag := range strings.FieldsFuncSeq(cell, func(l rune) bool { return l == ';' || l == '|' }) {
		if tag = strings.TrimSpace(tag); tag != "" {
			r.Tags = append(r.Tags, tag)
		}
	}
	return ""
}

func (r *tableRow) readMetadata(cell string) (wrong string) {
	if cell == "" {
		return ""
	}
	members, err := schema.Members(jsontext.Value(cell))
	if err != nil {
		return columnMetadata + " is not a JSON object"
	}
	for _, m := range members {
		r.metadata[m.Name] = m.Value
	}
	return ""
}

// caseOfCells returns the case of a row of a table, or what is wrong with the row. Columns
// without a meaning are metadata.
func caseOfCells(names, values []string) (*caseIn, string) {
	r := &tableRow{metadata: map[string]jsontext.Value{}}
	for i, cell := range values {
		name := names[i]
		if !utf8.ValidString(cell) {
			return nil, name + " is not UTF-8"
		}
		if read := cellReaders[name]; read != nil {
			if wrong := read(r, cell); wrong != "" {
				return nil, wrong
			}
		} else if cell != "" && name != "" {
			r.metadata[strings.TrimPrefix(name, columnMetadata+".")] = jsonOrText(cell, "")
		}
	}
	if len(r.Input) == 0 || string(r.Input) == `""` {
		return nil, "input is blank"
	}
	if len(r.metadata) > 0 {
		enc, err := json.Marshal(r.metadata, json.Deterministic(true))
		if err != nil {
			return nil, columnMetadata + " cannot be kept"
		}
		r.Metadata = enc
	}
	return &r.caseIn, ""
}

// jsonOrText returns a cell as JSON: itself if it begins with one of the bytes and is
// JSON, and otherwise a text.
func jsonOrText(cell, first string) jsontext.Value {
	if cell != "" && strings.IndexByte(first, cell[0]) >= 0 {
		if v := jsontext.Value(cell); schema.Syntax(v) == nil {
			return v
		}
	}
	text, err := jsontext.AppendQuote(nil, cell)
	if err != nil { // checked by the caller
		return jsontext.Value(`""`)
	}
	return text
}
