package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
)

type (
	fileIn struct {
		Body route.Upload
	}
	fileSeen struct {
		Name string `json:"name"`
		Type string `json:"type"`
		Data string `json:"data"`
		Size int64  `json:"size"` // as it was known before
		JSON string `json:"json"`
	}
	fileJSON struct {
		Data string `json:"data" required:"true"`
	}
	contentIn struct {
		FileID string `path:"fileId"`
	}
)

var letters = strings.Repeat("abcdefghij", 20_000) // more than is copied at once

// broken fails when it is read on.
type broken struct{ io.ReadSeeker }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.ReadSeeker.Read(p)
	if n == 0 {
		err = errors.New("disk on fire")
	}
	return n, err
}

func (broken) Close() error { return nil }

const (
	pageID   = "0198c0de-0000-7000-8000-00000000000a"
	pdfID    = "0198c0de-0000-7000-8000-00000000000b"
	brokenID = "0198c0de-0000-7000-8000-00000000000c"
	halfID   = "0198c0de-0000-7000-8000-00000000000d"
)

func fileRoutes() []route.Route {
	seen := func(_ context.Context, _ authz.Caller, in *fileIn) (*fileSeen, error) {
		u := &in.Body
		out := &fileSeen{Name: u.Name, Type: u.Type, Size: u.Size, JSON: string(u.JSON)}
		if u.Content == nil {
			return out, nil
		}
		data, err := io.ReadAll(io.LimitReader(u.Content, 100))
		if err != nil {
			return nil, err
		}
		rest, err := io.Copy(io.Discard, u.Content)
		if out.Data = string(data); rest > 0 {
			out.Data = fmt.Sprint(len(data) + int(rest))
		}
		return out, err
	}
	upload := func(path string, uploads ...string) route.Route {
		row := route.Row{Method: "POST", Path: path, ID: "upload" + path[1:], Scopes: write, Role: authz.Developer, Uploads: uploads}
		for _, u := range uploads {
			if u == route.JSON {
				row.BodyOf = reflect.TypeFor[fileJSON]()
			}
		}
		return route.Action(row, seen)
	}
	return []route.Route{
		upload("/uploads", route.Form, route.JSON),
		upload("/bytes", route.Form, route.Bytes),
		route.Action(
			route.Row{Method: "GET", Path: "/uploads/{fileId}", ID: "download", Scopes: read},
			func(_ context.Context, _ authz.Caller, in *contentIn) (*route.Content, error) {
				c := &route.Content{
					Name: `le "tters".html`, Type: "text/html", ETag: "tag", Size: int64(len(letters)),
					Time: time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC), Body: nopCloser{strings.NewReader(letters)},
				}
				switch in.FileID {
				case toyID:
				case pageID:
					c.Size, c.Body = 0, nopCloser{strings.NewReader("")}
				case pdfID:
					c.Type, c.Inline = "application/pdf", true
				case brokenID:
					c.Body = broken{strings.NewReader("")}
				case halfID:
					c.Body = broken{strings.NewReader(letters[:copySize+10])}
				default:
					return nil, fault.NewNotFound("file")
				}
				return c, nil
			},
		),
	}
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

func withFiles(c *Config) { c.Routes = append(c.Routes, fileRoutes()...) }

