package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

const configPath = "/api/v1/admin/config"

type configGetCommand struct {
	remote
	Section string `arg:"" help:"Section of the settings, as runtime or rate-limits; docs/settings.md lists them."`
}

// Run implements the command.
func (cmd *configGetCommand) Run(s *server) error {
	doc, err := get[jsontext.Value](s, client.Path(configPath, cmd.Section))
	if err != nil {
		return err
	}
	return s.printJSON(doc.Raw)
}

type configSetCommand struct {
	remote
	Section string   `arg:"" help:"Section of the settings, as runtime or rate-limits."`
	Values  []string `arg:"" name:"key=value" help:"What changes: KEY=VALUE, where VALUE is JSON or a text; or a whole JSON object. null takes a key back."`
}

// Run implements the command.
func (cmd *configSetCommand) Run(s *server) error {
	body, err := patchOf(cmd.Values)
	if err != nil {
		return err
	}
	doc, err := call[jsontext.Value](s, http.MethodPut, client.Path(configPath, cmd.Section), body)
	if err != nil {
		return err
	}
	return s.printJSON(doc.Raw)
}

// patchOf reads what a section is changed to.
func patchOf(values []string) (any, error) {
	if len(values) == 1 && strings.HasPrefix(strings.TrimSpace(values[0]), "{") {
		v := jsontext.Value(values[0])
		if !v.IsValid() {
			return nil, usageError("%s is no JSON object", values[0])
		}
		return v, nil
	}
	patch := map[string]jsontext.Value{}
	for _, one := range values {
		key, text, ok := strings.Cut(one, "=")
		if !ok || key == "" {
			return nil, usageError("%q is no KEY=VALUE, as max_steps=500", one)
		}
		value := jsontext.Value(text)
		if !value.IsValid() {
			quoted, err := jsontext.AppendQuote(nil, text)
			if err != nil {
				return nil, usageError("the value of %s is no text: %v", key, err)
			}
			value = quoted
		}
		patch[key] = value
	}
	return patch, nil
}

type configExportCommand struct {
	remote
}

// Run implements the command.
func (cmd *configExportCommand) Run(s *server) error {
	doc, err := get[jsontext.Value](s, configPath+"/export")
	if err != nil {
		return err
	}
	return s.printJSON(doc.Raw)
}

type configImportCommand struct {
	remote
	File   string `arg:"" help:"File that admin config export wrote; - for the standard input."`
	DryRun bool   `help:"Check the file and change nothing."`
}

// maxSettings bounds the bytes of a document of settings.
const maxSettings = 16 << 20

// Run implements the command.
func (cmd *configImportCommand) Run(s *server) (err error) {
	from := s.deps.Stdin
	if cmd.File != "-" {
		file, err := os.Open(cmd.File)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxSettings))
	if err != nil {
		return err
	}
	var doc struct {
		Version  int64                     `json:"format_version,omitzero"`
		Source   string                    `json:"source,omitzero"`
		Sections map[string]jsontext.Value `json:"sections"`
		DryRun   bool                      `json:"dry_run,omitzero"`
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.Sections == nil {
		return fmt.Errorf("%s is no document of settings, as admin config export writes it", cmd.File)
	}
	doc.DryRun = cmd.DryRun
	done, err := call[struct {
		Sections []string `json:"sections"`
	}](s, http.MethodPost, configPath+"/import", doc)
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(done.Raw)
	}
	verb := "Imported"
	if cmd.DryRun {
		verb = "Checked"
	}
	s.say("%s %d sections: %s", verb, len(done.Value.Sections), strings.Join(done.Value.Sections, ", "))
	return nil
}
