package skill

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/tool"
)

// ToolName is the name of the tool that gives a skill's instructions.
const ToolName = agent.SkillTool

const parameters = `{"type":"object","properties":{` +
	`"name":{"type":"string","minLength":1,"maxLength":200,"description":"Name of the skill"}` +
	`},"required":["name"],"additionalProperties":false}`

// Workspaces is the port to the workspaces of runs.
type Workspaces interface {
	// OfCall returns the workspace that a call works in.
	OfCall(ctx context.Context, call tool.Call) (id string, err error)
	// Write writes a file, and replaces what stands at its path.
	Write(ctx context.Context, tenant, workspace, path, mimeType string, st *blob.Staged) error
}

// Files is the port to uploaded files.
type Files interface {
	// Read opens a file. Errors: fault.NotFound.
	Read(ctx context.Context, tenant, id string) (mimeType string, content io.ReadCloser, err error)
	Add(ctx context.Context, tenant, name string, st *blob.Staged) (id string, err error)
	Delete(ctx context.Context, tenant, id string) error
}

// Set returns the tools of an agent with these skills: none where no skill has
// instructions.
func (s *Service) Set(skills []agent.Skill) tool.Set {
	if !agent.UsableSkills(skills) {
		return tool.Set{}
	}
	// The definition is valid: a test compiles it.
	set, _ := s.Tools.Compile(tool.Tool{
		Name: ToolName, Parameters: jsontext.Value(parameters), Idempotent: true,
		Description: "Gives the instructions of one of your skills, and puts its files into your workspace. " +
			"Call it before you do what the skill is for.",
		Run: func(ctx context.Context, call tool.Call) (tool.Result, error) {
			return s.use(ctx, skills, call)
		},
	})
	var own []string
	for _, k := range skills {
		if k.Usable() {
			own = append(own, k.AllowedTools...)
		}
	}
	allowed, _ := s.Tools.Select(own) // names of other systems' tools mean nothing here
	return set.Join(allowed)
}

func (s *Service) use(ctx context.Context, skills []agent.Skill, call tool.Call) (tool.Result, error) {
	var in struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal([]byte(call.Arguments), &in); err != nil {
		return tool.Result{}, err
	}
	var names []string
	for _, k := range skills {
		if !k.Usable() {
			continue
		}
		if !strings.EqualFold(k.Name, strings.TrimSpace(in.Name)) {
			names = append(names, k.Name)
			continue
		}
		placed, failure, err := s.place(ctx, k, call)
		if err != nil || failure != nil {
			return orNothing(failure), err
		}
		text := k.Instructions
		if len(placed) > 0 {
			text += "\n\nThe files of this skill are in your workspace:\n- " + strings.Join(placed, "\n- ")
		}
		return tool.Result{Output: text}, nil
	}
	return tool.Failure(fmt.Sprintf("There is no skill %.200q. Your skills are: %s.", in.Name, strings.Join(names, ", "))), nil
}

func orNothing(r *tool.Result) tool.Result {
	if r == nil {
		return tool.Result{}
	}
	return *r
}

// place puts the files of a skill into the workspace of a call, and returns their paths. A
// non-nil failure is the tool's result.
func (s *Service) place(ctx context.Context, k agent.Skill, call tool.Call) (placed []string, failure *tool.Result, err error) {
	if len(k.Files) == 0 {
		return nil, nil, nil
	}
	workspace, err := s.Workspaces.OfCall(ctx, call)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range k.Files {
		at := Folder(k.Name) + "/" + f.Path
		err := s.placeOne(ctx, f, call.TenantID, workspace, at)
		if wrong := fault.From(err); err != nil && wrong.Kind != fault.Internal && wrong.Kind != fault.Unavailable {
			r := tool.Failure(fmt.Sprintf("The file %.200q of the skill cannot be put into the workspace: %s", f.Path, wrong.Detail))
			return nil, &r, nil
		}
		if err != nil {
			return nil, nil, err
		}
		placed = append(placed, at)
	}
	return placed, nil, nil
}

func (s *Service) placeOne(ctx context.Context, f agent.SkillFile, tenant, workspace, at string) error {
	mimeType, content := "", io.Reader(strings.NewReader(f.Content))
	if f.FileID != "" {
		kind, from, err := s.Files.Read(ctx, tenant, f.FileID)
		if err != nil {
			return err
		}
		defer from.Close()
		mimeType, content = kind, from
	}
	st, err := s.Blobs.Stage(ctx, tenant, content)
	if err != nil {
		return err
	}
	return s.Workspaces.Write(ctx, tenant, workspace, at, mimeType, st)
}

// Folder returns the folder of a workspace that a skill's files are in.
func Folder(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	return "skills/" + strings.Trim(clean[:min(len(clean), 100)], "-")
}
