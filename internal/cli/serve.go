package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"agentd/internal/base/config"
	"agentd/internal/store/sqldb"
)

type serveCommand struct {
	Config config.Config `embed:""`
}

// Run implements the command. The parser has validated the settings.
func (cmd *serveCommand) Run(inv *invocation) error {
	if inv.deps.Serve == nil {
		return errors.New("this program was built without the server")
	}
	if err := config.CheckEnvironment(inv.deps.Environ()); err != nil {
		return err
	}
	inv.warnOfReaders(cmd.Config.Storage)
	if wide := cmd.Config.ExposedFiles(); len(wide) > 0 {
		inv.note("Warning: everybody on this machine can read %s, which may hold keys. Keep them out:  chmod o-rwx %s",
			strings.Join(wide, " and "), strings.Join(quoted(wide), " "))
	}
	inv.noteNewDirectory(cmd.Config.Storage)
	settings := cmd.Config
	inv.serve = func() error { return inv.deps.Serve(inv, settings) }
	return nil
}

// noteNewDirectory points out that a start makes an empty database beside one that
// may have been meant.
func (inv *invocation) noteNewDirectory(s config.Storage) {
	if !s.DatabaseURL.Empty() || sqldb.Exists(s.DataDir) {
		return
	}
	if other := otherDatabase(s.DataDir); other != "" {
		inv.note("Note: %s has no database yet, so this start makes an empty one. There is one in %s; if you meant that one, stop, and set "+
			"AGENTD_DATA_DIR (--data-dir) to it.", s.DataDir, other)
	}
}

// maxSiblings is how many directories beside the data directory are looked at.
const maxSiblings = 200

// otherDatabase returns a directory with a database: the default data directory, or
// one beside dir. "" if there is none.
func otherDatabase(dir string) string {
	const usual = "agentd-data"
	if sqldb.Exists(usual) {
		return "./" + usual
	}
	parent := filepath.Dir(filepath.Clean(dir))
	folder, err := os.Open(parent)
	if err != nil {
		return ""
	}
	defer folder.Close()
	entries, _ := folder.ReadDir(maxSiblings) // as many as can be read
	for _, e := range entries {
		if path := filepath.Join(parent, e.Name()); e.IsDir() && sqldb.Exists(path) {
			return path
		}
	}
	return ""
}
