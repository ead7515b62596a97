package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"agentd/internal/base/text"
	"agentd/internal/client"
)

const (
	basesPath  = "/api/v1/knowledge-bases"
	maxFiles   = 10_000   // files of a folder
	maxFile    = 30 << 20 // bytes of a file
	filesPath  = "/api/v1/files"
	maxInline  = 1 << 20          // bytes of a text that is sent in JSON
	uploadTime = 10 * time.Minute // for a file to be sent, and again for its text to be extracted
)

// knowledgeBase is what is shown of a knowledge base.
type knowledgeBase struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Documents   int       `json:"document_count"`
	Chunks      int       `json:"total_chunks"`
	CreatedAt   time.Time `json:"created_at"`
}

type kbListCommand struct{ listing }

// Run implements the command.
func (cmd *kbListCommand) Run(s *server) error {
	return list[knowledgeBase]{
		path: basesPath, limit: cmd.Limit,
		empty:   "There are no knowledge bases. Make one:  " + s.deps.Program + " kb create NAME",
		heading: []string{"~NAME", "DOCUMENTS", "CHUNKS", "CREATED", "ID"},
		row: func(b knowledgeBase) []string {
			return []string{b.Name, strconv.Itoa(b.Documents), strconv.Itoa(b.Chunks), formatTime(s.now(), b.CreatedAt), b.ID}
		},
	}.show(s)
}

type kbCreateCommand struct {
	remote
	Name        string `arg:"" help:"Name of the knowledge base."`
	Description string `placeholder:"TEXT" help:"What is in it."`
}

// Run implements the command.
func (cmd *kbCreateCommand) Run(s *server) error {
	made, err := call[knowledgeBase](s, http.MethodPost, basesPath, map[string]string{"name": cmd.Name, "description": cmd.Description})
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(made.Raw)
	}
	s.say("Created knowledge base %s (%s).", oneLine(made.Value.Name), made.Value.ID)
	s.note("Fill it:  %s kb add %s FILE…", s.deps.Program, quote(cmd.Name))
	return nil
}

// kbArgument is what every command has that takes a knowledge base.
type kbArgument struct {
	KB string `arg:"" name:"kb" help:"Knowledge base, by its id or its exact name."`
}

// path returns the path of the knowledge base in the API.
func (a kbArgument) path(s *server) (string, error) {
	return lookup[knowledgeBase]{
		path: basesPath, noun: "knowledge base", list: "kb list",
		key: func(one knowledgeBase) (id, name string) { return one.ID, one.Name },
	}.find(s, a.KB)
}

type kbAddCommand struct {
	remote
	kbArgument
	Files []string `arg:"" name:"file" help:"Files and folders; of a folder all files are added, except hidden ones. - is the standard input."`
	Name  string   `placeholder:"NAME" help:"Name of the document, where it is one file or the standard input."`
}

// document is what became of a file.
type document struct {
	Name       string `json:"name"`
	DocumentID string `json:"document_id,omitzero"`
	Chunks     int    `json:"chunks_created"`
	Error      string `json:"error,omitzero"`
}

// Run implements the command. It fails if a file could not be added, after it
// added the others.
func (cmd *kbAddCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	files, err := collect(cmd.Files)
	if err != nil {
		return err
	}
	if cmd.Name != "" && len(files) != 1 {
		return usageError("--name is the name of one document, and these are %d files", len(files))
	}
	progress := s.newProgress(len(files))
	defer progress.end()
	documents := make([]document, 0, len(files))
	failed := 0
	for _, file := range files {
		if s.Err() != nil {
			return fmt.Errorf("interrupted after %d of %s; what was added stays", len(documents), plural(len(files), "file"))
		}
		progress.step(file)
		d, err := s.addDocument(path, file, cmd.Name, progress)
		if err != nil {
			failed++
			d = document{Name: file, Error: explain(err)}
			progress.end()
			s.note("%s was not added: %s", file, d.Error)
		} else if !cmd.JSON {
			progress.end()
			s.say("Added %s, %s.", oneLine(d.Name), plural(d.Chunks, "chunk"))
		}
		documents = append(documents, d)
	}
	progress.end()
	if cmd.JSON {
		if err := s.printAny(items[document]{Items: documents}); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s could not be added; the reasons stand above", failed, plural(len(files), "file"))
	}
	return nil
}

// collect lists the files that are meant, those of folders in order.
func collect(names []string) (files []string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case name == "-":
			files = append(files, name)
			continue
		case err != nil:
			return nil, err
		case !info.IsDir():
			files = append(files, name)
			continue
		}
		before := len(files)
		err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
			hidden := path != name && strings.HasPrefix(entry.Name(), ".")
			switch {
			case err != nil:
				return err
			case hidden && entry.IsDir():
				return fs.SkipDir
			case !hidden && entry.Type().IsRegular():
				files = append(files, path)
			}
			if len(files) > maxFiles {
				return fmt.Errorf("%s has more than %d files; add its folders one by one", name, maxFiles)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(files) == before {
			return nil, fmt.Errorf("%s has no files to add; hidden ones are left out", name)
		}
	}
	return files, nil
}

// source is where a document is read from.
type source struct {
	io.Reader

	size  int64
	close func() error
}

// openSource opens a file; - is the standard input. What has no size, such as a pipe, is
// read at once.
func (s *server) openSource(file string) (source, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return source{}, err
		}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return source{f, info.Size(), f.Close}, nil
		}
		_ = f.Close() // nothing was written
	}
	raw, err := s.readFile(file)
	return source{bytes.NewReader(raw), int64(len(raw)), func() error { return nil }}, err
}

