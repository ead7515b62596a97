-- The marketplace: agents that companies offer to one another; see package marketplace.

-- +goose Up
CREATE TABLE marketplace_listings (
    tenant_id     TEXT   NOT NULL, -- whose agent it is
    listing_id    TEXT   NOT NULL,
    agent_id      TEXT   NOT NULL,
    status        TEXT   NOT NULL,
    category      TEXT   NOT NULL,
    body          TEXT   NOT NULL, -- what the owner wrote
    rating_sum    BIGINT NOT NULL,
    rating_count  BIGINT NOT NULL,
    invocations   BIGINT NOT NULL,
    favourites    BIGINT NOT NULL,
    published_at  BIGINT NOT NULL, -- last; 0: never
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, listing_id)
);
CREATE UNIQUE INDEX marketplace_listings_id ON marketplace_listings (listing_id);
CREATE INDEX marketplace_listings_agent ON marketplace_listings (tenant_id, agent_id);
CREATE INDEX marketplace_listings_published ON marketplace_listings (tenant_id, published_at);

-- What every company sees: rows while a listing is published, with what it is ordered
-- by: one on the shelf of its category, and one on the shelf of all.
CREATE TABLE marketplace_published (
    shelf        TEXT   NOT NULL,
    listing_id   TEXT   NOT NULL,
    tenant_id    TEXT   NOT NULL,
    rating       BIGINT NOT NULL, -- average in thousandths
    popularity   BIGINT NOT NULL, -- invocations
    published_at BIGINT NOT NULL,
    PRIMARY KEY (listing_id, shelf)
);
CREATE INDEX marketplace_published_tenant ON marketplace_published (tenant_id);
CREATE INDEX marketplace_published_recency ON marketplace_published (shelf, published_at, listing_id);
CREATE INDEX marketplace_published_rating ON marketplace_published (shelf, rating, listing_id);
CREATE INDEX marketplace_published_popularity ON marketplace_published (shelf, popularity, listing_id);

CREATE TABLE marketplace_words (
    begin      TEXT NOT NULL, -- of a word
    listing_id TEXT NOT NULL,
    tenant_id  TEXT NOT NULL,
    PRIMARY KEY (begin, listing_id)
);
CREATE INDEX marketplace_words_listing ON marketplace_words (listing_id);
CREATE INDEX marketplace_words_tenant ON marketplace_words (tenant_id);

CREATE TABLE marketplace_ratings (
    tenant_id  TEXT   NOT NULL, -- who rates
    listing_id TEXT   NOT NULL,
    rating_id  TEXT   NOT NULL,
    rating     BIGINT NOT NULL,
    comment    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, listing_id)
);
CREATE INDEX marketplace_ratings_listing ON marketplace_ratings (listing_id, rating_id);

CREATE TABLE marketplace_favourites (
    tenant_id  TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    listing_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, user_id, listing_id)
);

CREATE TABLE marketplace_subscriptions (
    tenant_id   TEXT   NOT NULL, -- who subscribes
    listing_id  TEXT   NOT NULL,
    status      TEXT   NOT NULL,
    external_id TEXT   NOT NULL, -- of the subscription at a payment provider
    paid_until  BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, listing_id)
);

CREATE TABLE marketplace_invocations (
    tenant_id     TEXT   NOT NULL, -- who calls
    invocation_id TEXT   NOT NULL, -- the id of its run
    listing_id    TEXT   NOT NULL,
    owner_id      TEXT   NOT NULL, -- the company of the run
    status        TEXT   NOT NULL,
    input         TEXT   NOT NULL,
    result        TEXT   NOT NULL, -- "": none
    pricing       TEXT   NOT NULL, -- as it was when it began
    price         BIGINT NOT NULL, -- in millionths of a US dollar
    duration_ms   BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    completed_at  BIGINT NOT NULL, -- 0: not yet
    PRIMARY KEY (tenant_id, invocation_id)
);
CREATE INDEX marketplace_invocations_owner ON marketplace_invocations (owner_id, invocation_id);
CREATE INDEX marketplace_invocations_created ON marketplace_invocations (tenant_id, created_at);

-- +goose Down
DROP TABLE marketplace_invocations;
DROP TABLE marketplace_subscriptions;
DROP TABLE marketplace_favourites;
DROP TABLE marketplace_ratings;
DROP TABLE marketplace_words;
DROP TABLE marketplace_published;
DROP TABLE marketplace_listings;
