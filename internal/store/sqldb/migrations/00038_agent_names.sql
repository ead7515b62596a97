-- Agents are found by their names, in the index that no other value of theirs uses.

-- +goose Up
-- +only sqlite
UPDATE documents SET ix4 = json_extract(body, '$.name') WHERE kind = 'agent';
-- +end
-- +only postgres
UPDATE documents SET ix4 = body::jsonb ->> 'name' WHERE kind = 'agent';
-- +end

-- +goose Down
UPDATE documents SET ix4 = NULL WHERE kind = 'agent';
