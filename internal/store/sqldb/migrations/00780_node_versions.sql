-- Which program each node runs, what it does, and how busy it is.

-- +goose Up
ALTER TABLE nodes ADD COLUMN version TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN role TEXT NOT NULL DEFAULT 'all';
ALTER TABLE nodes ADD COLUMN runs BIGINT NOT NULL DEFAULT 0; -- that it carried at its newest heartbeat

-- +goose Down
ALTER TABLE nodes DROP COLUMN runs;
ALTER TABLE nodes DROP COLUMN role;
ALTER TABLE nodes DROP COLUMN version;
