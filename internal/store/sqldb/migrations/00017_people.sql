-- People as members of several tenants, and invites; see package identity for
-- what the columns mean.

-- +goose Up
ALTER TABLE users ADD COLUMN email_verified BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE users ADD COLUMN avatar_url TEXT NOT NULL DEFAULT ''; -- '': none
ALTER TABLE users ADD COLUMN last_login_at BIGINT NOT NULL DEFAULT 0; -- 0: never

-- Until now only the operator's command line gave anybody an address.
UPDATE users SET email_verified = TRUE WHERE email <> '';

CREATE INDEX users_person ON users (email) WHERE email <> '';

ALTER TABLE tenants ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE tenants ADD COLUMN logo_url TEXT NOT NULL DEFAULT ''; -- '': none
ALTER TABLE tenants ADD COLUMN branding TEXT NOT NULL DEFAULT '{}'; -- a JSON object
ALTER TABLE tenants ADD COLUMN social_links TEXT NOT NULL DEFAULT '{}'; -- a JSON object

CREATE TABLE invites (
    tenant_id   TEXT    NOT NULL REFERENCES tenants (tenant_id),
    invite_id   TEXT    NOT NULL,
    email       TEXT    NOT NULL,
    role        TEXT    NOT NULL,
    status      TEXT    NOT NULL, -- pending also where it has expired and nobody looked since
    secret_hash BYTEA   NOT NULL, -- SHA-256
    mailed      BOOLEAN NOT NULL, -- the secret went to the address and nowhere else
    invited_by  TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    sent_at     BIGINT  NOT NULL,
    expires_at  BIGINT  NOT NULL,
    PRIMARY KEY (tenant_id, invite_id)
);

CREATE UNIQUE INDEX invites_id ON invites (invite_id);
CREATE UNIQUE INDEX invites_pending ON invites (tenant_id, email) WHERE status = 'pending';
CREATE INDEX invites_person ON invites (email) WHERE status = 'pending';

-- +goose Down
DROP TABLE invites;
DROP INDEX users_person;
ALTER TABLE tenants DROP COLUMN social_links;
ALTER TABLE tenants DROP COLUMN branding;
ALTER TABLE tenants DROP COLUMN logo_url;
ALTER TABLE tenants DROP COLUMN description;
ALTER TABLE users DROP COLUMN last_login_at;
ALTER TABLE users DROP COLUMN avatar_url;
ALTER TABLE users DROP COLUMN email_verified;
