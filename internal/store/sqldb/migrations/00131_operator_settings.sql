-- What the operator sets while the program runs, a row per section. It belongs to no company.

-- +goose Up
CREATE TABLE operator_settings (
    section    TEXT   NOT NULL PRIMARY KEY,
    version    BIGINT NOT NULL, -- 0: nothing is set
    body       TEXT   NOT NULL, -- JSON; '': it is sealed
    sealed     BYTEA  NOT NULL, -- of sections with secrets
    updated_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE operator_settings;
