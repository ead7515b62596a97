package agent

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/resource"
)

// checkClass refuses a risk classification that a member sets who may not, and records
// the others. An agent that another made has the class of that one.
func (o Options) checkClass(e *resource.Edit[Agent]) error {
	if e.New == nil {
		return nil
	}
	var before jsontext.Value
	if e.Old != nil {
		before = jsontext.Value(e.Old.RiskClassification)
	}
	class := jsontext.Value(e.New.RiskClassification)
	if bytes.Equal(before, class) || isNull(before) && isNull(class) {
		return nil
	}
	inherited := e.Old == nil && e.New.Lineage().ParentID != ""
	if e.Who.Role != "" && !e.Who.Role.AtLeast(authz.Admin) && !inherited {
		return fault.New(fault.Forbidden, "",
			"Only an admin may set or change risk_classification. Leave it out, or have an admin classify the agent.")
	}
	if o.Classified == nil {
		return nil
	}
	return o.Classified(e.Tx, e.Who, e.New.ID, class)
}

func isNull(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }
