// Package webhttp fetches web pages for agents and queries search providers over HTTP.
// Answers are untrusted: their size, their time and the cost of converting them to text
// are bounded.
package webhttp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/html/charset"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/share"
	"agentd/internal/base/text"
	"agentd/internal/content/htmltext"
	"agentd/internal/content/webtool"
	"agentd/internal/wire/outbound"
)

// FetchConfig of a Fetcher. Zero values mean the defaults in brackets.
type FetchConfig struct {
	Guarded   *outbound.Client // for addresses that tenants choose
	Places    *share.Places    // for making text of pages [without a limit]
	Timeout   time.Duration    // of a fetch with all its redirects [10 s]
	Reach     time.Duration    // for how long an address that cannot be reached is tried [5 s]
	MaxBytes  int              // of a body, on the wire and decoded [2 MiB]
	Redirects int              // that are followed [5]
}

// Fetcher implements webtool.Fetcher. Safe for concurrent use.
type Fetcher struct{ FetchConfig }

var _ webtool.Fetcher = (*Fetcher)(nil)

// NewFetcher returns a fetcher.
func NewFetcher(c FetchConfig) *Fetcher {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.Reach = cmp.Or(c.Reach, 5*time.Second)
	c.MaxBytes = cmp.Or(c.MaxBytes, 2<<20)
	c.Redirects = cmp.Or(c.Redirects, 5)
	return &Fetcher{c}
}

// Fetch implements webtool.Fetcher.
func (f *Fetcher) Fetch(ctx context.Context, tenant, url string) (webtool.Page, error) {
	ctx = authz.WithTenant(ctx, tenant)
	if err := outbound.CheckURL(url); err != nil {
		return webtool.Page{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return webtool.Page{}, fault.New(fault.Invalid, "", "This is not a URL.").Because(err)
	}
	req.URL.Fragment, req.URL.RawFragment = "", ""
	req.Header.Set("Accept", "text/html, application/json, text/*;q=0.9, */*;q=0.5")
	req.Header.Set("Accept-Encoding", "gzip")
	req.Header.Set("User-Agent", "agentd/1 (http_fetch)")
	ctx, cancel := context.WithTimeout(ctx, f.Timeout) // includes the conversion of the body
	defer cancel()
	limits := outbound.Limits{Time: f.Timeout, Bytes: int64(f.MaxBytes) + 1, Hops: f.Redirects}
	resp, err := f.Guarded.DoOnceReachable(req.WithContext(ctx), f.Reach, limits)
	if err != nil {
		return webtool.Page{}, f.publicError(ctx, err)
	}
	defer resp.Body.Close()
	page, err := f.page(ctx, tenant, resp)
	if err != nil {
		return webtool.Page{}, f.publicError(ctx, err)
	}
	return page, nil
}

// page converts an answer.
func (f *Fetcher) page(ctx context.Context, tenant string, resp *http.Response) (webtool.Page, error) {
	p := webtool.Page{URL: resp.Request.URL.String(), Status: resp.StatusCode}
	head, body, err := f.body(resp)
	if err != nil {
		return p, err
	}
	declared := resp.Header.Get("Content-Type")
	if declared == "" && len(head) > 0 {
		declared = http.DetectContentType(head)
	}
	kind, params, err := mime.ParseMediaType(declared)
	if err != nil {
		kind, params = strings.ToLower(strings.TrimSpace(strings.Split(declared, ";")[0])), nil
	}
	p.ContentType = kind
	form := formOf(kind)
	if form == otherForm {
		p.Content = describe(kind, resp.ContentLength)
		return p, nil
	}
	raw, err := io.ReadAll(io.LimitReader(body, int64(f.MaxBytes)+1))
	switch {
	case len(raw) > f.MaxBytes:
		raw, p.Truncated = raw[:f.MaxBytes], true
	case errors.Is(err, outbound.ErrTooLarge):
		p.Truncated = true
	case err != nil:
		return p, err
	}
	if p.Status >= 300 && p.Status < 400 && len(raw) == 0 {
		p.Content = "This is a redirect without a valid target."
		return p, nil
	}
	release, err := f.Places.Acquire(ctx, tenant)
	if err != nil {
		return p, err
	}
	defer release()
	decoded := decodeText(raw, form, declared, params["charset"])
	if form != htmlPage {
		p.Content = text.PrefixBytes(decoded, f.MaxBytes) // in UTF-8 it may be longer
		p.Truncated = p.Truncated || len(p.Content) < len(decoded)
		return p, nil
	}
	d, err := htmltext.Convert(ctx, []byte(decoded), p.URL, f.MaxBytes)
	p.Title, p.Content, p.Truncated = d.Title, d.Text, p.Truncated || d.Cut
	return p, err
}

// body returns an answer's decoded body, and its first bytes. The encoded size is
// bounded too, because an encoding can turn any number of bytes into none.
func (f *Fetcher) body(resp *http.Response) (head []byte, body io.Reader, err error) {
	var r io.Reader = resp.Body
	switch encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		unzip, err := gzip.NewReader(r)
		if errors.Is(err, io.EOF) {
			return nil, bytes.NewReader(nil), nil
		}
		if err != nil {
			return nil, nil, fault.New(fault.Upstream, "", "The answer claims to be compressed with gzip, but is not.").Because(err)
		}
		r = unzip
	default:
		return nil, nil, fault.New(fault.Upstream, "", "The answer has the encoding %q, which is not supported.",
			text.PrefixBytes(encoding, maxQuoted))
	}
	head = make([]byte, 512)
	n, err := io.ReadFull(r, head)
	head = head[:n]
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		if errors.Is(err, outbound.ErrTooLarge) {
			return head, io.MultiReader(bytes.NewReader(head), errReader{err}), nil
		}
		return nil, nil, err
	}
	return head, io.MultiReader(bytes.NewReader(head), r), nil
}

