-- Missions; see package mission. Their objectives are in the tables of migration 180.

-- +goose Up
CREATE TABLE missions (
    tenant_id    TEXT   NOT NULL,
    mission_id   TEXT   NOT NULL,
    session_id   TEXT   NOT NULL,
    status       TEXT   NOT NULL,
    spec         TEXT   NOT NULL,
    state        TEXT   NOT NULL, -- what only the holder of the mission's work changes
    key_id       TEXT   NOT NULL, -- that started it; '': none
    user_id      TEXT   NOT NULL, -- who started it; '': none
    event_seq    BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    completed_at BIGINT NOT NULL, -- 0: it has not ended
    report       TEXT   NOT NULL, -- after action; '': none yet
    hold         BIGINT NOT NULL, -- 1: a caller asked for a pause
    abort        BIGINT NOT NULL, -- 1: a caller asked for its end
    authorized   BIGINT NOT NULL, -- 1: a caller let it begin
    reason       TEXT   NOT NULL, -- of the abortion
    asked        BIGINT NOT NULL, -- how often callers asked for something
    PRIMARY KEY (tenant_id, mission_id)
);
CREATE INDEX missions_session ON missions (tenant_id, session_id, mission_id);

-- +goose Down
DROP TABLE missions;
