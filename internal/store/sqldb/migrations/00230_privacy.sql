-- What is looked up of a person, and which companies are under a legal hold; see package privacy.

-- +goose Up
CREATE INDEX team_runs_user ON team_runs (tenant_id, user_id, team_run_id) WHERE user_id <> '';
CREATE INDEX missions_user ON missions (tenant_id, user_id, mission_id) WHERE user_id <> '';
CREATE INDEX invites_email ON invites (tenant_id, email, invite_id);
ALTER TABLE tenants ADD COLUMN legal_hold BOOLEAN NOT NULL DEFAULT FALSE;
-- +only sqlite
UPDATE tenants SET legal_hold = TRUE WHERE json_extract(settings, '$.legal_hold') = 1;
-- +end
-- +only postgres
UPDATE tenants SET legal_hold = TRUE WHERE settings::jsonb -> 'legal_hold' = 'true'::jsonb;
-- +end
CREATE INDEX tenants_held ON tenants (tenant_id) WHERE legal_hold;

-- +goose Down
DROP INDEX tenants_held;
ALTER TABLE tenants DROP COLUMN legal_hold;
DROP INDEX invites_email;
DROP INDEX missions_user;
DROP INDEX team_runs_user;
