package webhttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/base/share"
	"agentd/internal/content/webtool"
	"agentd/internal/wire/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site serves some pages, and a fetcher that may reach it.
func site(t *testing.T, adjust FetchConfig, handler http.HandlerFunc) (*Fetcher, string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	allow, err := outbound.ParseAllow(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	out := outbound.New(outbound.Config{Allow: allow})
	t.Cleanup(out.Close)
	adjust.Guarded = out
	return NewFetcher(adjust), server.URL
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

const sample = `<!doctype html><html><head><title> Ducks &amp;
 geese </title><style>p{}</style><script>alert(1)</script></head><body>
<h1>Ducks</h1><p>They <b>swim</b>, see <a href="/pond?x=1">the pond</a>.</p><svg><title>icon</title></svg>
<table><tr><th>Bird</th><th>Legs</th></tr><tr><td rowspan="99999999" colspan="99999999">Duck</td><td>2</td></tr></table>
<ul><li>one</li><li>two</li></ul><img src="data:image/png;base64,AAAAAAAA" alt="a duck"><iframe src="/x"></iframe></body></html>`

func TestFetch(t *testing.T) {
	t.Parallel()
	type answer struct{ kind, encoding, body string }
	answers := map[string]answer{
		"/page":       {"text/html; charset=utf-8", "", sample},
		"/zipped":     {"text/html", "gzip", zipped(sample)},
		"/json":       {"application/json", "", `{"a": [1, "ü"]}`},
		"/problem":    {"application/problem+json; charset=utf-8", "gzip", zipped(`{}`)},
		"/text":       {"text/plain", "", "hello\n"},
		"/latin1":     {"text/plain; charset=iso-8859-1", "", "caf\xe9"},
		"/utf16":      {"text/html", "", "\xff\xfe<\x00p\x00>\x00\xe4\x00"},
		"/meta":       {"text/html", "", "<meta charset=shift_jis><p>\x93\xfa\x96{"},
		"/bom":        {"application/json", "", "\uFEFF{}"},
		"/bad-utf8":   {"application/json", "", "\"a\xffb\""},
		"/no-charset": {"text/plain; charset=klingon", "", "plain"},
		"/untyped":    {"", "", "<!doctype html><title>T</title><p>guessed"},
		"/odd-type":   {"text/html;;;=", "", "<p>x</p>"},
		"/image":      {"image/png", "", "\x89PNG\r\n\x1a\n"},
		"/pdf":        {"application/pdf", "gzip", zipped("%PDF")},
		"/empty":      {"text/html", "", ""},
		"/zip-empty":  {"text/html", "gzip", ""},
		"/xml":        {"application/rss+xml", "", "<rss/>"},
	}
	f, base := site(t, FetchConfig{}, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Authorization", "Cookie", "Referer"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s is sent", name)
			}
		}
		a, ok := answers[r.URL.Path]
		w.Header()["Content-Type"] = nil
		if a.kind != "" {
			w.Header().Set("Content-Type", a.kind)
		}
		if a.encoding != "" {
			w.Header().Set("Content-Encoding", a.encoding)
		}
		w.Header().Set("Set-Cookie", "session=1")
		if !ok {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(404)
			a.body = "<h1>Gone</h1>"
		}
		_, _ = io.WriteString(w, a.body)
	})
	markdown := strings.Join([]string{
		"# Ducks", "", "They **swim**, see [the pond](" + base + "/pond?x=1).", "",
		"| Bird | Legs |", "|---|---|", "| Duck | 2 |", "", "- one", "- two",
	}, "\n")
	for path, want := range map[string]webtool.Page{
		"/page#part":  {URL: base + "/page", ContentType: "text/html", Title: "Ducks & geese", Content: markdown},
		"/zipped":     {ContentType: "text/html", Title: "Ducks & geese", Content: markdown},
		"/json":       {ContentType: "application/json", Content: `{"a": [1, "ü"]}`},
		"/problem":    {ContentType: "application/problem+json", Content: `{}`},
		"/text":       {ContentType: "text/plain", Content: "hello\n"},
		"/latin1":     {ContentType: "text/plain", Content: "café"},
		"/utf16":      {ContentType: "text/html", Content: "ä"},
		"/meta":       {ContentType: "text/html", Content: "日本"},
		"/bom":        {ContentType: "application/json", Content: "{}"},
		"/bad-utf8":   {ContentType: "application/json", Content: "\"a\uFFFDb\""},
		"/no-charset": {ContentType: "text/plain", Content: "plain"},
		"/untyped":    {ContentType: "text/html", Title: "T", Content: "guessed"},
		"/odd-type":   {ContentType: "text/html", Content: "x"},
		"/image":      {ContentType: "image/png", Content: "This is a file of type image/png with 8 bytes; only HTML, JSON and text can be read."},
		"/pdf":        {ContentType: "application/pdf", Content: fmt.Sprintf("This is a file of type application/pdf with %d bytes; only HTML, JSON and text can be read.", len(answers["/pdf"].body))},
		"/empty":      {ContentType: "text/html"},
		"/zip-empty":  {ContentType: "text/html"},
		"/xml":        {ContentType: "application/rss+xml", Content: "<rss/>"},
		"/absent":     {ContentType: "text/html", Status: 404, Content: "# Gone"},
	} {
		if want.URL == "" {
			want.URL = base + path
		}
		if want.Status == 0 {
			want.Status = 200
		}
		got, err := f.Fetch(t.Context(), "tenant", base+path)
		got.Content = strings.ReplaceAll(got.Content, "\n\n![a duck]()", "")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", path, err, diff)
		}
	}
}

