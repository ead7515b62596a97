-- Machines that carry the runs of their agents, the runs that they have, and which of their
-- reports are taken; see package bridge.

-- +goose Up
CREATE TABLE bridge_machines (
    tenant_id     TEXT   NOT NULL,
    machine_id    TEXT   NOT NULL, -- chosen by the machine
    agent_id      TEXT   NOT NULL,
    user_id       TEXT   NOT NULL, -- the member whose keys it uses
    facts         TEXT   NOT NULL, -- what it says of itself
    registered_at BIGINT NOT NULL,
    seen_at       BIGINT NOT NULL,
    left_at       BIGINT NOT NULL, -- when it said goodbye; 0: it has not
    deleted_at    BIGINT NOT NULL, -- when its agent was deleted; 0: it was not
    PRIMARY KEY (tenant_id, machine_id)
);
CREATE INDEX bridge_machines_agent ON bridge_machines (tenant_id, agent_id);

CREATE TABLE bridge_tasks (
    tenant_id TEXT   NOT NULL,
    task_id   TEXT   NOT NULL, -- the id of its run
    agent_id  TEXT   NOT NULL,
    body      TEXT   NOT NULL, -- as the machine gets it
    taken     BIGINT NOT NULL, -- 1: the machine has reported on it
    offer_at  BIGINT NOT NULL, -- when a poll may give it again
    events    BIGINT NOT NULL, -- that were reported
    bytes     BIGINT NOT NULL, -- of them
    queued_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
);
CREATE INDEX bridge_tasks_agent ON bridge_tasks (tenant_id, agent_id, task_id);

CREATE TABLE bridge_events (
    tenant_id TEXT NOT NULL,
    task_id   TEXT NOT NULL,
    event_key TEXT NOT NULL, -- what is reported with the same one counts once
    PRIMARY KEY (tenant_id, task_id, event_key)
);

-- +goose Down
DROP TABLE bridge_events;
DROP TABLE bridge_tasks;
DROP TABLE bridge_machines;