// form makes a multipart body.
func form(t testing.TB, field, name, kind, content string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.WriteField("note", "left out"); err != nil {
		t.Fatal(err)
	}
	head := map[string][]string{"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename=%q`, field, name)}, "Content-Type": {kind}}
	part, err := w.CreatePart(head)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(part, content)
	if err := w.WriteField("after", "left out too"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return b.String(), w.FormDataContentType()
}

func TestUploads(t *testing.T) {
	t.Parallel()
	w := start(t, withFiles)
	small, smallType := form(t, "file", "dir/a.txt", "text/plain", "hello")
	big := strings.Repeat("x", 5<<20)
	large, largeType := form(t, "file", "b.bin", "image/png", big)
	for _, c := range []struct {
		name, path, kind, body string
		want                   fileSeen
	}{
		{"form", "/uploads", smallType, small, fileSeen{Name: "a.txt", Type: "text/plain", Data: "hello", Size: -1}},
		{"large_form", "/uploads", largeType, large, fileSeen{Name: "b.bin", Type: "image/png", Data: "5242880", Size: -1}},
		{"json", "/uploads", "application/json", `{"data":"x"}`, fileSeen{JSON: `{"data":"x"}`}},
		{"form_for_bytes", "/bytes", smallType, small, fileSeen{Name: "a.txt", Type: "text/plain", Data: "hello", Size: -1}},
		{"bytes", "/bytes", "application/octet-stream", "\x00\xff", fileSeen{Type: "application/octet-stream", Data: "\x00", Size: 2}},
		{"bytes_that_are_json", "/bytes", "application/json", `{"a":`, fileSeen{Type: "application/json", Data: `{"a":`, Size: 5}},
		{"large_bytes", "/bytes", "image/png", big, fileSeen{Type: "image/png", Data: "5242880", Size: 5 << 20}},
		{"no_bytes", "/bytes", "", "", fileSeen{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, chunked := range []bool{false, true} {
				if chunked && (c.kind == "application/json" && c.path == "/uploads" || c.body == "") {
					continue
				}
				res, body := w.call(t, "POST", c.path, c.body, header("Content-Type", c.kind), func(r *http.Request) {
					if chunked {
						r.ContentLength = -1
					}
				})
				var got fileSeen
				if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != 200 {
					t.Fatalf("%d %.200s", res.StatusCode, body)
				}
				want := c.want
				if chunked && want.Size > 0 {
					want.Size = -1
				}
				if want.Data == "\x00" {
					got.Data = strings.TrimSuffix(got.Data, "\ufffd") // JSON replaces the other byte
				}
				if got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
		})
	}
}

func TestUploadsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := start(t, withFiles)
	whole, kind := form(t, "file", "a.txt", "text/plain", "hello")
	other, otherKind := form(t, "data", "a.txt", "text/plain", "hello")
	headed, headedKind := form(t, strings.Repeat("x", 100<<10), "a.txt", "text/plain", "hello")
	boundary := strings.TrimPrefix(kind, "multipart/form-data; boundary=")
	for _, c := range []struct {
		name, path, kind, body string
		length                 int64 // 0: that of the body; -1: none
		status                 int
		code                   string
	}{
		{"text", "/uploads", "text/plain", "x", 0, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"no_boundary", "/uploads", "multipart/form-data", whole, 0, 400, "INVALID_REQUEST"},
		{"other_boundary", "/uploads", "multipart/form-data; boundary=nope", whole, 0, 400, "INVALID_REQUEST"},
		{"no_form", "/uploads", kind, "x", 0, 400, "INVALID_REQUEST"},
		{"no_file", "/uploads", otherKind, other, 0, 422, "VALIDATION_ERROR"},
		{"cut_in_file", "/uploads", kind, whole[:strings.Index(whole, "hello")+2], -1, 400, "INVALID_REQUEST"},
		{"cut_after_file", "/uploads", kind, "--" + boundary + "\r\nContent-Disposition: form-data; name=file\r\n\r\nhello", -1, 400, "INVALID_REQUEST"},
		{"big_head", "/uploads", headedKind, headed, 0, 413, "PAYLOAD_TOO_LARGE"},
		{"big_head_chunked", "/uploads", headedKind, headed, -1, 413, "PAYLOAD_TOO_LARGE"},
		{"json_cut", "/uploads", "application/json", `{"data":`, 0, 400, "INVALID_REQUEST"},
		{"json_chunked", "/uploads", "application/json", `{"data":""}`, -1, 411, "LENGTH_REQUIRED"},
		{"json_too_large", "/uploads", "application/json", `"` + strings.Repeat("x", MaxBody), 0, 413, "PAYLOAD_TOO_LARGE"},
		{"nothing", "/uploads", "", "", 0, 400, "MISSING_BODY"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, body := w.call(t, "POST", c.path, c.body, header("Content-Type", c.kind), func(r *http.Request) {
				if c.length != 0 {
					r.ContentLength = c.length
				}
			})
			if doc := problemOf(t, res, body); res.StatusCode != c.status || doc["code"] != c.code {
				t.Errorf("%d %s, want %d %s", res.StatusCode, body, c.status, c.code)
			}
		})
	}
	res, body := w.call(t, "POST", "/uploads", whole, header("Content-Type", kind), header("Content-Encoding", "gzip"))
	if problemOf(t, res, body); res.StatusCode != 415 {
		t.Errorf("compressed: %d", res.StatusCode)
	}
}

// An upload is bounded whether or not it says its length.
func TestUploadsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	w := start(t, withFiles)
	whole, kind := form(t, "file", "a.bin", "text/plain", "MIDDLE")
	before, after, _ := strings.Cut(whole, "MIDDLE")
	for _, c := range []struct {
		name, path, kind string
		body             io.Reader
		length           int64
	}{
		{"by_length", "/bytes", "image/png", xs(MaxUpload + 1), MaxUpload + 1},
		{"in_the_end", "/bytes", "image/png", xs(MaxUpload + 1), -1},
		{"form", "/uploads", kind, io.MultiReader(strings.NewReader(before), xs(MaxUpload+formSlack), strings.NewReader(after)), -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), "POST", w.URL+c.path, c.body)
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = c.length
			req.Header.Set("Authorization", "Bearer "+ownerKey)
			req.Header.Set("Content-Type", c.kind)
			res, err := w.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if doc := problemOf(t, res, string(body)); res.StatusCode != 413 || doc["code"] != "PAYLOAD_TOO_LARGE" {
				t.Errorf("%d %s", res.StatusCode, body)
			}
		})
	}
}

