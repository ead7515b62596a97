-- What people are told; see package notification.

-- +goose Up
CREATE TABLE notifications (
    tenant_id       TEXT   NOT NULL,
    seq             BIGINT NOT NULL, -- rises in the order of the tenant's commits
    notification_id TEXT   NOT NULL,
    user_id         TEXT   NOT NULL, -- '': for everybody
    type            TEXT   NOT NULL,
    priority        TEXT   NOT NULL,
    title           TEXT   NOT NULL,
    message         TEXT   NOT NULL,
    data            TEXT,            -- a JSON object
    action_url      TEXT   NOT NULL,
    source_kind     TEXT   NOT NULL, -- '': none
    source_id       TEXT   NOT NULL,
    dedup_key       TEXT   NOT NULL, -- '': none
    created_at      BIGINT NOT NULL,
    read_at         BIGINT NOT NULL, -- 0: not read
    PRIMARY KEY (tenant_id, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX notifications_id ON notifications (tenant_id, notification_id);
CREATE UNIQUE INDEX notifications_dedup ON notifications (tenant_id, dedup_key) WHERE dedup_key <> '';
CREATE INDEX notifications_unread ON notifications (tenant_id, seq) WHERE read_at = 0;

-- The highest number that each tenant's notifications have had.
CREATE TABLE notification_numbers (
    tenant_id TEXT   NOT NULL PRIMARY KEY,
    last_seq  BIGINT NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE notification_numbers;
DROP TABLE notifications;
