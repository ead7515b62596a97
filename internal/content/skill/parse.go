// Package skill has the skills of agents: what they bring to a run, and their import from
// folders in the open Agent Skills format.
package skill

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of an archive, and of what is in it.
const (
	MaxArchive      = 10 << 20 // bytes as sent
	maxEntries      = 1000     // with folders
	maxFiles        = 100      // that are kept
	maxFile         = 5 << 20  // bytes of one file
	maxUnpacked     = 20 << 20 // bytes of all
	maxInstructions = 200_000  // characters of SKILL.md behind its front matter
	maxFrontMatter  = 64 << 10
	maxPath         = 500
)

// manifest is the name of the file that says what a skill is.
const manifest = "SKILL.md"

// Parsed is a skill as a folder has it.
type Parsed struct {
	Name         string
	Description  string
	Instructions string
	AllowedTools []string
	Files        []File
}

// File is a file of a skill beside SKILL.md.
type File struct {
	Path string // clean, relative, with slashes
	Data []byte
}

// Parse reads a zip of a folder in the Agent Skills format: SKILL.md at the top or in the
// one folder at the top, and whatever files it refers to. The errors are for whoever sent
// it.
func Parse(data []byte) (*Parsed, error) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, errors.New("it is not a zip archive, or it is cut off")
	}
	if len(archive.File) > maxEntries {
		return nil, fmt.Errorf("it has %d entries; a skill may have %d", len(archive.File), maxEntries)
	}
	var files []File
	seen, total := map[string]bool{}, 0
	for _, f := range archive.File {
		name, keep, err := entryName(f)
		switch {
		case err != nil:
			return nil, err
		case !keep:
			continue
		case seen[strings.ToLower(name)]:
			return nil, fmt.Errorf("the file %.200q is in it twice", name)
		case len(files) > maxFiles:
			return nil, fmt.Errorf("it has more than %d files", maxFiles)
		}
		seen[strings.ToLower(name)] = true
		content, err := unpack(f, min(maxFile, maxUnpacked-total))
		if err != nil {
			return nil, fmt.Errorf("the file %.200q %w", name, err)
		}
		total += len(content)
		files = append(files, File{name, content})
	}
	return assemble(files)
}

// entryName returns the clean path of an entry, and whether it is a file to keep.
func entryName(f *zip.File) (name string, keep bool, err error) {
	mode := f.Mode()
	raw := f.Name
	switch {
	case !utf8.ValidString(raw) || strings.ContainsAny(raw, "\\\x00\r\n") || len(raw) > maxPath:
		return "", false, fmt.Errorf("the entry %.100q has a name that cannot be used", raw)
	case strings.HasPrefix(raw, "/") || slices.Contains(strings.Split(raw, "/"), "..") || len(raw) > 1 && raw[1] == ':':
		return "", false, fmt.Errorf("the entry %.100q leads out of the folder", raw)
	case mode.IsDir() || strings.HasSuffix(raw, "/"):
		return "", false, nil
	case !mode.IsRegular():
		return "", false, fmt.Errorf("the entry %.100q is a link or a device; only files are taken", raw)
	}
	name = path.Clean(raw)
	for part := range strings.SplitSeq(name, "/") {
		if part == "__MACOSX" || part == ".git" || part == ".DS_Store" {
			return "", false, nil
		}
	}
	return name, true, nil
}

// unpack returns the content of an entry. What its header says about its size counts for
// nothing.
func unpack(f *zip.File, most int) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, errors.New("is packed in a way that is not known")
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	switch {
	case len(content) > most:
		return nil, fmt.Errorf("is too large: a file may have %d MiB, and all of them %d MiB", maxFile>>20, maxUnpacked>>20)
	case err != nil:
		return nil, errors.New("is damaged")
	}
	return content, nil
}

// assemble makes a skill of the files of its folder.
func assemble(files []File) (*Parsed, error) {
	root, found := "", false
	for _, f := range files {
		dir, name := path.Split(f.Path)
		if name == manifest && (!found || len(dir) < len(root)) {
			root, found = dir, true
		}
	}
	if !found {
		return nil, errors.New("there is no " + manifest + " in it")
	}
	var p *Parsed
	var rest []File
	for _, f := range files {
		name, below := strings.CutPrefix(f.Path, root)
		switch {
		case !below:
			return nil, fmt.Errorf("the file %.200q is not in the folder of %s", f.Path, manifest)
		case name == manifest:
			var err error
			if p, err = parseManifest(f.Data); err != nil {
				return nil, fmt.Errorf("%s %w", manifest, err)
			}
		default:
			rest = append(rest, File{name, f.Data})
		}
	}
	p.Files = rest
	return p, nil
}

// frontMatter is what stands before the instructions.
type frontMatter struct {
	Name         string `yaml:"name"`
	Description  string `yaml:"description"`
	AllowedTools any    `yaml:"allowed-tools"` // names with spaces or commas between them, or a list
}

func parseManifest(data []byte) (*Parsed, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8")
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\uFEFF"), "\r\n", "\n")
	head, begins := strings.CutPrefix(text, "---\n")
	front, body, ends := strings.Cut(head, "\n---")
	if !begins || !ends || len(front) > maxFrontMatter {
		return nil, errors.New("has no front matter: begin it with a line ---, then name and description, then another line ---")
	}
	_, body, _ = strings.Cut(body, "\n")
	var m frontMatter
	if err := yaml.Unmarshal([]byte(front), &m); err != nil {
		return nil, errors.New("has front matter that is not YAML")
	}
	p := &Parsed{Name: strings.TrimSpace(m.Name), Description: strings.TrimSpace(m.Description), Instructions: strings.TrimSpace(body)}
	switch {
	case p.Name == "" || p.Description == "":
		return nil, errors.New("needs a name and a description in its front matter")
	case utf8.RuneCountInString(p.Name) > 200 || utf8.RuneCountInString(p.Description) > 4000:
		return nil, errors.New("has a name of more than 200 or a description of more than 4000 characters")
	case p.Instructions == "":
		return nil, errors.New("has no instructions behind its front matter")
	case utf8.RuneCountInString(p.Instructions) > maxInstructions:
		return nil, fmt.Errorf("has more than %d characters of instructions", maxInstructions)
	}
	p.AllowedTools = toolNames(m.AllowedTools)
	return p, nil
}

// toolNames returns the names of tools in any of the forms that are in use. What stands in
// brackets behind a name narrows it elsewhere; here such a name is no tool's.
func toolNames(v any) (names []string) {
	switch v := v.(type) {
	case string:
		return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
	case []any:
		for _, one := range v {
			if name, ok := one.(string); ok && name != "" {
				names = append(names, name)
			}
		}
	}
	const most = 100
	return names[:min(len(names), most)]
}
