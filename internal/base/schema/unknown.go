package schema

import (
	"slices"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/text"
)

// maxUnknown bounds the unknown fields that are reported of one value.
const maxUnknown = 10

// UnknownField is a member of an object that its schema does not have, and that
// is therefore ignored.
type UnknownField struct {
	Path  string // where it is: skills[2].colour
	Meant string // the field that was probably meant; "" if none resembles it
}

// DecodeReporting is DecodeInto that also returns the fields that were ignored,
// up to ten.
func (s *Schema) DecodeReporting(data []byte, v any, partial bool) ([]UnknownField, error) {
	c := newChecker(data)
	defer c.release()
	c.partial = partial
	if err := c.check(s.plan().root); err != nil {
		return c.unknown, err
	}
	return c.unknown, s.decode(data, v, partial)
}

// Unknown returns the fields of data that would be ignored, up to ten. It does
// not check values. Errors: fault.Malformed, as for Check.
func (s *Schema) Unknown(data []byte) ([]UnknownField, error) {
	c := newChecker(data)
	defer c.release()
	err := c.check(s.plan().root)
	if fault.Is(err, fault.Invalid) {
		err = nil
	}
	return c.unknown, err
}

// ignoresUnknown reports whether members that the schema does not name have no
// effect. In a free object every member has a meaning.
func (n *node) ignoresUnknown() bool { return len(n.props) > 0 && n.extra == nil }

func (c *checker) noteUnknown(n *node, name string) {
	if len(c.unknown) == maxUnknown {
		return
	}
	names := make([]string, 0, len(n.props))
	for known := range n.props {
		names = append(names, known)
	}
	slices.SortFunc(names, strings.Compare) // of two that are as near, always the same
	c.unknown = append(c.unknown, UnknownField{Path: c.path(), Meant: text.Nearest(name, names)})
}
