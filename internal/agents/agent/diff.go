package agent

import (
	"bytes"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
)

// diff compares the top-level fields of two configurations. The order of
// members is no difference; a field that one of them does not have is null
// there.
func diff(from, to Version) (versionDiff, error) {
	d := versionDiff{
		AgentID: to.AgentID, VersionFrom: from.Number, VersionTo: to.Number,
		Diff: map[string]fieldDiff{},
	}
	old, err := fields(from.Config)
	if err != nil {
		return d, err
	}
	now, err := fields(to.Config)
	if err != nil {
		return d, err
	}
	names := maps.Clone(old)
	maps.Copy(names, now)
	for name := range names {
		if !bytes.Equal(old[name], now[name]) {
			d.Diff[name] = fieldDiff{schema.Any(old[name]), schema.Any(now[name])}
		}
	}
	d.ChangedFields = slices.Sorted(maps.Keys(d.Diff))
	return d, nil
}

// fields splits a configuration into its members, each with its members in
// order.
func fields(config schema.Object) (map[string]jsontext.Value, error) {
	ordered := jsontext.Value(bytes.Clone(config))
	if err := ordered.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return nil, err
	}
	var found map[string]jsontext.Value
	err := json.Unmarshal(ordered, &found)
	return found, err
}
