package agentfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

const (
	maxDepth = 64      // levels of a document
	maxNodes = 200_000 // values of a document, aliases counted each time
)

// toJSON converts a YAML value. Timestamps stay the texts that they are.
func toJSON(node *yaml.Node) (jsontext.Value, error) {
	var out bytes.Buffer
	c := converter{enc: jsontext.NewEncoder(&out)}
	if err := c.value(node, 0); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

type converter struct {
	enc   *jsontext.Encoder
	nodes int
}

func (c *converter) value(node *yaml.Node, depth int) error {
	if c.nodes++; c.nodes > maxNodes || depth > maxDepth {
		return fmt.Errorf("line %d: the document is too deep or too large; it may have %d levels and %d values", node.Line, maxDepth, maxNodes)
	}
	switch node.Kind {
	case yaml.AliasNode:
		return c.value(node.Alias, depth+1)
	case yaml.MappingNode:
		return c.mapping(node, depth)
	case yaml.SequenceNode:
		if err := c.enc.WriteToken(jsontext.BeginArray); err != nil {
			return err
		}
		for _, item := range node.Content {
			if err := c.value(item, depth+1); err != nil {
				return err
			}
		}
		return c.enc.WriteToken(jsontext.EndArray)
	}
	return c.scalar(node)
}

func (c *converter) mapping(node *yaml.Node, depth int) error {
	if err := c.enc.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: the name of a field must be a text", key.Line)
		case key.ShortTag() == "!!merge":
			return fmt.Errorf("line %d: << is not supported; write the fields out", key.Line)
		case seen[key.Value]:
			return fmt.Errorf("line %d: %s stands here twice; leave one out", key.Line, key.Value)
		}
		seen[key.Value] = true
		if err := c.enc.WriteToken(jsontext.String(key.Value)); err != nil {
			return err
		}
		if err := c.value(node.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	return c.enc.WriteToken(jsontext.EndObject)
}

func (c *converter) scalar(node *yaml.Node) error {
	wrong := func(err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("line %d: %s is a value that JSON does not have; put it in quotes", node.Line, node.Value)
	}
	switch node.ShortTag() {
	case "!!null":
		return c.enc.WriteToken(jsontext.Null)
	case "!!bool":
		var b bool
		if err := node.Decode(&b); err != nil {
			return wrong(err)
		}
		return c.enc.WriteToken(jsontext.Bool(b))
	case "!!int", "!!float":
		if v := jsontext.Value(node.Value); v.IsValid() && v.Kind() == '0' {
			return c.enc.WriteValue(v)
		}
		var i int64
		if node.Decode(&i) == nil {
			return c.enc.WriteToken(jsontext.Int(i)) // 0x10, 1_000
		}
		var f float64
		if err := node.Decode(&f); err != nil {
			return wrong(err)
		}
		if f-f != 0 {
			return wrong(errors.New("no number"))
		}
		return c.enc.WriteToken(jsontext.Float(f))
	case "!!str", "!!timestamp":
		return wrong(c.enc.WriteToken(jsontext.String(node.Value)))
	}
	return wrong(errors.New("another type"))
}

// Render writes agents as YAML documents.
func Render(agents ...map[string]jsontext.Value) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	for _, fields := range agents {
		node := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range Fields {
			value, ok := fields[name]
			if !ok {
				continue
			}
			child, err := fromJSON(jsontext.NewDecoder(bytes.NewReader(value)))
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, text(name), child)
		}
		if err := enc.Encode(node); err != nil {
			return nil, err
		}
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func text(s string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off": // booleans for readers of YAML 1.1
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

// fromJSON reads the next value; the order of members is kept.
func fromJSON(dec *jsontext.Decoder) (*yaml.Node, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{', '[':
		node := &yaml.Node{Kind: yaml.MappingNode}
		if token.Kind() == '[' {
			node.Kind = yaml.SequenceNode
		}
		for dec.PeekKind() != '}' && dec.PeekKind() != ']' {
			child, err := fromJSON(dec)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		if _, err := dec.ReadToken(); err != nil {
			return nil, err
		}
		if len(node.Content) == 0 || node.Kind == yaml.SequenceNode && scalars(node.Content) {
			node.Style = yaml.FlowStyle
		}
		return node, nil
	case '"':
		return text(token.String()), nil
	case 'n':
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	case 't', 'f':
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: token.String()}, nil
	}
	tag := "!!int"
	if strings.ContainsAny(token.String(), ".eE") {
		tag = "!!float"
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: token.String()}, nil
}

// scalars reports whether a list is short enough to stand on one line.
func scalars(nodes []*yaml.Node) bool {
	room := 80
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode || strings.Contains(n.Value, "\n") {
			return false
		}
		room -= len(n.Value) + 2
	}
	return room > 0
}
