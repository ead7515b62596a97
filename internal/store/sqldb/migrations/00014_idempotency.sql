-- Writes that clients may repeat, and what they were answered; see package
-- idempotency.

-- +goose Up
CREATE TABLE idempotency (
    tenant_id  TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    idem_key   TEXT   NOT NULL,
    holder     TEXT   NOT NULL, -- the request that reserved the key
    request    BYTEA  NOT NULL, -- SHA-256 of method, path and query
    body       BYTEA  NOT NULL, -- SHA-256 of the body; zeros: not known yet
    status     BIGINT NOT NULL, -- of the answer; 0: there is none yet
    answer     BYTEA,           -- sealed
    lease      BIGINT NOT NULL, -- without an answer, the key is free after this
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, user_id, idem_key)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE idempotency;
