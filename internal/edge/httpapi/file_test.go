package httpapi

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"agentd/internal/base/authz"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("all work and no play "), 100)
	packed, err := pack(content)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	plain := NewFile("text/plain", func() ([]byte, bool, error) { calls++; return content, false, nil })
	zipped := NewFile("text/plain", func() ([]byte, bool, error) { return packed.gzip, true, nil })
	get := func(f *File, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/", nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		if err := f.Serve(w, r, authz.Caller{}); err != nil {
			t.Fatal(err)
		}
		return w
	}
	for _, f := range []*File{plain, zipped} {
		whole := get(f)
		if whole.Code != 200 || !bytes.Equal(whole.Body.Bytes(), content) || whole.Header().Get("Content-Encoding") != "" {
			t.Errorf("%d %v", whole.Code, whole.Header())
		}
		small := get(f, "Accept-Encoding", "br, gzip;q=0.5")
		inflated, err := unpack(small.Body.Bytes())
		if err != nil || !bytes.Equal(inflated, content) || small.Header().Get("Content-Encoding") != "gzip" ||
			small.Header().Get("Content-Length") != strconv.Itoa(small.Body.Len()) || small.Body.Len() > len(content)/5 {
			t.Errorf("%v %v", small.Header(), err)
		}
		if whole.Header().Get("ETag") == small.Header().Get("ETag") || small.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("tags %q and %q", whole.Header().Get("ETag"), small.Header().Get("ETag"))
		}
		for _, tag := range []string{whole.Header().Get("ETag"), small.Header().Get("ETag"), "*", `"other", W/` + whole.Header().Get("ETag")} {
			if again := get(f, "If-None-Match", tag); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
				t.Errorf("%s: %d with %d bytes", tag, again.Code, again.Body.Len())
			}
		}
		if other := get(f, "If-None-Match", `"other"`); other.Code != 200 {
			t.Errorf("another tag: %d", other.Code)
		}
	}
	if calls != 1 {
		t.Errorf("the content was made %d times", calls)
	}
	for accepted, want := range map[string]bool{"gzip": true, "GZIP, br": true, "*": true, "gzip;q=0": false, "br": false, "": false, "identity, gzip ; q=1.0": true} {
		if takesGzip([]string{accepted}) != want {
			t.Errorf("Accept-Encoding %q", accepted)
		}
	}
	broken := NewFile("text/plain", func() ([]byte, bool, error) { return nil, false, errors.New("broken") })
	if err := broken.Serve(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), authz.Caller{}); err == nil {
		t.Error("a file that cannot be made is served")
	}
}