func TestFetchFollowsRedirects(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	f, base := site(t, FetchConfig{}, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		q := r.URL.Query()
		var left int
		_, _ = fmt.Sscan(q.Get("left"), &left)
		switch to := q.Get("to"); {
		case to != "":
			w.Header().Set("Location", to)
			w.WriteHeader(307)
		case left > 0:
			http.Redirect(w, r, fmt.Sprintf("?left=%d", left-1), []int{301, 302, 303, 308}[left%4])
		case q.Has("nowhere"):
			w.WriteHeader(302)
		case q.Has("same"):
			w.WriteHeader(304)
		default:
			_, _ = io.WriteString(w, "<p>there")
		}
	})
	page, err := f.Fetch(t.Context(), "tenant", base+"/?left=5")
	if err != nil || page.URL != base+"/?left=0" || page.Content != "there" || calls.Load() != 6 {
		t.Errorf("%+v, %v after %d calls", page, err, calls.Load())
	}
	if page, err = f.Fetch(t.Context(), "tenant", base+"/?nowhere"); err != nil || page.Status != 302 || page.Content != "This is a redirect without a valid target." {
		t.Errorf("%+v, %v", page, err)
	}
	if page, err = f.Fetch(t.Context(), "tenant", base+"/?same"); err != nil || page.Status != 304 {
		t.Errorf("%+v, %v", page, err)
	}
	for target, want := range map[string]string{
		"/?left=6":                            "redirects more than 5 times",
		"/?to=http://127.0.0.1:1/":            "not a public one",
		"/?to=http://169.254.169.254/latest":  "not a public one",
		"/?to=http://[::1]:1/":                "not a public one",
		"/?to=http://2130706433/":             "is a number",
		"/?to=file:///etc/passwd":             "must begin with https:// or http://",
		"/?to=http://user:pass@example.com/":  "must not carry a user name",
		"/?to=gopher://example.com/":          "must begin with",
		"/?to=http://localhost.invalid:1/":    "host name does not exist",
		"/?to=http://example.com:99999999999": "", // whatever it is, it is refused
	} {
		page, err := f.Fetch(t.Context(), "tenant", base+target)
		if e := fault.From(err); err == nil || !strings.Contains(e.Detail, want) || e.Kind == fault.Internal || page.Content != "" {
			t.Errorf("%s: %+v, %v", target, page, err)
		}
	}
}