// xs returns a reader of n bytes.
func xs(n int64) io.Reader { return io.LimitReader(endless{}, n) }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// Whoever sends a file too slowly is cut off, and holds nothing any more.
func TestSlowUpload(t *testing.T) {
	t.Parallel()
	w := start(t, withFiles, func(c *Config) { c.BodyTimeout = 50 * time.Millisecond })
	reader, writer := io.Pipe()
	defer writer.Close()
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.URL+"/bytes", reader)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 1000
	req.Header.Set("Authorization", "Bearer "+ownerKey)
	go io.WriteString(writer, "a few bytes")
	res, err := w.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 408 {
		t.Errorf("status %d", res.StatusCode)
	}
	if !w.edge.bodies.budget.TryAcquire(w.edge.bodies.size) {
		t.Error("the budget is not given back")
	}
}

func TestDownload(t *testing.T) {
	t.Parallel()
	w := start(t, withFiles)
	res, body := w.call(t, "GET", "/uploads/"+toyID, "")
	if res.StatusCode != 200 || body != letters {
		t.Fatalf("%d, %d bytes", res.StatusCode, len(body))
	}
	for name, want := range map[string]string{
		"Content-Type": "text/html", "Content-Length": "200000", "Etag": `"tag"`, "Accept-Ranges": "bytes",
		"Last-Modified": "Thu, 10 Sep 2026 12:00:00 GMT", "Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff",
		"Content-Disposition": `attachment; filename="le \"tters\".html"`, "Content-Security-Policy": sandboxed[0], "X-Frame-Options": "DENY",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	head, nothing := w.call(t, "HEAD", "/uploads/"+toyID, "")
	if head.StatusCode != 200 || nothing != "" || head.Header.Get("Content-Length") != "200000" {
		t.Errorf("HEAD: %d, %q, %v", head.StatusCode, nothing, head.Header)
	}
	pdf, _ := w.call(t, "GET", "/uploads/"+pdfID, "")
	if got := pdf.Header.Get("Content-Disposition"); !strings.HasPrefix(got, "inline;") ||
		strings.Contains(pdf.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("a PDF: %v", pdf.Header)
	}
	empty, nothing := w.call(t, "GET", "/uploads/"+pageID, "")
	if empty.StatusCode != 200 || nothing != "" {
		t.Errorf("an empty file: %d %q", empty.StatusCode, nothing)
	}
	absent, body := w.call(t, "GET", "/uploads/"+ident.New(), "")
	if problemOf(t, absent, body); absent.StatusCode != 404 || absent.Header.Get("Etag") != "" {
		t.Errorf("an absent file: %d %v", absent.StatusCode, absent.Header)
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	w := start(t, withFiles)
	size := len(letters)
	for _, c := range []struct {
		name   string
		head   []string // name, value, …
		status int
		want   string
		says   string // Content-Range
	}{
		{"first", []string{"Range", "bytes=0-4"}, 206, "abcde", "bytes 0-4/200000"},
		{"middle", []string{"Range", "bytes=100005-100009"}, 206, "fghij", "bytes 100005-100009/200000"},
		{"open", []string{"Range", "bytes=199998-"}, 206, "ij", "bytes 199998-199999/200000"},
		{"beyond_the_end", []string{"Range", "bytes=199998-999999999999999999999999"}, 206, "ij", "bytes 199998-199999/200000"},
		{"last", []string{"Range", "bytes=-3"}, 206, "hij", "bytes 199997-199999/200000"},
		{"more_than_all", []string{"Range", "bytes=-99999999"}, 206, letters, "bytes 0-199999/200000"},
		{"from_the_end_on", []string{"Range", fmt.Sprintf("bytes=%d-", size)}, 416, "", "bytes */200000"},
		{"none_of_it", []string{"Range", "bytes=-0"}, 416, "", "bytes */200000"},
		{"several", []string{"Range", "bytes=0-1,5-6"}, 200, letters, ""},
		{"turned", []string{"Range", "bytes=5-1"}, 200, letters, ""},
		{"nonsense", []string{"Range", "bytes=+1-2"}, 200, letters, ""},
		{"empty", []string{"Range", "bytes=-"}, 200, letters, ""},
		{"unit", []string{"Range", "lines=1-2"}, 200, letters, ""},
		{"if_range", []string{"Range", "bytes=0-0", "If-Range", `"tag"`}, 206, "a", "bytes 0-0/200000"},
		{"if_range_of_another", []string{"Range", "bytes=0-0", "If-Range", `"old"`}, 200, letters, ""},
		{"same_still", []string{"If-None-Match", `"x", W/"tag"`}, 304, "", ""},
		{"any", []string{"If-None-Match", "*"}, 304, "", ""},
		{"another", []string{"If-None-Match", `"x"`}, 200, letters, ""},
		{"malformed", []string{"If-None-Match", "tag"}, 200, letters, ""},
		{"same_still_before_range", []string{"If-None-Match", `"tag"`, "Range", "bytes=-0"}, 304, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, body := w.call(t, "GET", "/uploads/"+toyID, "", func(r *http.Request) {
				for i := 0; i < len(c.head); i += 2 {
					r.Header.Set(c.head[i], c.head[i+1])
				}
			})
			if res.StatusCode != c.status || res.Header.Get("Content-Range") != c.says {
				t.Errorf("%d %q, want %d %q", res.StatusCode, res.Header.Get("Content-Range"), c.status, c.says)
			}
			if c.status == 416 {
				problemOf(t, res, body)
			} else if body != c.want {
				t.Errorf("%d bytes, want %d", len(body), len(c.want))
			}
		})
	}
}

// What cannot be read is a refusal, or no whole answer.
func TestDownloadsThatFail(t *testing.T) {
	t.Parallel()
	w := start(t, withFiles)
	res, body := w.call(t, "GET", "/uploads/"+brokenID, "")
	if problemOf(t, res, body); res.StatusCode != 500 || strings.Contains(body, "fire") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.URL+"/uploads/"+halfID, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+ownerKey)
	res, err = w.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("half a file reads as a whole of %d bytes", len(got))
	}
}

