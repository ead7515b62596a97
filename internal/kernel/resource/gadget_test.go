package resource_test

import (
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
)

// gadget is a kind that uses everything a kind can.
type gadget struct {
	resource.Meta `json:"-"`

	Slug     string        `json:"slug" required:"true" immutable:"true" minLength:"1" maxLength:"40"`
	Name     string        `json:"name" required:"true" minLength:"1" maxLength:"20"`
	Color    string        `json:"color" enum:"red,green" default:"red"`
	Loud     bool          `json:"loud" default:"true"`
	Size     *int          `json:"size" minimum:"0"`
	Tags     []string      `json:"tags,omitzero" maxItems:"3" long:"true"`
	Key      string        `json:"key" secret:"true"`
	Limits   limits        `json:"limits" merge:"1"`
	Shape    shape         `json:"shape"`
	Extra    schema.Object `json:"extra" merge:"1" long:"true"`
	State    string        `json:"state" readOnly:"true"`
	MovedAt  *time.Time    `json:"moved_at" readOnly:"true"`
	LastWord string        `json:"last_word" readOnly:"true"`
}

type limits struct {
	Steps int           `json:"steps" minimum:"0"`
	Depth int           `json:"depth" minimum:"0"`
	More  schema.Object `json:"more,omitzero"`
}

type shape struct {
	Sides int    `json:"sides" minimum:"3" default:"3"`
	Name  string `json:"name,omitzero"`
}

type stopIn struct {
	Word string `json:"word" maxLength:"10"`
}

func gadgets() resource.Kind[gadget] {
	return resource.Kind[gadget]{
		Name: "gadget", Path: "/api/v1/gadgets", Tag: "Gadgets", Keys: []string{"gadgets", "older"},
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
		Put:     resource.PutReplace, PageSize: 3, MaxPageSize: 11,
		Indexes: []resource.Index[gadget]{
			{Name: "color", Doc: "Only gadgets of this \"colour\".", Of: func(g *gadget) string { return g.Color }},
			{Name: "name", Of: func(g *gadget) string { return g.Name }},
		},
		Filters: []string{"color"},
		Unique:  resource.Index[gadget]{Name: "slug", Of: func(g *gadget) string { return g.Slug }},
		Default: func(g *gadget) { g.State, g.Shape.Sides = "idle", 3 },
		Validate: func(g *gadget) (wrong []fault.Field) {
			if g.Limits.Depth > g.Limits.Steps {
				wrong = append(wrong, fault.Field{Field: "limits.depth", Message: "more than limits.steps"})
			}
			if g.Name == g.Slug {
				wrong = append(wrong, fault.Field{Field: "name", Message: "the same as slug"})
			}
			return wrong
		},
		Label: func(g *gadget) string { return g.Name },
		Events: []resource.EventType{
			{Name: "gadget.created", Doc: "A gadget was created.", Actions: []string{resource.Created}},
			{Name: "gadget.updated", Doc: "A gadget was changed.", Actions: []string{resource.Updated, "start"}},
			{Name: "gadget.deleted", Doc: "A gadget was deleted.", Actions: []string{resource.Deleted}},
		},
		State: func(g *gadget) *string { return &g.State },
		Moves: []resource.Move[gadget]{
			{Action: "start", From: []string{"idle", "stopped"}, To: "running"},
			{Action: "stop", From: []string{"running"}, To: "stopped", With: resource.Doing(
				func(e *resource.Edit[gadget], in *stopIn) error {
					e.New.LastWord = in.Word
					return nil
				})},
			{Action: "scrap_now", From: []string{"idle", "stopped"}, To: "scrapped"},
		},
		Before: func(e *resource.Edit[gadget]) error {
			if e.New.Name == "forbidden" {
				return fault.New(fault.Forbidden, "", "No gadget may be called so.")
			}
			if e.Old != nil && e.Old.State != e.New.State {
				at := time.Date(2026, 9, 10, 0, 0, 0, 0, time.UTC)
				e.New.MovedAt = &at
			}
			return nil
		},
		CheckDelete: func(e *resource.Edit[gadget]) error {
			if e.Old.State == "running" {
				return fault.WrongState("gadget", e.Old.State, "delete")
			}
			return nil
		},
	}
}

var gadgetSamples = resourcetest.Samples{
	Minimal: `{"slug":"s%d","name":"n"}`,
	Defaults: map[string]string{
		"name": `"n"`, "color": `"red"`, "loud": `true`, "size": `null`, "key": `""`, "limits": `{"steps":0,"depth":0}`,
		"shape": `{"sides":3}`, "extra": `{}`, "state": `"idle"`, "moved_at": `null`,
	},
	Full: `{"slug":"s%d","name":"Gadget","color":"green","loud":false,"size":7,"tags":["a","b"],"key":"hush",
		"limits":{"steps":5,"depth":2,"more":{"a":{"b":1}}},"shape":{"sides":4,"name":"square"},"extra":{"a":1,"b":{"c":2}}}`,
	Refused: []resourcetest.Refused{
		{Body: `{}`, Fields: []string{"slug", "name"}},
		{Body: `{"slug":"a","name":"a"}`, Fields: []string{"name"}},
		{Body: `{"slug":null,"name":5,"color":"blue","loud":"no","size":-1,"tags":["a",1],"limits":{"steps":"x"},"shape":[],"extra":7,"key":{}}`, Fields: []string{"slug", "name", "color", "loud", "size", "tags[1]", "limits.steps", "shape", "extra", "key"}},
		{Body: `{"slug":"a","name":"","tags":["1","2","3","4"],"limits":{"steps":1,"depth":2}}`, Fields: []string{"name", "tags", "limits.depth"}},
		{Body: `{"slug":"a","name":"a","color":"blue","limits":{"depth":1}}`, Fields: []string{"color", "limits.depth", "name"}},
	},
	Changes: []resourcetest.Changed{
		{Patch: `{}`},
		{Patch: `{"name":"New"}`, Want: map[string]string{"name": `"New"`}},
		{Patch: `{"slug":"other","name":"New"}`, Want: map[string]string{"name": `"New"`}},
		{Patch: `{"color":null,"loud":null,"size":null}`, Want: map[string]string{"color": `"red"`, "loud": `true`, "size": `null`}},
		{Patch: `{"tags":["c"]}`, Want: map[string]string{"tags": `["c"]`}},
		{Patch: `{"tags":[]}`, Want: map[string]string{"tags": `[]`}},
		{Patch: `{"tags":null}`, Want: map[string]string{"tags": ""}},
		{Patch: `{"key":null}`, Want: map[string]string{"key": `""`}},
		{Patch: `{"limits":{"depth":4}}`, Want: map[string]string{"limits": `{"steps":5,"depth":4,"more":{"a":{"b":1}}}`}},
		{Patch: `{"limits":{"depth":null,"more":{"z":1}}}`, Want: map[string]string{"limits": `{"steps":5,"depth":0,"more":{"z":1}}`}},
		{Patch: `{"limits":null}`, Want: map[string]string{"limits": `{"steps":0,"depth":0}`}},
		{Patch: `{"shape":{"sides":5}}`, Want: map[string]string{"shape": `{"sides":5}`}},
		{Patch: `{"extra":{"b":{"d":3},"e":null}}`, Want: map[string]string{"extra": `{"a":1,"b":{"d":3}}`}},
		{Patch: `{"extra":{"a":null}}`, Want: map[string]string{"extra": `{"b":{"c":2}}`}},
	},
}
