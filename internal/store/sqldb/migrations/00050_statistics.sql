-- SQLite gets the table of its planner's statistics; DB.Migrate fills it with
-- constants, see statistics.go.

-- +goose Up
-- +only sqlite
ANALYZE search_marks;
-- +end

-- +goose Down
-- +only sqlite
DROP TABLE sqlite_stat1;
-- +end
