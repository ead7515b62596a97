package backupsql

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"filippo.io/age"
	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"

	"agentd/internal/base/secret"
	"agentd/internal/store/sqldb"
)

// mark is the first line of a file.
const mark = "agentd backup 1\n"

// maxLine bounds the second one.
const maxLine = 64 << 10

// KeySource is which key seals a file.
type KeySource string

// The sources of keys.
const (
	SecretKey KeySource = "secret key"
	BackupKey KeySource = "backup key"
)

// Header is what a file says of itself to whoever has it.
type Header struct {
	CreatedAt time.Time    `json:"created_at"`
	Version   string       `json:"agentd"` // of the program
	Database  string       `json:"database"`
	Schema    int64        `json:"schema"` // its last migration
	Key       KeySource    `json:"sealed_with"`
	KeyID     secret.KeyID `json:"key_id"`
	Carried   string       `json:"keys,omitzero"` // [Carried], sealed by a passphrase
}

// meta is what is sealed with the rows.
type meta struct {
	Migrations []int64 `json:"migrations"`
}

// Totals counts what is in a file.
type Totals struct {
	Tables int   `json:"tables"`
	Rows   int64 `json:"rows"`
}

// Options say how a file is sealed.
type Options struct {
	Version    string
	Now        time.Time
	Key        KeySource
	Keys       [][]byte      // the first one seals the file
	Carry      Carried       // with Passphrase
	Passphrase secret.String // empty: the file carries no keys

	Progress func(table string, t Totals) // may be nil
}

// Write writes a backup of all rows of the database. Everything that was acknowledged
// before the call is in it.
func Write(ctx context.Context, db *sqldb.DB, to io.Writer, o Options) (h Header, t Totals, err error) {
	box, err := boxOf(o.Keys[:1])
	if err != nil {
		return h, t, err
	}
	h = Header{CreatedAt: o.Now.UTC(), Version: o.Version, Database: engine(db), Key: o.Key, KeyID: box.KeyIDs()[0]}
	if !o.Passphrase.Empty() {
		if h.Carried, err = seal(o.Carry, o.Passphrase); err != nil {
			return h, t, err
		}
	}
	if h.Schema, err = db.Version(ctx); err != nil {
		return h, t, err
	}
	err = db.Snapshot(ctx, func(s *sqldb.Snapshot) error {
		w := &writer{progress: o.Progress}
		err = w.writeSealed(ctx, s, to, box, &h)
		t = w.totals
		return err
	})
	return h, t, err
}

func engine(db *sqldb.DB) string {
	if db.Postgres() {
		return "postgresql"
	}
	return "sqlite"
}

func (w *writer) writeSealed(ctx context.Context, s *sqldb.Snapshot, to io.Writer, box *secret.Box, h *Header) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	lines := append([]byte(mark), append(line, '\n')...)
	if len(line) >= maxLine {
		return errors.New("the keys that the backup is to carry are too many")
	}
	if _, err := to.Write(lines); err != nil {
		return err
	}
	sealed, err := age.Encrypt(to, sealing{box})
	if err != nil {
		return err
	}
	compressed, err := zstd.NewWriter(sealed,
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	defer compressed.Close()
	w.Writer = bufio.NewWriterSize(compressed, 256<<10)
	if err := w.all(ctx, s, lines); err != nil {
		return err
	}
	for _, end := range []func() error{w.Flush, compressed.Close, sealed.Close} {
		if err := end(); err != nil {
			return err
		}
	}
	return nil
}

// writer writes the frames of a backup.
type writer struct {
	*bufio.Writer
	totals   Totals
	progress func(string, Totals)
	row      []byte
}

func (w *writer) all(ctx context.Context, s *sqldb.Snapshot, lines []byte) error {
	sum := sha256.Sum256(lines)
	if err := writeFrame(w.Writer, frameHeader, []byte(hex.EncodeToString(sum[:]))); err != nil {
		return err
	}
	if err := w.json(frameMeta, meta{s.Versions()}); err != nil {
		return err
	}
	for _, t := range s.Tables() {
		if err := w.json(frameTable, t); err != nil {
			return err
		}
		w.totals.Tables++
		err := s.Each(ctx, t, func(values []any) (err error) {
			if w.row, err = appendRow(w.row[:0], values); err != nil {
				return err
			}
			w.totals.Rows++
			if w.progress != nil {
				w.progress(t.Name, w.totals)
			}
			return writeFrame(w.Writer, frameRow, w.row)
		})
		if err != nil {
			return err
		}
	}
	return w.json(frameEnd, w.totals)
}

func (w *writer) json(t frame, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFrame(w.Writer, t, text)
}
