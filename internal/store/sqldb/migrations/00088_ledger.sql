-- The governance ledger; see package ledger. An entry is written unsealed with what it
-- records; a sealer chains entries in batches, so that transactions of one tenant
-- do not wait for each other.

-- +goose Up
CREATE TABLE ledger_unsealed (
    tenant_id        TEXT   NOT NULL,
    entry_id         TEXT   NOT NULL,
    at               BIGINT NOT NULL,
    kind             TEXT   NOT NULL,
    actor_agent_id   TEXT   NOT NULL, -- '' where it was not an agent
    actor_user_id    TEXT   NOT NULL, -- ''
    subject_agent_id TEXT   NOT NULL, -- ''
    rule_id          TEXT   NOT NULL, -- ''
    run_id           TEXT   NOT NULL, -- ''
    details          TEXT   NOT NULL, -- a JSON object, canonical
    PRIMARY KEY (tenant_id, entry_id)
) WITHOUT ROWID;

CREATE TABLE ledger (
    tenant_id        TEXT   NOT NULL,
    seq              BIGINT NOT NULL, -- from 1, without gaps
    entry_id         TEXT   NOT NULL,
    at               BIGINT NOT NULL,
    category         TEXT   NOT NULL, -- the part of kind before the dot
    kind             TEXT   NOT NULL,
    actor_agent_id   TEXT   NOT NULL,
    actor_user_id    TEXT   NOT NULL,
    subject_agent_id TEXT   NOT NULL,
    rule_id          TEXT   NOT NULL,
    run_id           TEXT   NOT NULL,
    details          TEXT   NOT NULL,
    prev_hash        TEXT   NOT NULL, -- '' in the first entry
    hash             TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, seq)
) WITHOUT ROWID;
CREATE INDEX ledger_category ON ledger (tenant_id, category, seq);
CREATE INDEX ledger_kind ON ledger (tenant_id, kind, seq);
CREATE INDEX ledger_subject ON ledger (tenant_id, subject_agent_id, seq) WHERE subject_agent_id <> '';
CREATE INDEX ledger_subject_category ON ledger (tenant_id, subject_agent_id, category, seq) WHERE subject_agent_id <> '';

CREATE TABLE ledger_heads ( -- the last entry; its row is locked while entries are sealed
    tenant_id TEXT   NOT NULL PRIMARY KEY,
    seq       BIGINT NOT NULL,
    hash      TEXT   NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE ledger_heads;
DROP TABLE ledger;
DROP TABLE ledger_unsealed;
