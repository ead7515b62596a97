-- Who did what to what; see package audit. The database itself refuses to change
-- an entry, and to delete one of a tenant that is not being purged.

-- +goose Up
CREATE TABLE audit_log (
    tenant_id        TEXT   NOT NULL, -- whose log it is in
    at               BIGINT NOT NULL,
    entry_id         TEXT   NOT NULL,
    action           TEXT   NOT NULL,
    actor_tenant_id  TEXT   NOT NULL,
    actor_user_id    TEXT   NOT NULL, -- '' where it was no member's doing
    actor_key_id     TEXT   NOT NULL, -- ''
    actor_session_id TEXT   NOT NULL, -- ''
    method           TEXT   NOT NULL,
    target_type      TEXT   NOT NULL,
    target_id        TEXT   NOT NULL, -- '' where there is no single one
    details          TEXT   NOT NULL, -- a JSON object
    ip_address       TEXT   NOT NULL, -- ''
    request_id       TEXT   NOT NULL, -- ''
    PRIMARY KEY (tenant_id, at, entry_id)
) WITHOUT ROWID;
CREATE INDEX audit_log_action ON audit_log (tenant_id, action, at, entry_id);
CREATE INDEX audit_log_target ON audit_log (tenant_id, target_id, at, entry_id) WHERE target_id <> '';
CREATE INDEX audit_log_user ON audit_log (tenant_id, actor_user_id, at, entry_id) WHERE actor_user_id <> '';
CREATE INDEX audit_log_key ON audit_log (tenant_id, actor_key_id, at, entry_id) WHERE actor_key_id <> '';

-- +only sqlite
-- +goose StatementBegin
CREATE TRIGGER audit_log_fixed BEFORE UPDATE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'entries of the audit log do not change');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_log_kept BEFORE DELETE ON audit_log
WHEN EXISTS (SELECT 1 FROM tenants WHERE tenant_id = OLD.tenant_id AND status <> 'deleted')
BEGIN
    SELECT RAISE(ABORT, 'entries of the audit log are kept');
END;
-- +goose StatementEnd
-- +end

-- +only postgres
-- +goose StatementBegin
CREATE FUNCTION audit_log_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'entries of the audit log do not change';
    END IF;
    IF EXISTS (SELECT 1 FROM tenants WHERE tenant_id = OLD.tenant_id AND status <> 'deleted') THEN
        RAISE EXCEPTION 'entries of the audit log are kept';
    END IF;
    RETURN OLD;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_fixed BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_refuse();
-- +end

-- +goose Down
DROP TABLE audit_log;
-- +only postgres
DROP FUNCTION audit_log_refuse();
-- +end
