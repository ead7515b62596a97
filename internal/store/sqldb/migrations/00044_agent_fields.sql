-- +goose Up
-- Agents of before have the fields that were added, with their defaults. Their
-- documents are answered as they are stored.
UPDATE documents SET body = substr(body, 1, length(body) - 1) ||
    ',"auto_approve_tools":[],"tool_overrides":[],"autonomy":null,"knowledge_base_ids":[],"visibility":"private","public_config":null' ||
    ',"access_control":null,"command_relationships":null,"specs":[],"bridge":null}'
WHERE kind = 'agent';

-- +goose Down
-- +only sqlite
UPDATE documents SET body = json_remove(body, '$.auto_approve_tools', '$.tool_overrides', '$.autonomy', '$.knowledge_base_ids',
    '$.visibility', '$.public_config', '$.access_control', '$.command_relationships', '$.specs', '$.bridge')
WHERE kind = 'agent';
-- +end
-- +only postgres
UPDATE documents SET body = (body::jsonb - '{auto_approve_tools,tool_overrides,autonomy,knowledge_base_ids,visibility,public_config,access_control,command_relationships,specs,bridge}'::text[])::text
WHERE kind = 'agent';
-- +end
