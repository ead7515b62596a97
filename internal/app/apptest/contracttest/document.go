package contracttest

// apiDocument is what is read of the OpenAPI document.
type apiDocument struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Name   string  `json:"name"`
			In     string  `json:"in"`
			Schema *Schema `json:"schema"`
		} `json:"parameters"`
		RequestBody apiContent            `json:"requestBody"`
		Responses   map[string]apiContent `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]*Schema `json:"schemas"`
	} `json:"components"`
}

type apiContent struct {
	Content map[string]struct {
		Schema *Schema `json:"schema"`
	} `json:"content"`
}

// Schema is a JSON schema, as far as our document uses it.
type Schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"` // a name or a list of names
	Format     string             `json:"format"`
	Pattern    string             `json:"pattern"`
	Enum       []any              `json:"enum"`
	Properties map[string]*Schema `json:"properties"`
	Required   []string           `json:"required"`
	More       any                `json:"additionalProperties"` // true, a schema, or nothing
	Open       bool               `json:"x-open"`               // further members are kept
	Aliases    []string           `json:"x-aliases"`            // second spellings of properties, which are sent as well
	Items      *Schema            `json:"items"`
	AnyOf      []*Schema          `json:"anyOf"`
	Kinds      Discriminator      `json:"discriminator"` // of a union

	MinLength *int     `json:"minLength"`
	MaxLength *int     `json:"maxLength"`
	MinItems  *int     `json:"minItems"`
	MaxItems  *int     `json:"maxItems"`
	Minimum   *float64 `json:"minimum"`
	Maximum   *float64 `json:"maximum"`
}

// Discriminator names the member of a value by which the schemas of a union are
// told apart.
type Discriminator struct {
	PropertyName string            `json:"propertyName"`
	Mapping      map[string]string `json:"mapping"` // of the member's values to references
}
