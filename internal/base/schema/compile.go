package schema

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// kinds is a set of JSON kinds.
type kinds uint8

const (
	isNull kinds = 1 << iota
	isBool
	isString
	isNumber
	isObject
	isArray
)

var kindNames = []struct {
	kind kinds
	name string // in a sentence
	typ  string // in JSON Schema
}{
	{isBool, "true or false", "boolean"}, {isString, "a string", "string"}, {isNumber, "a number", "number"},
	{isObject, "an object", "object"}, {isArray, "an array", "array"}, {isNull, "null", "null"},
}

// node is one place of a compiled schema. A nil *node accepts anything.
type node struct {
	takes    kinds
	expected string // the message for a value of another kind

	integer      bool
	least, most  float64 // inclusive bounds of a number
	above, below float64 // exclusive ones
	bounded      bool
	bits         int // of an integer

	minLen, maxLen int // of a string in characters; maxLen < 0: none
	pattern        *regexp.Regexp
	format         format
	formatName     string
	enum           []string // of strings
	enumText       string

	items              *node
	minItems, maxItems int

	props      map[string]*property
	required   []*property
	extra      *node // of members that are not in props
	closed     bool
	maxMembers int
}

type property struct {
	node     *node
	name     string
	required bool
	bit      uint64 // in the set of required properties that were seen
}

type compiler struct {
	registry *Registry
	refs     map[string]*node
}

func (c *compiler) compile(s *huma.Schema) *node {
	if s.Ref != "" {
		n, ok := c.refs[s.Ref]
		if !ok {
			n = &node{}
			c.refs[s.Ref] = n // before it is filled: types may contain themselves
			*n = *c.compile(c.registry.SchemaFromRef(s.Ref))
		}
		return n
	}
	if alternatives := append(s.AnyOf, s.OneOf...); len(alternatives) > 0 {
		return c.union(alternatives)
	}
	refuseUnsupported(s)
	n := &node{maxLen: -1, maxItems: -1, maxMembers: -1}
	switch s.Type {
	case "":
		return nil
	case "null":
		n.takes = isNull
	case huma.TypeBoolean:
		n.takes = isBool
	case huma.TypeString:
		c.compileString(n, s)
	case huma.TypeInteger, huma.TypeNumber:
		compileNumber(n, s)
	case huma.TypeArray:
		n.takes, n.items = isArray, c.compile(s.Items)
		n.minItems, n.maxItems = orElse(s.MinItems, 0), orElse(s.MaxItems, -1)
	case huma.TypeObject:
		c.compileObject(n, s)
	default:
		panic("schema: unknown type " + s.Type)
	}
	if s.Nullable {
		n.takes |= isNull
	}
	n.expected = "expected " + n.kind()
	return n
}

func (n *node) kind() string {
	var names []string
	for _, k := range kindNames {
		if n.takes&k.kind != 0 {
			name := k.name
			if k.kind == isNumber && n.integer {
				name = "a whole number"
			}
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// typeNames returns the types that JSON Schema has for what the node accepts.
func (n *node) typeNames() []string {
	var names []string
	for _, k := range kindNames {
		switch {
		case n.takes&k.kind == 0:
		case k.kind == isNumber && n.integer:
			names = append(names, "integer")
		default:
			names = append(names, k.typ)
		}
	}
	return names
}

// union compiles alternatives that are distinguished by the value's kind.
func (c *compiler) union(alternatives []*huma.Schema) *node {
	sum := &node{maxLen: -1, maxItems: -1, maxMembers: -1}
	for _, alternative := range alternatives {
		n := c.compile(alternative)
		if n == nil {
			return nil
		}
		if n.takes&sum.takes != 0 {
			panic("schema: alternatives of one JSON kind cannot be told apart; use schema.Any")
		}
		takes := sum.takes | n.takes
		switch {
		case n.takes&isObject != 0:
			sum.props, sum.required, sum.extra, sum.closed, sum.maxMembers = n.props, n.required, n.extra, n.closed, n.maxMembers
		case n.takes&isArray != 0:
			sum.items, sum.minItems, sum.maxItems = n.items, n.minItems, n.maxItems
		case n.takes&isString != 0:
			sum.minLen, sum.maxLen, sum.pattern = n.minLen, n.maxLen, n.pattern
			sum.format, sum.formatName, sum.enum, sum.enumText = n.format, n.formatName, n.enum, n.enumText
		case n.takes&isNumber != 0:
			sum.integer, sum.bits, sum.bounded = n.integer, n.bits, n.bounded
			sum.least, sum.most, sum.above, sum.below = n.least, n.most, n.above, n.below
		}
		sum.takes = takes
	}
	sum.expected = "expected " + sum.kind()
	return sum
}

func (c *compiler) compileString(n *node, s *huma.Schema) {
	n.takes = isString
	n.minLen, n.maxLen = orElse(s.MinLength, 0), orElse(s.MaxLength, -1)
	if s.Pattern != "" {
		n.pattern = regexp.MustCompile(s.Pattern)
	}
	name := s.Format
	if s.ContentEncoding == "base64" {
		name = "base64"
	}
	n.format, n.formatName = formats[name], name
	for _, v := range s.Enum {
		if v != nil {
			n.enum = append(n.enum, fmt.Sprint(v))
		}
	}
	n.enumText = strings.Join(n.enum, ", ")
}

func compileNumber(n *node, s *huma.Schema) {
	n.takes = isNumber
	n.integer = s.Type == huma.TypeInteger
	n.bits = 64
	if s.Format == "int32" {
		n.bits = 32
	}
	n.least, n.most = orElse(s.Minimum, math.Inf(-1)), orElse(s.Maximum, math.Inf(1))
	n.above, n.below = orElse(s.ExclusiveMinimum, math.Inf(-1)), orElse(s.ExclusiveMaximum, math.Inf(1))
	n.bounded = s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil
}

func (c *compiler) compileObject(n *node, s *huma.Schema) {
	n.takes = isObject
	n.maxMembers = orElse(s.MaxProperties, -1)
	switch extra := s.AdditionalProperties.(type) {
	case *huma.Schema:
		n.extra = c.compile(extra)
	case bool:
		n.closed = !extra
	}
	if len(s.Required) > 64 {
		panic("schema: more than 64 required fields in one object")
	}
	n.props = make(map[string]*property, len(s.Properties))
	for name, prop := range s.Properties {
		n.props[name] = &property{node: c.compile(prop), name: name}
	}
	for i, name := range s.Required {
		p := n.props[name]
		p.required, p.bit = true, 1<<i
		n.required = append(n.required, p)
	}
}

// refuseUnsupported panics on keywords that Check does not check, so that the
// published schema promises nothing that is not enforced.
func refuseUnsupported(s *huma.Schema) {
	if s.UniqueItems || s.MultipleOf != nil || s.Const != nil || s.Not != nil || len(s.AllOf) > 0 ||
		len(s.DependentRequired) > 0 || s.MinProperties != nil || s.Enum != nil && s.Type != huma.TypeString {
		panic("schema: a schema of type " + s.Type + " uses a keyword that is not checked")
	}
}

func orElse[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
