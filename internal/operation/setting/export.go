package setting

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
)

// formatVersion is that of the document. A program refuses documents of later ones.
const formatVersion = 1

// Document is the settings as one document.
type Document struct {
	_ struct{} `json:"-" name:"AdminConfigDocument"`

	ExportedAt time.Time                 `json:"exported_at" required:"true"`
	Version    int64                     `json:"format_version" required:"true" doc:"Of the document: 1."`
	Count      int                       `json:"section_count" required:"true"`
	Sections   map[string]jsontext.Value `json:"sections" required:"true" doc:"The sections that are set, by name, each as PUT takes it; without secrets."`
}

type importIn struct {
	Body struct {
		Version  int64                    `json:"format_version,omitzero" minimum:"1" doc:"As exported; left out: 1. Documents of later versions are refused."`
		Source   string                   `json:"source,omitzero" maxLength:"200" doc:"Where the document comes from; noted in the audit log."`
		Sections map[string]schema.Object `json:"sections" required:"true" doc:"The sections that are replaced, by name. Others stay as they are."`
		DryRun   bool                     `json:"dry_run,omitzero" doc:"Check the document and change nothing."`
	}
}

// Imported is what an import changed.
type Imported struct {
	_ struct{} `json:"-" name:"AdminConfigImported"`

	Imported int      `json:"imported" required:"true" doc:"How many sections were replaced."`
	Sections []string `json:"sections" required:"true"`
	DryRun   bool     `json:"dry_run,omitzero"`
}

// DocumentRoutes returns the operations that export and import all sections.
func (s *Service) DocumentRoutes() []route.Route {
	get := Operation("GET", "/config/export", "exportAdminConfig", "Export the settings",
		"All sections that are set, as one document that can be imported elsewhere. Secrets are left out.")
	get.Reads = "setting.exported"
	put := Operation("POST", "/config/import", "importAdminConfig", "Import settings",
		"Replaces the sections that the document has, all of them or none. What a section leaves out is as in the program's configuration; "+
			"secrets stay as they are.", 422)
	put.Example = `{"source": "staging", "sections": {"runtime": {"max_steps": 500}}, "dry_run": true}`
	get.Tag, put.Tag = "Admin Config", "Admin Config"
	return []route.Route{route.Action(get, s.exportAll), route.Action(put, s.importAll)}
}

func (s *Service) exportAll(context.Context, authz.Caller, *struct{}) (*Document, error) {
	d := &Document{ExportedAt: s.Clock.Now(), Version: formatVersion, Sections: map[string]jsontext.Value{}}
	for name, section := range s.sections {
		body, set, err := section.export()
		if err != nil {
			return nil, err
		}
		if set {
			if d.Sections[name], err = withoutSecrets(body); err != nil {
				return nil, err
			}
		}
	}
	d.Count = len(d.Sections)
	return d, nil
}

// withoutSecrets removes the members whose values are secrets.
func withoutSecrets(body jsontext.Value) (jsontext.Value, error) {
	if body.Kind() != '{' {
		return body, nil
	}
	members, err := schema.Members(body)
	if err != nil {
		return nil, err
	}
	kept := map[string]jsontext.Value{}
	for _, m := range members {
		var text string
		if m.Value.Kind() == '"' && json.Unmarshal(m.Value, &text) == nil && text == secret.Redacted {
			continue
		}
		if kept[m.Name], err = withoutSecrets(m.Value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(kept, json.Deterministic(true))
}

// errDryRun ends the transaction of a dry run.
var errDryRun = fmt.Errorf("setting: dry run")

func (s *Service) importAll(ctx context.Context, who authz.Caller, in *importIn) (*Imported, error) {
	b := &in.Body
	if b.Version > formatVersion {
		return nil, fault.BadFields(fault.Field{Field: "format_version", Message: fmt.Sprintf(
			"is %d, of a newer version of agentd; this one reads up to %d", b.Version, formatVersion)})
	}
	names := slices.Sorted(maps.Keys(b.Sections))
	var wrong []fault.Field
	for _, name := range names {
		if s.sections[name] == nil {
			wrong = append(wrong, fault.Field{Field: "sections." + name, Message: "is no section of this version's settings"})
		}
	}
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	done := &Imported{Imported: len(names), Sections: orEmpty(names), DryRun: b.DryRun}
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		for _, name := range names { // in one order, as they are locked
			if err := s.sections[name].importTx(tx, who, jsontext.Value(b.Sections[name])); err != nil {
				return under("sections."+name, err)
			}
		}
		if b.DryRun {
			return errDryRun
		}
		return txn.Answer(tx, done)
	})
	if b.DryRun && err == errDryRun {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		s.changed(name)
	}
	return done, nil
}

func orEmpty(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

// under names the section that the fields of an error are in.
func under(place string, err error) error {
	f := fault.From(err)
	if err == nil || len(f.Fields) == 0 {
		return err
	}
	fields := slices.Clone(f.Fields)
	for i := range fields {
		fields[i] = fields[i].Under(place)
	}
	return fault.BadFields(fields...)
}
