package openai

import (
	"net/http"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/runstream"
)

// ModelEntry is an agent or a team in the list of models.
type ModelEntry struct {
	ID          string `json:"id" required:"true"`
	Object      string `json:"object" required:"true" enum:"model"`
	Created     int64  `json:"created" required:"true" doc:"Unix seconds."`
	OwnedBy     string `json:"owned_by" required:"true" doc:"The company's id."`
	Name        string `json:"name" doc:"The name of the agent or the team."`
	DisplayName string `json:"display_name" doc:"The name of the agent or the team."`
}

// NewModelEntry returns the entry of an agent or a team.
func NewModelEntry(id, tenant, name string, created int64) ModelEntry {
	return ModelEntry{ID: id, Object: "model", Created: created, OwnedBy: tenant, Name: name, DisplayName: name}
}

// ModelList is the answer of GET /v1/models.
type ModelList struct {
	Object string       `json:"object" required:"true" enum:"list"`
	Data   []ModelEntry `json:"data" required:"true"`
}

// List serves GET /v1/models.
func (c *Chat) List(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	all, err := c.Models.Models(r.Context(), who.TenantID)
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, ModelList{"list", all})
}

// Model serves GET /v1/models/{model}. The model may have the prefix agent/, with its
// slash escaped or not.
func (c *Chat) Model(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	return c.model(w, r, who, r.PathValue("model"))
}

// Team serves GET /v1/models/team/{model}.
func (c *Chat) Team(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	return c.model(w, r, who, runstream.TeamPrefix+r.PathValue("model"))
}

func (c *Chat) model(w http.ResponseWriter, r *http.Request, who authz.Caller, name string) error {
	id, err := c.Runner.AgentID(r.Context(), who.TenantID, name)
	if err != nil {
		return err
	}
	m, err := c.Models.Model(r.Context(), who.TenantID, id)
	if fault.Is(err, fault.NotFound) {
		return runstream.NoAgent(name)
	}
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, m)
}
