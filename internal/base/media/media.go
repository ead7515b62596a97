// Package media handles the names and media types of files: names that are safe
// to send in a header, types by file name, and which types a browser may show
// rather than save.
package media

import (
	"mime"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Octets is the media type of content whose type is unknown.
const Octets = "application/octet-stream"

const (
	maxType = 255
	maxName = 255
)

// types by extension. The system's table would make a type depend on the
// machine.
var types = map[string]string{
	"7z": "application/x-7z-compressed", "aac": "audio/aac", "avif": "image/avif", "bmp": "image/bmp", "bz2": "application/x-bzip2",
	"css": "text/css", "csv": "text/csv", "doc": "application/msword",
	"docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	"epub": "application/epub+zip", "flac": "audio/flac", "gif": "image/gif", "go": "text/x-go", "gz": "application/gzip",
	"htm": "text/html", "html": "text/html", "ico": "image/vnd.microsoft.icon", "ics": "text/calendar", "java": "text/x-java",
	"jpeg": "image/jpeg", "jpg": "image/jpeg", "js": "text/javascript", "json": "application/json", "jsonl": "application/jsonl",
	"log": "text/plain", "m4a": "audio/mp4", "md": "text/markdown", "mjs": "text/javascript", "mov": "video/quicktime",
	"mp3": "audio/mpeg", "mp4": "video/mp4", "mpeg": "video/mpeg", "ods": "application/vnd.oasis.opendocument.spreadsheet",
	"odt": "application/vnd.oasis.opendocument.text", "oga": "audio/ogg", "ogg": "audio/ogg", "ogv": "video/ogg", "opus": "audio/opus",
	"parquet": "application/vnd.apache.parquet", "pdf": "application/pdf", "png": "image/png", "ppt": "application/vnd.ms-powerpoint",
	"pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	"py":   "text/x-python", "rs": "text/x-rust", "rtf": "application/rtf", "sh": "application/x-sh", "sql": "application/sql",
	"svg": "image/svg+xml", "tar": "application/x-tar", "tif": "image/tiff", "tiff": "image/tiff", "toml": "application/toml",
	"ts": "text/typescript", "tsv": "text/tab-separated-values", "txt": "text/plain", "wasm": "application/wasm", "wav": "audio/wav",
	"weba": "audio/webm", "webm": "video/webm", "webp": "image/webp", "xls": "application/vnd.ms-excel",
	"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"xml":  "application/xml", "yaml": "application/yaml", "yml": "application/yaml", "zip": "application/zip",
}

// Of returns the type that a file's name suggests.
func Of(name string) string {
	if t := types[strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))]; t != "" {
		return t
	}
	return Octets
}

// Clean returns a media type as it is stored, lower-case and in one spelling;
// false if it is not a media type. Of its parameters only charset is kept:
// others, such as a form's boundary, do not describe the file.
func Clean(t string) (string, bool) {
	if len(t) > maxType {
		return "", false
	}
	name, params, err := mime.ParseMediaType(t)
	if err != nil || strings.Count(name, "/") != 1 || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") {
		return "", false
	}
	for name := range params {
		if name != "charset" {
			delete(params, name)
		}
	}
	clean := mime.FormatMediaType(name, params)
	for i := range len(clean) {
		if clean[i] < ' ' || clean[i] > '~' {
			return "", false
		}
	}
	return clean, clean != "" && len(clean) <= maxType
}

// Best returns the type that a client sent, or the type of the name if the
// client sent none that says anything.
func Best(given, name string) string {
	if t, ok := Clean(given); ok && t != Octets {
		return t
	}
	return Of(name)
}

// Base returns a type without its parameters.
func Base(t string) string {
	base, _, _ := strings.Cut(t, ";")
	return strings.TrimSpace(base)
}

// Inline reports whether a browser may show the type in place of saving it. A
// page, a script or an SVG could act in the name of the person who opens it.
func Inline(t string) bool {
	switch t = Base(t); {
	case t == "image/svg+xml", t == "image/svg":
		return false
	case t == "application/pdf":
		return true
	}
	group, _, _ := strings.Cut(t, "/")
	return group == "image" || group == "audio" || group == "video"
}

// Text reports whether content of the type is text.
func Text(t string) bool {
	t = Base(t)
	if strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+json") || strings.HasSuffix(t, "+xml") {
		return true
	}
	switch t {
	case "application/json", "application/jsonl", "application/xml", "application/yaml", "application/x-yaml", "application/toml",
		"application/sql", "application/x-sh", "application/javascript", "application/x-ndjson":
		return true
	}
	return false
}

// FileName returns what a client sent as a name that is safe in headers and on
// disks: the last part of its path, without control and direction characters,
// at most 255 bytes. It returns otherwise if nothing is left.
func FileName(sent, otherwise string) string {
	sent = sent[strings.LastIndexAny(sent, `/\`)+1:]
	clean := strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !Printable(r) {
			return -1
		}
		return r
	}, sent))
	for len(clean) > maxName {
		_, n := utf8.DecodeLastRuneInString(clean)
		clean = clean[:len(clean)-n]
	}
	if strings.Trim(clean, ". ") == "" {
		return otherwise
	}
	return clean
}

// Printable reports whether a character may be part of a name. Control
// characters may not, nor those that break lines or change the direction of
// writing, which would show one name as another.
func Printable(r rune) bool {
	switch {
	case unicode.IsControl(r), r >= 0xfff0 && r <= 0xffff, r == 0xfeff:
		return false
	case r >= 0x200e && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x061c:
		return false
	}
	return true
}

// Disposition returns a Content-Disposition with a name that every client reads.
func Disposition(inline bool, name string) string {
	kind := "attachment"
	if inline {
		kind = "inline"
	}
	if value := mime.FormatMediaType(kind, map[string]string{"filename": FileName(name, "file")}); value != "" {
		return value
	}
	return kind
}
