package openai

import (
	"net/http"

	"agentd/internal/authz"
	"agentd/internal/fault"
	"agentd/internal/httpapi"
)

// ModelEntry is an agent as the model list shows it.
type ModelEntry struct {
	ID          string `json:"id" required:"true"`
	Object      string `json:"object" required:"true"`
	Created     int64  `json:"created" required:"true" doc:"Unix seconds."`
	OwnedBy     string `json:"owned_by" required:"true"`
	DisplayName string `json:"display_name" doc:"The agent's name."`
}

// NewModelEntry makes the entry of a thing that can be asked.
func NewModelEntry(id, tenant, name string, created int64) ModelEntry {
	return ModelEntry{ID: id, Object: "model", Created: created, OwnedBy: tenant, DisplayName: name}
}

// ModelList is the answer of GET /v1/models.
type ModelList struct {
	Object string       `json:"object" required:"true"`
	Data   []ModelEntry `json:"data" required:"true"`
}

// List answers GET /v1/models.
func (c *Chat) List(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	all, err := c.Models.Models(r.Context(), who.TenantID)
	if err != nil {
		return err
	}
	if all == nil {
		all = []ModelEntry{}
	}
	return httpapi.JSON(w, http.StatusOK, ModelList{"list", all})
}

// Model answers GET /v1/models/{id}. Ids may hold a slash: agent/<id>.
func (c *Chat) Model(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	id := r.PathValue("model")
	all, err := c.Models.Models(r.Context(), who.TenantID)
	if err != nil {
		return err
	}
	want := (&ChatRequest{Model: id}).AgentID()
	for _, m := range all {
		if m.ID == want {
			return httpapi.JSON(w, http.StatusOK, m)
		}
	}
	return fault.New(fault.NotFound, "model_not_found", "There is no agent %q in this company.", id)
}
