-- The activity feed: what groups of agents tell, and in which order runs ended. What else
-- it shows is read from where it is kept; see package feed.

-- +goose Up
CREATE TABLE feed_entries (
    tenant_id  TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    feed_id    TEXT   NOT NULL,
    event_type TEXT   NOT NULL,
    company_id TEXT   NOT NULL, -- the initiative; '': none
    team_id    TEXT   NOT NULL, -- '': none
    body       TEXT   NOT NULL, -- a JSON object
    PRIMARY KEY (tenant_id, at, feed_id)
);
CREATE INDEX feed_entries_company ON feed_entries (tenant_id, company_id, at, feed_id) WHERE company_id <> '';
CREATE INDEX feed_entries_team ON feed_entries (tenant_id, team_id, at, feed_id) WHERE team_id <> '';
CREATE INDEX runs_completed ON runs (tenant_id, completed_at, run_id) WHERE completed_at > 0;

-- +goose Down
DROP INDEX runs_completed;
DROP TABLE feed_entries;
