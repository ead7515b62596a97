package workspace

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"agentd/internal/base/fault"
	"agentd/internal/base/media"
)

// Limits of paths.
const (
	maxPath    = 1024 // bytes
	maxSegment = 255  // bytes, as most disks have it
	maxDepth   = 32
)

// clean returns a path in the one spelling that is stored: segments separated
// by single slashes, none at the ends, in Unicode's composed form. "" is the
// root. problem is not "" if the path is refused.
//
// A path cannot lead out of its workspace: it is only a key of rows of that
// workspace. Segments of dots, and what looks like them to some system, are
// refused nevertheless, because the files may be saved to a disk one day.
func clean(sent string) (path, problem string) {
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
		if problem := checkSegment(segment); problem != "" {
			return "", problem
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
	if inTrash(path) {
		return "", "what was deleted is in .trash, which has operations of its own"
	}
	return path, ""
}

// checkSegment returns why a name is refused, or "".
func checkSegment(segment string) string {
	if len(segment) > maxSegment {
		return "a name in it is longer than 255 bytes"
	}
	for _, r := range segment {
		if !media.Printable(r) {
			return "it has control characters, or characters that change the direction of text"
		}
	}
	plain := norm.NFKC.String(segment) // resolves lookalikes
	switch {
	case strings.Trim(plain, ". \u00a0") == "":
		return "a path stays inside of its workspace, and no name is only dots and spaces"
	case strings.ContainsAny(plain, `/\`):
		return "a name in it has a character that looks like a slash"
	}
	return ""
}

// parents returns the folders that a path is in, outermost first.
func parents(path string) []string {
	var all []string
	for i := range len(path) {
		if path[i] == '/' {
			all = append(all, path[:i])
		}
	}
	return all
}

// base returns the last segment of a path.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Clean returns the path of a file as a workspace keeps it, of one that others name.
// Errors: fault.Invalid.
func Clean(sent string) (string, error) {
	at, problem := clean(sent)
	if problem == "" && at == "" {
		problem = "it names no file"
	}
	if problem != "" {
		return "", fault.New(fault.Invalid, "", "The path %.200q cannot be used: %s.", sent, problem)
	}
	return at, nil
}
