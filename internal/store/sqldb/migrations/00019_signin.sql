-- How people sign in; see package signin for what the columns mean.

-- +goose Up
-- The code that was mailed last to an address, and how often that was.
CREATE TABLE signin_codes (
    email      TEXT    NOT NULL PRIMARY KEY,
    code_hash  BYTEA   NOT NULL, -- empty: spent
    terms      BOOLEAN NOT NULL, -- accepted when it was asked for
    asked      BIGINT  NOT NULL, -- how many in a row
    wrong      BIGINT  NOT NULL, -- tries
    again_at   BIGINT  NOT NULL, -- when another may be asked for
    expires_at BIGINT  NOT NULL, -- of the code
    forget_at  BIGINT  NOT NULL  -- of the row
);

CREATE INDEX signin_codes_forget ON signin_codes (forget_at);

-- What a person comes back with from elsewhere: a flow's state, an app's code, a
-- link in a letter. Only the hash of it is kept.
CREATE TABLE signin_tickets (
    kind       TEXT   NOT NULL,
    hash       BYTEA  NOT NULL,
    sealed     BYTEA  NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (kind, hash)
);

CREATE INDEX signin_tickets_expires ON signin_tickets (expires_at);

-- Who at an OpenID provider is who here: a person is an email address.
CREATE TABLE signin_links (
    issuer         TEXT   NOT NULL,
    subject        TEXT   NOT NULL,
    provider       TEXT   NOT NULL,
    email          TEXT   NOT NULL,
    provider_email TEXT   NOT NULL,
    linked_at      BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
);

CREATE UNIQUE INDEX signin_links_person ON signin_links (email, provider);

CREATE TABLE signin_factors (
    person       TEXT   NOT NULL PRIMARY KEY, -- email:… or, of a member without one, user:…
    tenant_id    TEXT   NOT NULL,             -- of that member; otherwise ''
    sealed       BYTEA  NOT NULL,             -- the secret
    algorithm    TEXT   NOT NULL,
    recovery     BYTEA  NOT NULL,             -- hashes of the codes that are left, 32 bytes each
    created_at   BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL,             -- 0: not yet
    last_step    BIGINT NOT NULL,             -- the time step of the last code that was accepted
    wrong        BIGINT NOT NULL,             -- codes in a row
    wrong_at     BIGINT NOT NULL              -- the last of them
);

CREATE INDEX signin_factors_tenant ON signin_factors (tenant_id) WHERE tenant_id <> '';

-- +goose Down
DROP TABLE signin_factors;
DROP TABLE signin_links;
DROP TABLE signin_tickets;
DROP TABLE signin_codes;
