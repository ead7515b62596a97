-- Objectives of missions and initiatives, and what is done for them; see package objective.

-- +goose Up
CREATE TABLE objectives (
    tenant_id    TEXT   NOT NULL,
    owner_id     TEXT   NOT NULL, -- a mission or an initiative
    seq          BIGINT NOT NULL,
    objective_id TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    plan         TEXT   NOT NULL, -- what callers change
    state        TEXT   NOT NULL, -- what only the holder of the owner's work changes
    PRIMARY KEY (tenant_id, owner_id, seq)
);
CREATE UNIQUE INDEX objectives_id ON objectives (tenant_id, owner_id, objective_id);

CREATE TABLE objective_tasks (
    tenant_id TEXT   NOT NULL,
    owner_id  TEXT   NOT NULL,
    seq       BIGINT NOT NULL,
    applied   BIGINT NOT NULL, -- 1: it has ended, and what follows from that is stored
    body      TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, owner_id, seq)
);
CREATE INDEX objective_tasks_open ON objective_tasks (tenant_id, owner_id, applied, seq);

-- How far initiatives are; their configuration is a document. See package initiative.
CREATE TABLE initiative_states (
    tenant_id     TEXT   NOT NULL,
    initiative_id TEXT   NOT NULL,
    asked         BIGINT NOT NULL, -- how often callers asked for something
    tick_now      BIGINT NOT NULL, -- 1: a caller asked for a tick
    event_seq     BIGINT NOT NULL,
    state         TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, initiative_id)
);

-- +goose Down
DROP TABLE initiative_states;
DROP TABLE objective_tasks;
DROP TABLE objectives;
