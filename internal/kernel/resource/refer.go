package resource

import (
	"fmt"
	"slices"

	"agentd/internal/base/fault"
)

// CheckReferences looks up what a list newly refers to: exists returns fault.NotFound
// for an id that it does not know. Ids that were there before may be gone since.
// Errors: fault.Invalid with the place of each absent id in the field; others of exists.
func CheckReferences(field, noun string, ids, before []string, exists func(id string) error) error {
	var absent []fault.Field
	for i, id := range ids {
		if slices.Contains(before, id) {
			continue
		}
		err := exists(id)
		switch {
		case fault.Is(err, fault.NotFound):
			absent = append(absent, fault.Field{Field: fmt.Sprintf("%s[%d]", field, i), Message: "there is no such " + noun})
		case err != nil:
			return err
		}
	}
	if absent != nil {
		return fault.BadFields(absent...)
	}
	return nil
}
