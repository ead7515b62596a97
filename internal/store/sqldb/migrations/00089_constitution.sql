-- The rules that a company's agents act under, by version, and whether it is in safe
-- mode; see package constitution.

-- +goose Up
CREATE TABLE governance_states ( -- read before acts; its row is locked by what changes the rules
    tenant_id    TEXT   NOT NULL PRIMARY KEY,
    version      BIGINT NOT NULL, -- of the constitution; 0: there is none
    mode         TEXT   NOT NULL, -- normal | safe_mode
    reason       TEXT   NOT NULL,
    activated_at BIGINT NOT NULL, -- 0 in mode normal
    activated_by TEXT   NOT NULL,
    deadline     BIGINT NOT NULL  -- when the mode ends by itself; 0: never
) WITHOUT ROWID;

CREATE TABLE constitutions (
    tenant_id  TEXT   NOT NULL,
    version    BIGINT NOT NULL, -- from 1
    rules      TEXT   NOT NULL, -- a JSON array
    amendments TEXT   NOT NULL, -- a JSON array: what this version changed
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, version)
);

-- +goose Down
DROP TABLE constitutions;
DROP TABLE governance_states;
