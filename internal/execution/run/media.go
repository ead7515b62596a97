package run

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/model"
)

// Models resolves the target of a model; model.Resolver.
type Models interface {
	Resolve(ctx context.Context, tenant string, spec model.Spec) (model.Target, error)
}

// FileIDs is the field of a message that names files one by one.
const FileIDs = "file_ids"

// checkMedia refuses a new run whose message has media that its model is known not to
// take. Those of earlier messages are named to the model in words, as another model may
// have been asked with them. field is [Request.MediaField].
func checkMedia(ctx context.Context, models Models, r *Record, spec *AgentSpec, field string) error {
	if models == nil || spec.OnMachine {
		return nil
	}
	wanted := spec.Model
	if r.Options.Model != nil {
		wanted = *r.Options.Model
	}
	target, err := models.Resolve(ctx, r.TenantID, wanted)
	if err != nil {
		return nil //nolint:nilerr // the run ends by it, and says why
	}
	parts := r.ParsedInput().Parts
	misfits := target.Misfits(parts)
	if len(misfits) == 0 {
		return nil
	}
	var of struct {
		Attachments []Attachment `json:"attachments"`
	}
	if r.Parsed == nil {
		_ = json.Unmarshal(r.Input, &of) // of any shape: there are none then
	}
	before := len(parts) - len(of.Attachments) // the files come last
	fields := make([]fault.Field, len(misfits))
	for i, m := range misfits {
		at := field
		switch file := m.Part >= before; {
		case file && field == FileIDs:
			at = fmt.Sprintf("%s[%d]", FileIDs, m.Part-before)
		case file && field == "":
			at = fmt.Sprintf("input.%s[%d]", FileIDs, m.Part-before)
		case field == "":
			at = fmt.Sprintf("input.parts[%d]", m.Part)
		}
		fields[i] = fault.Field{Field: at, Message: m.Reason}
	}
	return fault.BadFields(fields...)
}
