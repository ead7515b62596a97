package skill

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/tool"
)

// Service imports skills, and provides the tool that uses them.
type Service struct {
	Agents     *agent.Agents
	Files      Files
	Workspaces Workspaces
	Blobs      *blob.Store
	Tools      *tool.Registry // its limits apply
}

type importIn struct {
	AgentID string `path:"agentId"`
	Body    route.Upload
}

// importJSON is an archive in a JSON body.
type importJSON struct {
	_ struct{} `json:"-" name:"SkillImport"`

	Data string `json:"data" required:"true" doc:"The zip in base64."`
}

// example is the body of an import: SKILL.md with a greeting.
const example = `{"data":"` + "UEsDBBQAAAAAAAAAIlyFOglTOwAAADsAAAAIAAAAU0tJTEwubWQtLS0KbmFtZTogZ3JlZXRpbmcKZGVzY3JpcHRpb246IFNheXMg" +
	"aGVsbG8uCi0tLQpTYXkgaGVsbG8uClBLAQIUAxQAAAAAAAAAIlyFOglTOwAAADsAAAAIAAAAAAAAAAAAAACAAQAAAABTS0lMTC5t" +
	"ZFBLBQYAAAAAAQABADYAAABhAAAAAAA=" + `"}`

// content returns the archive of a request.
func (in *importIn) content() (io.Reader, error) {
	if in.Body.Content != nil {
		return in.Body.Content, nil
	}
	body, err := schema.Decode[importJSON](in.Body.JSON)
	if err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(body.Data)
	if err != nil {
		return nil, fault.BadFields(fault.Field{Field: "data", Message: "it is not base64 with padding"})
	}
	return bytes.NewReader(data), nil
}

// Imported is a skill that was imported.
type Imported struct {
	_ struct{} `json:"-" name:"ImportedSkill"`

	AgentID      string   `json:"agent_id" required:"true"`
	Name         string   `json:"name" required:"true"`
	Description  string   `json:"description" required:"true"`
	Files        []string `json:"files" required:"true" doc:"Paths of its files, as its instructions name them."`
	AllowedTools []string `json:"allowed_tools" required:"true" doc:"Tools that it brings to the agent: those built-in ones that it names."`
	Ignored      []string `json:"ignored_tools" required:"true" doc:"Names that it has and that are no built-in tool."`
	Replaced     bool     `json:"replaced" required:"true" doc:"Whether the agent had a skill of this name."`
}

// Routes returns the operation.
func (s *Service) Routes() []route.Route {
	return []route.Route{route.Action(route.Row{
		Method: "POST", Path: "/api/v1/agents/{agentId}/skills/import", ID: "importAgentSkill", Tag: "Agents",
		Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer, Uploads: []string{route.Form, route.JSON},
		BodyOf: reflect.TypeFor[importJSON](), Example: example,
		Summary: "Add a skill in the Agent Skills format to an agent",
		Doc: "Send a form with a zip in the field file, up to 10 MiB, or base64 in JSON: " +
			"SKILL.md with its front matter (name, description, allowed-tools), " +
			"and up to 100 files beside it. A skill of the same name is replaced. Links, and paths that lead out of the folder, are refused.",
		Errors: []int{404, 409, 413, 422},
	}, s.add)}
}

func (s *Service) add(ctx context.Context, who authz.Caller, in *importIn) (*Imported, error) {
	if _, err := s.Agents.Get(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	from, err := in.content()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(from, MaxArchive+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > MaxArchive:
		return nil, fault.BadFields(fault.Field{Field: "file", Message: "the archive is larger than 10 MiB"})
	}
	p, err := Parse(data)
	if err != nil {
		return nil, fault.BadFields(fault.Field{Field: "file", Message: "the archive cannot be used: " + err.Error()})
	}
	out := &Imported{
		AgentID: in.AgentID, Name: p.Name, Description: p.Description, Files: []string{}, AllowedTools: []string{}, Ignored: []string{},
	}
	_, unknown := s.Tools.Select(p.AllowedTools)
	for _, name := range p.AllowedTools {
		if slices.Contains(unknown, name) {
			out.Ignored = append(out.Ignored, name)
		} else {
			out.AllowedTools = append(out.AllowedTools, name)
		}
	}
	k := agent.Skill{
		ID: strings.TrimPrefix(Folder(p.Name), "skills/"), Name: p.Name, Description: p.Description, Instructions: p.Instructions,
		AllowedTools: out.AllowedTools,
	}
	for i := range p.Files {
		out.Files = append(out.Files, p.Files[i].Path)
	}
	added, err := s.store(ctx, who.TenantID, p, &k)
	if err == nil {
		err = s.put(ctx, who, in.AgentID, k, out)
	}
	if err != nil {
		for _, id := range added { // nothing refers to them
			_ = s.Files.Delete(context.WithoutCancel(ctx), who.TenantID, id)
		}
		return nil, err
	}
	return out, nil
}

// store keeps the files of a skill, and returns their ids.
func (s *Service) store(ctx context.Context, tenant string, p *Parsed, k *agent.Skill) (ids []string, err error) {
	ctx = txn.WithoutRequestHook(ctx) // the answers of the parts are not that of the request
	for _, f := range p.Files {
		st, err := s.Blobs.StageBytes(ctx, tenant, f.Data)
		if err != nil {
			return ids, err
		}
		id, err := s.Files.Add(ctx, tenant, path.Base(f.Path), st)
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
		k.Files = append(k.Files, agent.SkillFile{Path: f.Path, FileID: id})
	}
	return ids, nil
}

// put stores a skill in the agent, in place of one of its name.
func (s *Service) put(ctx context.Context, who authz.Caller, agentID string, k agent.Skill, out *Imported) error {
	raw, err := json.Marshal(k)
	if err != nil {
		return err
	}
	ctx = txn.WithAnswer(ctx, func() any { return out })
	_, err = s.Agents.Store().Update(ctx, who, agentID, func(_ txn.Tx, g *agent.Agent) error {
		out.Replaced = false
		for i := range g.Skills {
			var other agent.Skill
			if json.Unmarshal(g.Skills[i], &other) == nil && other.Name == k.Name {
				g.Skills[i], out.Replaced = schema.ObjectOf[agent.Skill](raw), true
				return nil
			}
		}
		if len(g.Skills) >= agent.MaxSkills {
			return fault.New(fault.Conflict, "TOO_MANY_SKILLS", "The agent has %d skills already; remove one first.", agent.MaxSkills)
		}
		g.Skills = append(g.Skills, schema.ObjectOf[agent.Skill](raw))
		return nil
	})
	return err
}
