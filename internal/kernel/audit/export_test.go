package audit

import (
	"context"
	"reflect"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// The inputs of the operations.
type (
	ListIn   = listIn
	TargetIn = targetIn
	ExportIn = exportIn
)

// NewInput makes an empty input of an operation.
func NewInput(r route.Route) any { return reflect.New(r.In).Interface() }

// Rows returns how many rows wait in memory.
func (w *Watch) Rows() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.rows)
}

// ExportLines answers exportAuditLog.
func (l *Log) ExportLines(ctx context.Context, who authz.Caller, in *exportIn) (route.Lines, error) {
	return l.export(ctx, who, in)
}
