package workspace

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"agentd/internal/base/media"
)

// Limits of paths.
const (
	maxPath    = 1024 // bytes
	maxSegment = 255  // bytes, as most disks have it
	maxDepth   = 32
)

// clean gives a path in the one spelling that is stored: segments with single
// slashes between them, none at the ends, in Unicode's composed form. "" is the
// workspace itself. complaint says why a path is refused.
//
// A path cannot lead out of its workspace: it is a key of the rows of that
// workspace and nothing else. Segments of dots are refused all the same, also
// those that look like it to some system, because somebody will save the files
// to a disk one day.
func clean(sent string) (path, complaint string) {
	switch {
	case !utf8.ValidString(sent):
		return "", "it is not UTF-8"
	case len(sent) > maxPath:
		return "", "it is longer than 1024 bytes"
	case strings.ContainsRune(sent, '\\'):
		return "", "folders are separated by /, and no name has a backslash"
	}
	var segments []string
	for segment := range strings.SplitSeq(norm.NFC.String(sent), "/") {
		if segment == "" || segment == "." {
			continue
		}
		if complaint := odd(segment); complaint != "" {
			return "", complaint
		}
		segments = append(segments, segment)
	}
	if len(segments) > maxDepth {
		return "", "it is deeper than 32 folders"
	}
	path = strings.Join(segments, "/")
	if len(path) > maxPath {
		return "", "it is longer than 1024 bytes"
	}
	return path, ""
}

// odd says why a name is refused.
func odd(segment string) string {
	if len(segment) > maxSegment {
		return "a name in it is longer than 255 bytes"
	}
	for _, r := range segment {
		if !media.Printable(r) {
			return "it has characters that no name has: control characters, or ones that turn the direction of writing"
		}
	}
	plain := norm.NFKC.String(segment) // what lookalikes stand for
	switch {
	case strings.Trim(plain, ". \u00a0") == "":
		return "a path stays inside of its workspace, and no name is only dots and spaces"
	case strings.ContainsAny(plain, `/\`):
		return "a name in it has a character that looks like a slash"
	}
	return ""
}

// parents are the folders that a path is in.
func parents(path string) []string {
	var all []string
	for i := range len(path) {
		if path[i] == '/' {
			all = append(all, path[:i])
		}
	}
	return all
}

// base is the last name of a path.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
