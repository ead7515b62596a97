-- An address gets notifications after it confirmed that it wants them, at a bounded
-- rate, and until it unsubscribes; see package notification.

-- +goose Up
ALTER TABLE notification_targets ADD COLUMN confirmed_at  BIGINT NOT NULL DEFAULT 0; -- 0: not yet
ALTER TABLE notification_targets ADD COLUMN confirm_until BIGINT NOT NULL DEFAULT 0; -- end of the link in the letter
ALTER TABLE notification_targets ADD COLUMN confirm_hash  BYTEA;                     -- SHA-256 of the link's token
UPDATE notification_targets SET confirmed_at = created_at;

CREATE TABLE notification_optouts (
    tenant_id    TEXT   NOT NULL,
    address_hash BYTEA  NOT NULL, -- SHA-256
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, address_hash)
) WITHOUT ROWID;

-- How many emails were sent since a time.
CREATE TABLE notification_mail (
    tenant_id TEXT   NOT NULL, -- '' counts those of all companies
    subject   TEXT   NOT NULL, -- what is counted: a kind of email, or one for an address's hash
    since     BIGINT NOT NULL,
    sent      BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, subject)
) WITHOUT ROWID;
CREATE INDEX notification_mail_since ON notification_mail (since);

-- +goose Down
DROP TABLE notification_mail;
DROP TABLE notification_optouts;
ALTER TABLE notification_targets DROP COLUMN confirm_hash;
ALTER TABLE notification_targets DROP COLUMN confirm_until;
ALTER TABLE notification_targets DROP COLUMN confirmed_at;
