-- A code belongs to the browser that asked for it, and a repeated write to the
-- credential that made it; see packages signin and idempotency.

-- +goose Up
ALTER TABLE idempotency RENAME COLUMN user_id TO credential_id;

-- A code that was mailed, until it is used or has expired.
CREATE TABLE signin_attempts (
    email      TEXT    NOT NULL,
    browser    BYTEA   NOT NULL, -- SHA-256 of what the browser that asked keeps
    code_hash  BYTEA   NOT NULL, -- of six digits
    long_hash  BYTEA   NOT NULL, -- of the code that any browser may enter; empty: none
    terms      BOOLEAN NOT NULL, -- accepted when it was asked for
    wrong      BIGINT  NOT NULL, -- tries by the browser that asked
    elsewhere  BIGINT  NOT NULL, -- wrong tries by others
    expires_at BIGINT  NOT NULL,
    PRIMARY KEY (email, browser)
) WITHOUT ROWID;

CREATE INDEX signin_attempts_expires ON signin_attempts (expires_at);

INSERT INTO signin_attempts (email, browser, code_hash, long_hash, terms, wrong, elsewhere, expires_at)
SELECT email, code_hash, code_hash, substr(code_hash, 1, 0), terms, 0, wrong, expires_at FROM signin_codes WHERE length(code_hash) > 0;

-- What is left of signin_codes counts what was asked for and tried at an address.
ALTER TABLE signin_codes DROP COLUMN code_hash;
ALTER TABLE signin_codes DROP COLUMN terms;
ALTER TABLE signin_codes DROP COLUMN wrong;
ALTER TABLE signin_codes DROP COLUMN expires_at;
ALTER TABLE signin_codes ADD COLUMN asked_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE signin_codes ADD COLUMN tried BIGINT NOT NULL DEFAULT 0; -- wrong six-digit codes within a day
ALTER TABLE signin_codes ADD COLUMN tried_since BIGINT NOT NULL DEFAULT 0; -- when that day began
UPDATE signin_codes SET asked_at = forget_at - 3600000000;
ALTER TABLE signin_codes RENAME TO signin_addresses;

-- +goose Down
ALTER TABLE signin_addresses RENAME TO signin_codes;
ALTER TABLE signin_codes DROP COLUMN tried_since;
ALTER TABLE signin_codes DROP COLUMN tried;
ALTER TABLE signin_codes DROP COLUMN asked_at;
ALTER TABLE signin_codes ADD COLUMN expires_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE signin_codes ADD COLUMN wrong BIGINT NOT NULL DEFAULT 0;
ALTER TABLE signin_codes ADD COLUMN terms BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE signin_codes ADD COLUMN code_hash BYTEA NOT NULL DEFAULT '';
DROP TABLE signin_attempts;
ALTER TABLE idempotency RENAME COLUMN credential_id TO user_id;
