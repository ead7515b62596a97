package cli

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"agentd/internal/client"
)

type agentSkillAddCommand struct {
	remote
	agentArgument
	Dir string `arg:"" type:"existingdir" help:"Folder in the Agent Skills format: SKILL.md, and the files that it refers to."`
}

// importedSkill is the answer to an import.
type importedSkill struct {
	Name         string   `json:"name"`
	Files        []string `json:"files"`
	AllowedTools []string `json:"allowed_tools"`
	Ignored      []string `json:"ignored_tools"`
	Replaced     bool     `json:"replaced"`
}

// Run implements the command.
func (cmd *agentSkillAddCommand) Run(s *server) error {
	id, err := s.agentID(cmd.Agent)
	if err != nil {
		return err
	}
	archive, err := zipFolder(cmd.Dir)
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.Dir, err)
	}
	var made client.Doc[importedSkill]
	file := client.File{Name: "skill.zip", Type: "application/zip", Size: int64(len(archive)), Content: bytes.NewReader(archive)}
	if err := s.Upload(s, client.Path(client.AgentsPath, id, "skills", "import"), file, &made); err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(made.Raw)
	}
	verb := "Added"
	if made.Value.Replaced {
		verb = "Replaced"
	}
	s.say("%s the skill %s (files: %d).", verb, oneLine(made.Value.Name), len(made.Value.Files))
	if tools := made.Value.AllowedTools; len(tools) > 0 {
		s.say("It brings the tools %s.", oneLine(strings.Join(tools, ", ")))
	}
	if ignored := made.Value.Ignored; len(ignored) > 0 {
		s.note("It names tools that this server does not have: %s", oneLine(strings.Join(ignored, ", ")))
	}
	return nil
}

// zipFolder packs the files of a folder. What is hidden, and links, are left out.
func zipFolder(dir string) ([]byte, error) {
	const most = 20 << 20
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if _, err := root.Stat("SKILL.md"); err != nil {
		return nil, errors.New("the folder has no SKILL.md; see agentd agent skill add --help")
	}
	var packed bytes.Buffer
	w, total := zip.NewWriter(&packed), int64(0)
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		from, err := root.Open(path)
		if err != nil {
			return err
		}
		defer from.Close()
		to, err := w.Create(path)
		if err != nil {
			return err
		}
		n, err := io.Copy(to, io.LimitReader(from, most))
		if total += n; err == nil && total >= most {
			err = fmt.Errorf("it has more than %d MiB", most>>20)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = w.Close()
	return packed.Bytes(), err
}
