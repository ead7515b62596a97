package file_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/content/file"
	"agentd/internal/content/file/filesql"
	"agentd/internal/kernel/blob"
	"agentd/internal/store/blobsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newService(db *sqldb.DB, c *clock.Fake) *file.Service {
	return &file.Service{
		Files: filesql.New(db), Blobs: &blob.Store{Table: blobsql.New(db), Writer: db, Clock: c},
		Writer: db, Cursors: page.NewCursors([]byte("0123456789abcdef")), Clock: c,
	}
}

func add(t *testing.T, s *file.Service, tenant, name, mimeType, text string) *file.File {
	t.Helper()
	st, err := s.Blobs.StageBytes(t.Context(), tenant, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Add(t.Context(), tenant, name, mimeType, st)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFiles(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := clock.NewFake()
		s := newService(db, c)
		ctx := t.Context()
		made := add(t, s, "tenant", "../evil\x00/résumé.pdf", "", "hello")
		want := &file.File{
			FileID: made.FileID, TenantID: "tenant", Filename: "résumé.pdf", MimeType: "application/pdf", SizeBytes: 5,
			SHA256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", CreatedAt: c.Now(), URL: "/api/v1/files/" + made.FileID + "/content",
		}
		if diff := cmp.Diff(want, made); diff != "" || !ident.Valid(made.FileID) {
			t.Errorf("(-want +got):\n%s", diff)
		}
		got, r, err := s.Open(ctx, "tenant", made.FileID)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if text, err := io.ReadAll(r); string(text) != "hello" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		same := add(t, s, "tenant", "", "text/plain", "hello")
		if same.FileID == made.FileID || same.Filename != "file" {
			t.Errorf("%+v", same)
		}

		for _, id := range []string{ident.New(), "x", "a\x00"} {
			if _, err := s.Get(ctx, "tenant", id); !fault.Is(err, fault.NotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
		if _, _, err := s.Open(ctx, "other", made.FileID); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
		if err := s.Delete(ctx, authz.Caller{TenantID: "other"}, made.FileID); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
		if err := s.Delete(ctx, authz.Caller{TenantID: "tenant"}, made.FileID); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(ctx, authz.Caller{TenantID: "tenant"}, made.FileID); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
		if _, r, err := s.Open(ctx, "tenant", same.FileID); err != nil {
			t.Errorf("the same bytes under another name are gone: %v", err)
		} else {
			r.Close()
		}
		if err := s.Delete(ctx, authz.Caller{TenantID: "tenant"}, same.FileID); err != nil {
			t.Fatal(err)
		}
		c.Advance(time.Hour)
		if n, err := s.Blobs.Sweep(ctx); n != 1 || err != nil {
			t.Errorf("%d blobs were swept, %v", n, err)
		}
	})
}

func TestListsByType(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := newService(db, clock.NewFake())
		for i, mimeType := range []string{"image/png", "text/plain", "image/jpeg", "image/png", "application/json"} {
			add(t, s, "tenant", fmt.Sprint(i), mimeType, "x")
		}
		add(t, s, "other", "foreign", "image/png", "x")
		for prefix, want := range map[string]string{"": "43210", "image/": "320", "image/p": "30", "image": "320", "text/plain": "1", "video/": "", "imag": "320"} {
			files, err := s.Files.List(t.Context(), "tenant", file.Filter{MimePrefix: prefix, Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, f := range files {
				got += f.Filename
			}
			if got != want {
				t.Errorf("%q: %s, want %s", prefix, got, want)
			}
		}
		if some, err := s.Files.List(t.Context(), "tenant", file.Filter{MimePrefix: "image/", Limit: 1}); err != nil || len(some) != 1 {
			t.Errorf("%v, %v", some, err)
		} else if rest, err := s.Files.List(t.Context(), "tenant", file.Filter{MimePrefix: "image/", After: some[0].FileID, Limit: 10}); err != nil || len(rest) != 2 {
			t.Errorf("%v, %v", rest, err)
		}
	})
}

// A file whose row cannot be stored keeps no bytes.
func TestFailedUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := clock.NewFake()
		s := newService(db, c)
		s.Files = failing{s.Files}
		st, err := s.Blobs.Stage(t.Context(), "tenant", strings.NewReader(strings.Repeat("x", blob.PartSize+1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Add(t.Context(), "tenant", "a", "", st); !errors.Is(err, errNo) {
			t.Errorf("%v", err)
		}
		c.Advance(2 * time.Hour)
		if n, err := s.Blobs.Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

var errNo = errors.New("no")

type failing struct{ file.Table }

func (failing) CreateTx(txn.Tx, *file.File) error { return errNo }

// Base64 in JSON is decoded strictly, and all that is wrong is named.
func TestJSONUploads(t *testing.T) {
	t.Parallel()
	s := newService(sqldbtest.Open(t, sqldbtest.SQLite), clock.NewFake())
	upload := func(body string) (any, error) {
		for _, r := range s.Routes() {
			if r.ID == "uploadFile" {
				return r.Call(t.Context(), authz.Caller{TenantID: "tenant"}, file.UploadOfJSON(body))
			}
		}
		return nil, context.Canceled
	}
	out, err := upload(`{"data":"` + base64.StdEncoding.EncodeToString([]byte("\x00\xff!")) + `","mime_type":"image/PNG","filename":"a/b.png"}`)
	if err != nil {
		t.Fatal(err)
	}
	if f := out.(*file.File); f.SizeBytes != 3 || f.MimeType != "image/png" || f.Filename != "b.png" {
		t.Errorf("%+v", f)
	}
	for body, fields := range map[string][]string{
		`{}`:                                     {"data", "mime_type"},
		`{"data":"%","mime_type":"x"}`:           {"mime_type", "data"},
		`{"data":"aGVsbG8","mime_type":"a/b"}`:   {"data"},
		`{"data":"aGVsbG8=","mime_type":"a/b;"}`: nil,
		`{"data":1,"mime_type":"a/b"}`:           {"data"},
	} {
		_, err := upload(body)
		got := []string(nil)
		for _, f := range fault.From(errOr(err)).Fields {
			got = append(got, f.Field)
		}
		if diff := cmp.Diff(fields, got); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", body, err, diff)
		}
	}
}

// errOr is an error without fields in place of none.
func errOr(err error) error {
	if err == nil {
		return fault.New(fault.Internal, "", "none")
	}
	return err
}
