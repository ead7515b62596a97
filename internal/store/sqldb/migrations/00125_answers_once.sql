-- The text of most answers is in the output of the step that made it, and no longer in that of the run as well.

-- +goose Up
ALTER TABLE runs ADD COLUMN answer_step BIGINT NOT NULL DEFAULT 0; -- the step that has the text of the output; 0: the output has it

-- +goose Down
-- The output of a step begins with its text and has a member after it. No JSON string
-- contains a quote, a comma and a quote: its own quotes have a backslash in front.
-- +only sqlite
UPDATE runs SET output = (SELECT substr(s.output, 1, instr(s.output, '","')) FROM run_steps s
    WHERE s.tenant_id = runs.tenant_id AND s.run_id = runs.run_id AND s.seq = runs.answer_step)
    || CASE output WHEN '{}' THEN '}' ELSE ',' || substr(output, 2) END WHERE answer_step > 0;
-- +end
-- +only postgres
UPDATE runs SET output = (SELECT substr(s.output, 1, strpos(s.output, '","')) FROM run_steps s
    WHERE s.tenant_id = runs.tenant_id AND s.run_id = runs.run_id AND s.seq = runs.answer_step)
    || CASE output WHEN '{}' THEN '}' ELSE ',' || substr(output, 2) END WHERE answer_step > 0;
-- +end
ALTER TABLE runs DROP COLUMN answer_step;
