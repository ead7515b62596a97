-- The version of a company's permission sets and spawn policy, read together with that
-- of its constitution; see package permission. The sets are documents of resources.

-- +goose Up
ALTER TABLE governance_states ADD COLUMN permissions BIGINT NOT NULL DEFAULT 0; -- 0: there are none

-- +goose Down
ALTER TABLE governance_states DROP COLUMN permissions;
