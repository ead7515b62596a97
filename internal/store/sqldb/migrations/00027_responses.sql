-- Which runs answered the responses shape, and what each went on from; see
-- package response. What was said is in the runs and their steps.

-- +goose Up
CREATE TABLE responses (
    tenant_id   TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    previous_id TEXT NOT NULL, -- '' of the first
    standing    TEXT NOT NULL, -- instructions that hold for later ones too
    asked       TEXT NOT NULL, -- JSON: what of the request its answers repeat and the run does not say
    PRIMARY KEY (tenant_id, run_id)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE responses;
