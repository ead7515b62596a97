-- A response that was deleted is no longer read or continued; those that already follow
-- it go on without its messages.

-- +goose Up
ALTER TABLE responses ADD COLUMN deleted_at BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE responses DROP COLUMN deleted_at;
