-- The agent that stands at the top of a company's agents, and what its founder signed
-- about it.

-- +goose Up
ALTER TABLE governance_states ADD COLUMN root_agent_id TEXT NOT NULL DEFAULT '';
ALTER TABLE governance_states ADD COLUMN attestation TEXT NOT NULL DEFAULT ''; -- a JSON object; empty: none

-- +goose Down
ALTER TABLE governance_states DROP COLUMN attestation;
ALTER TABLE governance_states DROP COLUMN root_agent_id;