// A download accepts the key in the query, as links need it; an upload does
// not.
func TestQueryTokenOnDownloads(t *testing.T) {
	t.Parallel()
	w := start(t, withFiles)
	none := header("Authorization", "")
	for target, want := range map[string]int{
		"/uploads/" + toyID + "?token=" + readerKey: 200,
		"/uploads/" + toyID + "?token=wrong":        401,
		"/uploads/" + toyID:                         401,
	} {
		if res, _ := w.call(t, "GET", target, "", none); res.StatusCode != want {
			t.Errorf("%s: %d, want %d", target, res.StatusCode, want)
		}
	}
	if res, _ := w.call(t, "POST", "/bytes?token="+ownerKey, "x", none); res.StatusCode != 401 {
		t.Errorf("an upload with a key in its address: %d", res.StatusCode)
	}
}

func FuzzParseRange(f *testing.F) {
	for _, seed := range []string{"bytes=0-1", "bytes=-5", "bytes=9-", "bytes=1-0", "bytes=18446744073709551616-", "bytes=0-1,2-3"} {
		f.Add(seed, int64(10))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		from, n, kind := parseRange(header, size)
		if kind == rangeOne && (from < 0 || n < 1 || from+n > size || from+n < from) {
			t.Errorf("%q of %d bytes: %d bytes from %d", header, size, n, from)
		}
	})
}

// No form makes the edge fail.
func FuzzForm(f *testing.F) {
	w := start(f, withFiles)
	whole, kind := form(f, "file", "a.txt", "text/plain", "hello")
	f.Add(kind, whole)
	f.Add("multipart/form-data; boundary=x", "--x\r\n\r\n--x--")
	f.Add("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=file\r\n\r\nab\r\n--x--")
	f.Add("multipart/mixed; boundary=\"", "--\"\r\n")
	f.Fuzz(func(t *testing.T, kind, body string) {
		if strings.ContainsAny(kind, "\r\n\x00") || !validHeader(kind) || body == "" {
			return
		}
		if res, got := w.call(t, "POST", "/uploads", body, header("Content-Type", kind)); res.StatusCode >= 500 {
			t.Errorf("%d %s", res.StatusCode, got)
		}
	})
}

func validHeader(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return strings.TrimSpace(s) == s
}
