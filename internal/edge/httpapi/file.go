package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"agentd/internal/base/authz"
)

// File is a public document that does not change while the program runs. It is
// compressed once, on its first use, and has an ETag.
type File struct {
	media string
	made  func() (packed, error)
	cache []string // Cache-Control
}

// forever is the Cache-Control of a file whose name changes with its content.
var forever = []string{"public, max-age=31536000, immutable"}

// Immutable lets browsers keep the file without asking again. It is called before the
// file is served.
func (f *File) Immutable() { f.cache = forever }

// packed is a file as it is kept: compressed.
type packed struct {
	gzip []byte
	size int // of the content
	etag string
}

// NewFile returns a file of a media type. content is called once, on the first
// request; zipped reports whether its bytes are compressed with gzip already.
func NewFile(media string, content func() (data []byte, zipped bool, err error)) *File {
	return &File{media: media, cache: noCache, made: sync.OnceValues(func() (packed, error) {
		data, zipped, err := content()
		if err != nil {
			return packed{}, err
		}
		if !zipped {
			return pack(data)
		}
		plain, err := unpack(data)
		return packed{data, len(plain), etagOf(plain)}, err
	})}
}

func pack(data []byte) (packed, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return packed{}, err
	}
	if _, err := z.Write(data); err != nil {
		return packed{}, err
	}
	if err := z.Close(); err != nil {
		return packed{}, err
	}
	return packed{bytes.Clone(b.Bytes()), len(data), etagOf(data)}, nil
}

func unpack(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func etagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:12])
}

// Serve answers a GET: 304 to a client that has the file already, and compressed
// where the client takes that.
func (f *File) Serve(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	p, err := f.made()
	if err != nil {
		return err
	}
	zipped := takesGzip(r.Header.Values("Accept-Encoding"))
	etag := `"` + p.etag + `"`
	if zipped {
		etag = `"` + p.etag + `-gzip"` // a strong tag names the bytes that are sent
	}
	h := w.Header()
	h["Cache-Control"] = f.cache
	h.Add("Vary", "Accept-Encoding")
	h.Set("ETag", etag)
	if hasTag(r.Header.Get("If-None-Match"), p.etag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := p.gzip
	if zipped {
		h.Set("Content-Encoding", "gzip")
	} else if body, err = unpack(p.gzip); err != nil {
		return err
	}
	h.Set("Content-Type", f.media)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // net/http notices a client that left
	return nil
}

// takesGzip reports whether a client accepts gzip.
func takesGzip(accepted []string) bool {
	for _, line := range accepted {
		for part := range strings.SplitSeq(line, ",") {
			coding, params, _ := strings.Cut(part, ";")
			if c := strings.ToLower(strings.TrimSpace(coding)); c != "gzip" && c != "*" {
				continue
			}
			name, weight, _ := strings.Cut(strings.TrimSpace(params), "=")
			q, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
			return strings.TrimSpace(name) != "q" || err != nil || q > 0
		}
	}
	return false
}

// hasTag reports whether an If-None-Match names a tag, of either form of the file.
func hasTag(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		part = strings.Trim(strings.TrimPrefix(strings.TrimSpace(part), "W/"), `"`)
		if part == "*" || strings.TrimSuffix(part, "-gzip") == tag {
			return true
		}
	}
	return false
}
