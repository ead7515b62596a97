package app

import (
	"context"
	"io"

	"agentd/internal/content/file"
	"agentd/internal/content/skill"
	"agentd/internal/kernel/blob"
)

// newSkills makes what imports and uses the skills of agents.
func newSkills(content *content, tools *tools, agents *agents) *skill.Service {
	return &skill.Service{
		Agents: agents.agents, Files: skillFiles{content.files}, Workspaces: content.workspaces, Blobs: content.blobs, Tools: tools.registry,
	}
}

// skillFiles implements skill.Files.
type skillFiles struct{ files *file.Service }

// Read implements skill.Files.
func (f skillFiles) Read(ctx context.Context, tenant, id string) (string, io.ReadCloser, error) {
	got, opened, err := f.files.Open(ctx, tenant, id)
	if err != nil {
		return "", nil, err
	}
	return got.MimeType, opened, nil
}

// Add implements skill.Files.
func (f skillFiles) Add(ctx context.Context, tenant, name string, st *blob.Staged) (string, error) {
	got, err := f.files.Add(ctx, tenant, name, "", st)
	if err != nil {
		return "", err
	}
	return got.FileID, nil
}

// Delete implements skill.Files.
func (f skillFiles) Delete(ctx context.Context, tenant, id string) error {
	_, err := f.files.Erase(ctx, tenant, id)
	return err
}
