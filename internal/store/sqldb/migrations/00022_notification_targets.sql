-- How each person wants to be told, and where; see package notification.

-- +goose Up
CREATE TABLE notification_prefs (
    tenant_id  TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    body       TEXT   NOT NULL, -- a JSON object
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
) WITHOUT ROWID;

CREATE TABLE notification_targets (
    tenant_id   TEXT    NOT NULL,
    target_id   TEXT    NOT NULL,
    user_id     TEXT    NOT NULL,
    label       TEXT    NOT NULL,
    enabled     BOOLEAN NOT NULL,
    kind        TEXT    NOT NULL, -- email | webhook
    sealed      BYTEA   NOT NULL, -- where it leads and what it is signed with
    created_at  BIGINT  NOT NULL,
    last_at     BIGINT  NOT NULL, -- of the last delivery's outcome; 0: none
    last_error  TEXT    NOT NULL, -- '': it was delivered
    PRIMARY KEY (tenant_id, target_id)
) WITHOUT ROWID;
CREATE INDEX notification_targets_user ON notification_targets (tenant_id, user_id, target_id);

-- +goose Down
DROP TABLE notification_targets;
DROP TABLE notification_prefs;