// addDocument adds one file: a short text as it is, anything else as an upload, which is
// read as it is sent.
func (s *server) addDocument(base, file, name string, progress *progress) (document, error) {
	from, err := s.openSource(file)
	if err != nil {
		return document{}, err
	}
	defer func() { _ = from.close() }() // nothing was written
	switch {
	case from.size > maxFile:
		return document{}, fmt.Errorf("it has %d MiB, and a file may have %d", from.size>>20, maxFile>>20)
	case from.size == 0:
		return document{}, errors.New("the file is empty; a document needs some text")
	case name != "":
	case file == "-":
		name = "standard input.txt"
	default:
		name = filepath.ToSlash(file)
	}
	head, err := io.ReadAll(io.LimitReader(from, maxInline))
	if err != nil {
		return document{}, err
	}
	body := map[string]any{"filename": name}
	if int64(len(head)) == from.size && utf8.Valid(head) && !packed(head) {
		body["content"] = string(head)
		return s.addBody(base, body)
	}
	upload := client.File{
		Name: filepath.Base(name), Type: mediaType(name, head), Size: from.size,
		Content: progress.reading(io.MultiReader(bytes.NewReader(head), from), from.size, name),
	}
	var uploaded struct {
		FileID string `json:"file_id"`
	}
	ctx, cancel := context.WithTimeout(s, uploadTime)
	defer cancel()
	if err := s.Upload(ctx, filesPath, upload, &uploaded); err != nil {
		return document{}, err
	}
	body["file_id"] = uploaded.FileID
	made, err := s.addBody(base, body)
	if err != nil {
		_ = s.Do(s, http.MethodDelete, client.Path(filesPath, uploaded.FileID), nil, nil) // nothing refers to it
	}
	return made, err
}

// addBody adds a document. The server extracts its text meanwhile, which takes long for
// a large PDF.
func (s *server) addBody(base string, body map[string]any) (document, error) {
	ctx, cancel := context.WithTimeout(s, uploadTime)
	defer cancel()
	var made document
	err := s.Do(ctx, http.MethodPost, base+"/documents", body, &made)
	return made, err
}

// mediaType returns the type of a file by its name. A text keeps no other type than that
// of a text: .ts is not always a video.
func mediaType(name string, head []byte) string {
	kind := mime.TypeByExtension(filepath.Ext(name))
	isText := !packed(head) && utf8.Valid(head[:max(0, len(head)-utf8.UTFMax)]) // a rune may be cut at the end
	if kind == "" || isText && !strings.HasPrefix(kind, "text/") {
		return "application/octet-stream"
	}
	return kind
}

// packed reports whether a file is a PDF or an archive such as DOCX, which is no text
// even where all of its bytes are.
func packed(raw []byte) bool {
	return bytes.HasPrefix(raw, []byte("%PDF-")) || bytes.HasPrefix(raw, []byte("PK\x03\x04"))
}

type kbDocumentsCommand struct {
	listing
	kbArgument
}

// Run implements the command.
func (cmd *kbDocumentsCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	type stored struct {
		ID        string    `json:"id"`
		Name      string    `json:"name"`
		Chunks    int       `json:"chunk_count"`
		Size      int       `json:"size_bytes"`
		Embedding string    `json:"embedding_status"`
		CreatedAt time.Time `json:"created_at"`
	}
	return list[stored]{
		path: path + "/documents", limit: cmd.Limit,
		empty:   "The knowledge base is empty. Fill it:  " + s.deps.Program + " kb add " + quote(cmd.KB) + " FILE…",
		heading: []string{"DOCUMENT", "~NAME", "CHUNKS", "BYTES", "EMBEDDING", "ADDED"},
		row: func(d stored) []string {
			return []string{d.ID, d.Name, strconv.Itoa(d.Chunks), strconv.Itoa(d.Size), d.Embedding, formatTime(s.now(), d.CreatedAt)}
		},
	}.show(s)
}

type kbSearchCommand struct {
	listing
	kbArgument
	Query []string `arg:"" help:"What to look for."`
}

// Run implements the command.
func (cmd *kbSearchCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	type hit struct {
		Score  float64 `json:"score"`
		Source string  `json:"source"`
		Text   string  `json:"text"`
	}
	var found struct {
		Results []client.Doc[hit] `json:"results"`
	}
	body := map[string]any{"query": strings.Join(cmd.Query, " ")}
	if cmd.Limit > 0 {
		body["limit"] = min(cmd.Limit, 100)
	}
	if err := s.Do(s, http.MethodPost, path+"/search", body, &found); err != nil {
		return err
	}
	return printFound(s, found.Results, []string{"SCORE", "~SOURCE", "~TEXT"}, func(h hit) []string {
		return []string{fmt.Sprintf("%.2f", h.Score), h.Source, text.Truncate(oneLine(h.Text), 160)}
	})
}

type kbDeleteCommand struct {
	remote
	kbArgument
	Yes bool `short:"y" help:"Do not ask."`
}

// Run implements the command.
func (cmd *kbDeleteCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	if err := s.confirm(cmd.Yes, "Delete knowledge base %s with all its documents?", cmd.KB); err != nil {
		return err
	}
	return s.send(http.MethodDelete, path, nil, "Deleted knowledge base %s.", cmd.KB)
}
