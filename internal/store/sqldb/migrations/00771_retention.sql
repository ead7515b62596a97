-- How far the deletion of old events and artifacts has come in each company's runs, which
-- are kept; see package retention.

-- +goose Up
CREATE TABLE retention_marks (
    tenant_id TEXT   NOT NULL,
    kind      TEXT   NOT NULL, -- event | artifact | audit
    at        BIGINT NOT NULL, -- when the last run that was looked at had ended; of audit: what may be deleted is older
    run_id    TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, kind)
) WITHOUT ROWID;

-- Entries of audit logs are deleted by retention too, and by nothing else.
-- +only sqlite
DROP TRIGGER audit_log_kept;
-- +goose StatementBegin
CREATE TRIGGER audit_log_kept BEFORE DELETE ON audit_log
WHEN EXISTS (SELECT 1 FROM tenants WHERE tenant_id = OLD.tenant_id AND status <> 'deleted')
    AND NOT EXISTS (SELECT 1 FROM retention_marks WHERE tenant_id = OLD.tenant_id AND kind = 'audit' AND at > OLD.at)
BEGIN
    SELECT RAISE(ABORT, 'entries of the audit log are kept');
END;
-- +goose StatementEnd
-- +end
-- +only postgres
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_log_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'entries of the audit log do not change';
    END IF;
    IF EXISTS (SELECT 1 FROM tenants WHERE tenant_id = OLD.tenant_id AND status <> 'deleted')
        AND NOT EXISTS (SELECT 1 FROM retention_marks WHERE tenant_id = OLD.tenant_id AND kind = 'audit' AND at > OLD.at) THEN
        RAISE EXCEPTION 'entries of the audit log are kept';
    END IF;
    RETURN OLD;
END
$$;
-- +goose StatementEnd
-- +end

-- +goose Down
-- +only sqlite
DROP TRIGGER audit_log_kept;
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
CREATE OR REPLACE FUNCTION audit_log_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
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
-- +end
DROP TABLE retention_marks;
