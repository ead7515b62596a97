-- Guardrails are shown with their phase, whose other name is stage. Entries of
-- memories are found by their tags and by the names of what they are about.

-- +goose Up
-- +only sqlite
UPDATE documents SET body = substr(body, 1, length(body) - 1) || ',"phase":"' || json_extract(body, '$.stage') || '"}'
WHERE kind = 'guardrail' AND json_extract(body, '$.phase') IS NULL AND json_extract(body, '$.stage') IS NOT NULL;
-- +end
-- +only postgres
UPDATE documents SET body = substr(body, 1, length(body) - 1) || ',"phase":"' || (body::jsonb ->> 'stage') || '"}'
WHERE kind = 'guardrail' AND body::jsonb ->> 'phase' IS NULL AND body::jsonb ->> 'stage' IS NOT NULL;
-- +end

ALTER TABLE passages ADD COLUMN words TEXT NOT NULL DEFAULT ''; -- by which it is found, beside its text
UPDATE passages SET words = (
    SELECT e.entity_name || ' ' || e.tags FROM memory_entries e
    WHERE e.tenant_id = passages.tenant_id AND e.agent_id = passages.collection_id AND e.entry_id = passages.passage_id
)
WHERE EXISTS (
    SELECT 1 FROM memory_entries e
    WHERE e.tenant_id = passages.tenant_id AND e.agent_id = passages.collection_id AND e.entry_id = passages.passage_id
        AND (e.entity_name <> '' OR e.tags <> '[]')
);

-- +goose Down
ALTER TABLE passages DROP COLUMN words;
-- +only sqlite
UPDATE documents SET body = json_remove(body, '$.phase') WHERE kind = 'guardrail' AND json_extract(body, '$.kind') <> 'webhook';
-- +end
-- +only postgres
UPDATE documents SET body = (body::jsonb - 'phase')::text WHERE kind = 'guardrail' AND body::jsonb ->> 'kind' <> 'webhook';
-- +end
