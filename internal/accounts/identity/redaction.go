package identity

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/pii"
)

// redactSetting is the member of a tenant's settings with the kinds of data that are
// replaced before they are stored.
const redactSetting = "redact"

// RedactedKinds returns the kinds of data that the settings of a tenant say are replaced
// before they are stored.
func RedactedKinds(settings jsontext.Value) (kinds []pii.Entity) {
	var members map[string]jsontext.Value
	var named []pii.Entity
	if json.Unmarshal(settings, &members) != nil || json.Unmarshal(members[redactSetting], &named) != nil {
		return nil
	}
	for _, k := range pii.Entities {
		if slices.Contains(named, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// BadRedaction returns what is wrong with the kinds of data in a change of settings.
func BadRedaction(change jsontext.Value) []fault.Field {
	var members map[string]jsontext.Value
	if len(change) == 0 || json.Unmarshal(change, &members) != nil {
		return nil
	}
	value := members[redactSetting]
	if len(value) == 0 || value.Kind() == 'n' {
		return nil
	}
	var named []pii.Entity
	known := make([]string, len(pii.Entities))
	for i, k := range pii.Entities {
		known[i] = string(k)
	}
	message := "must be an array of kinds of data: " + strings.Join(known, ", ")
	if json.Unmarshal(value, &named) != nil || len(named) > len(pii.Entities) {
		return []fault.Field{{Field: "settings." + redactSetting, Message: message}}
	}
	for _, k := range named {
		if !slices.Contains(pii.Entities, k) {
			return []fault.Field{{Field: "settings." + redactSetting, Message: message}}
		}
	}
	return nil
}

// StoredRedaction returns the kinds as the column redact has them, for a look-up of
// tenants that name any.
func StoredRedaction(settings jsontext.Value) string {
	kinds := RedactedKinds(settings)
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, " ")
}