// Nothing private is reached unless the operator says so.
func TestFetchIsGuarded(t *testing.T) {
	t.Parallel()
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	t.Cleanup(inside.Close)
	out := outbound.New(outbound.Config{})
	t.Cleanup(out.Close)
	f := NewFetcher(FetchConfig{Guarded: out})
	for _, url := range []string{inside.URL, strings.Replace(inside.URL, "127.0.0.1", "localhost", 1), "", "x", "http://", "https://u:p@example.com"} {
		if _, err := f.Fetch(t.Context(), "tenant", url); err == nil || fault.Is(err, fault.Internal) {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestFetchIsBounded(t *testing.T) {
	t.Parallel()
	bomb := zipped(strings.Repeat("<p>boom</p>", 20<<20/11))
	empty := strings.Repeat(zipped(""), 1<<17) // 23 bytes each that become none
	f, base := site(t, FetchConfig{MaxBytes: 64 << 10, Timeout: 20 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		switch r.URL.Path {
		case "/exact":
			_, _ = io.WriteString(w, strings.Repeat("x", 64<<10))
		case "/long":
			_, _ = io.WriteString(w, strings.Repeat("ä", 40<<10))
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<12)); err != nil {
					return
				}
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, bomb)
		case "/void":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, empty)
		}
	})
	for path, cut := range map[string]bool{"/exact": false, "/long": true, "/endless": true, "/bomb": true, "/void": true} {
		page, err := f.Fetch(t.Context(), "tenant", base+path)
		if err != nil || page.Truncated != cut || len(page.Content) > 64<<10+2 || !utf8.ValidString(page.Content) {
			t.Errorf("%s: %d bytes, truncated %v, %v", path, len(page.Content), page.Truncated, err)
		}
	}
}

// Answers that are none are each a sentence, and never hang.
func TestFetchFails(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	f, base := site(t, FetchConfig{Timeout: 300 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		switch r.URL.Path {
		case "/silent":
			<-hold
		case "/slow-body":
			_, _ = io.WriteString(w, "begins")
			_ = http.NewResponseController(w).Flush()
			<-hold
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "begins")
		case "/not-gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "plainly not")
		case "/cut-gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, zipped("hello hello hello")[:20])
		case "/brotli":
			w.Header().Set("Content-Encoding", "br")
		case "/closes":
			panic(http.ErrAbortHandler)
		}
	})
	t.Cleanup(func() { close(hold) })
	for path, want := range map[string]string{
		"/silent": "did not answer within 300ms", "/slow-body": "did not answer within", "/cut": "closed the connection",
		"/not-gzip": "compressed with gzip, but is not", "/cut-gzip": "closed the connection", "/brotli": `encoding "br"`, "/closes": "closed the connection",
	} {
		_, err := f.Fetch(t.Context(), "tenant", base+path)
		e := fault.From(err)
		if err == nil || !strings.Contains(e.Detail, want) || e.Kind != fault.Upstream && e.Kind != fault.UpstreamTimeout {
			t.Errorf("%s: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Fetch(ctx, "tenant", base+"/silent"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	t.Cleanup(secure.Close)
	allow, err := outbound.ParseAllow("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	out := outbound.New(outbound.Config{Allow: allow})
	t.Cleanup(out.Close)
	all := NewFetcher(FetchConfig{Guarded: out})
	if _, err := all.Fetch(t.Context(), "tenant", secure.URL); err == nil || !strings.Contains(fault.From(err).Detail, "certificate") {
		t.Errorf("a certificate of nobody: %v", err)
	}
}

// A page whose conversion nobody waits for any more is not converted.
func TestFetchStops(t *testing.T) {
	t.Parallel()
	places := share.New(1, 1, time.Minute)
	release, err := places.Acquire(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	f, base := site(t, FetchConfig{Places: places, Timeout: 300 * time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, sample)
	})
	if _, err := f.Fetch(t.Context(), "tenant", base); !fault.Is(err, fault.UpstreamTimeout) {
		t.Errorf("without a place: %v", err)
	}
}

// The page that killed the program: a wide first row and many narrow ones.
func TestFetchWideTable(t *testing.T) {
	t.Parallel()
	page := "<table><tr>" + strings.Repeat("<td>", 8000) + strings.Repeat("<tr><td>b", 8000)
	f, base := site(t, FetchConfig{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })
	got, err := f.Fetch(t.Context(), "tenant", base)
	if err != nil || len(got.Content) > 5*len(page) || strings.Count(got.Content, "b") != 8000 {
		t.Errorf("%d bytes, %v", len(got.Content), err)
	}
}

func FuzzDecoded(f *testing.F) {
	f.Add([]byte("\xff\xfe<\x00"), "text/html; charset=utf-16", "")
	f.Add([]byte("caf\xe9"), "text/plain", "latin1")
	f.Fuzz(func(t *testing.T, raw []byte, contentType, label string) {
		for _, form := range []contentForm{plainText, htmlPage, jsonText} {
			if text := decodeText(raw, form, contentType, label); !utf8.ValidString(text) {
				t.Errorf("%q", text)
			}
		}
	})
}
