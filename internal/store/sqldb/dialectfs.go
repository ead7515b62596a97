package sqldb

import (
	"bytes"
	"io/fs"
	"regexp"
	"strings"
)

// dialectFS has the migrations in the dialect of one engine; see [DB.Migrate].
type dialectFS struct {
	fs.FS
	postgres bool
}

var (
	sqliteOnly = regexp.MustCompile(`\s+WITHOUT ROWID`)
	textType   = regexp.MustCompile(`\bTEXT\b`)
	bytesType  = regexp.MustCompile(`\bBYTEA\b`)
	onlyOne    = regexp.MustCompile(`(?s)-- \+only (sqlite|postgres)\n(.*?)-- \+end\n`)
)

// Open implements fs.FS.
func (d dialectFS) Open(name string) (fs.File, error) {
	f, err := d.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".sql") {
		return f, err
	}
	text, err := fs.ReadFile(d.FS, name)
	if err != nil {
		f.Close()
		return nil, err
	}
	return sqlFile{f, bytes.NewReader(d.translate(text))}, nil
}

func (d dialectFS) translate(text []byte) []byte {
	other := "sqlite"
	if !d.postgres {
		other = "postgres"
	}
	text = onlyOne.ReplaceAllFunc(text, func(block []byte) []byte {
		if match := onlyOne.FindSubmatch(block); string(match[1]) != other {
			return match[2]
		}
		return nil
	})
	if !d.postgres {
		return bytesType.ReplaceAll(text, []byte("BLOB"))
	}
	text = sqliteOnly.ReplaceAll(text, nil)
	return textType.ReplaceAll(text, []byte(`TEXT COLLATE "C"`))
}

// sqlFile is a file with other content; its Stat keeps the original's size.
type sqlFile struct {
	fs.File
	text *bytes.Reader
}

func (f sqlFile) Read(p []byte) (int, error) { return f.text.Read(p) }