type errReader struct{ err error }

func (f errReader) Read([]byte) (int, error) { return 0, f.err }

// contentForm is how content is converted to text.
type contentForm int

const (
	otherForm contentForm = iota
	plainText
	htmlPage
	jsonText
)

func formOf(kind string) contentForm {
	switch {
	case kind == "text/html" || kind == "application/xhtml+xml":
		return htmlPage
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return jsonText
	case strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "+xml"), strings.HasSuffix(kind, "+yaml"):
		return plainText
	}
	switch kind {
	case "", "application/xml", "application/javascript", "application/ecmascript", "application/yaml", "application/x-yaml",
		"application/toml", "application/x-ndjson", "application/jsonl", "application/sql", "application/x-sh", "application/graphql",
		"application/x-www-form-urlencoded":
		return plainText
	}
	return otherForm
}

// maxQuoted is how many bytes of a header an error quotes.
const maxQuoted = 100

func describe(kind string, size int64) string {
	if size < 0 {
		return fmt.Sprintf("This is a file of type %s of unknown size; only HTML, JSON and text can be read.", text.PrefixBytes(kind, maxQuoted))
	}
	return fmt.Sprintf("This is a file of type %s with %d bytes; only HTML, JSON and text can be read.",
		text.PrefixBytes(kind, maxQuoted), size)
}

// decodeText converts bytes to UTF-8, from the encoding that the header, a byte order
// mark or the page itself declares; without any it assumes UTF-8, or guesses.
func decodeText(raw []byte, form contentForm, contentType, label string) string {
	var r io.Reader
	var err error
	switch {
	case form == htmlPage:
		r, err = charset.NewReader(bytes.NewReader(raw), contentType)
	case form == plainText && label != "":
		r, err = charset.NewReaderLabel(label, bytes.NewReader(raw))
	}
	if r != nil && err == nil {
		if text, err := io.ReadAll(r); err == nil {
			raw = text
		}
	}
	raw = bytes.TrimPrefix(raw, []byte("\uFEFF"))
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}

// publicError returns an error that explains in a sentence why there is no page.
func (f *Fetcher) publicError(ctx context.Context, err error) error {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return fault.New(fault.Upstream, "", "The host name does not exist.").Because(err)
	}
	var unknown x509.UnknownAuthorityError
	var badName x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.New(fault.UpstreamTimeout, "", "The address did not answer within %v.", f.Timeout).Because(err)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, outbound.ErrRedirects):
		return fault.New(fault.Upstream, "", "The address redirects more than %d times.", f.Redirects).Because(err)
	case errors.As(err, &unknown), errors.As(err, &badName), errors.As(err, &invalid), errors.As(err, &verify):
		return fault.New(fault.Upstream, "", "The certificate of the address cannot be trusted.").Because(err)
	}
	return fault.New(fault.Upstream, "", "The address cannot be reached, or closed the connection during its answer.").Because(err)
}
