-- Sign-ups and sign-ins of all companies by time, for the operator.

-- +goose Up
CREATE INDEX audit_log_arrivals ON audit_log (action, at, entry_id) WHERE action IN ('auth.signed_in', 'tenant.created');

-- +goose Down
DROP INDEX audit_log_arrivals;
