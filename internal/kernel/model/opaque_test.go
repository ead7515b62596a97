package model_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
)

// Opaque data of one endpoint or model is not for any other.
func TestWithoutForeign(t *testing.T) {
	t.Parallel()
	a, b := model.Target{BaseURL: "a", Model: "m"}, model.Target{BaseURL: "a", Model: "n"}
	said := func(by *model.Target) model.Message {
		return model.Message{
			Role: model.Assistant, Text: "Hi", Opaque: model.Opaque{Source: by.Source(), Data: "{}"},
			ToolCalls: []model.ToolCall{{ID: "c", Opaque: "{}"}},
		}
	}
	plain := model.Message{Role: model.Assistant, Text: "Hi", ToolCalls: []model.ToolCall{{ID: "c"}}}
	user := model.Message{Role: model.User, Text: "Go"}
	all := []model.Message{user, said(&a), said(&b)}
	for _, tt := range []struct {
		to   *model.Target
		want []model.Message
	}{
		{&a, []model.Message{user, said(&a), plain}},
		{&b, []model.Message{user, plain, said(&b)}},
		{&model.Target{BaseURL: "b", Model: "m"}, []model.Message{user, plain, plain}},
	} {
		if diff := cmp.Diff(tt.want, model.WithoutForeign(all, tt.to)); diff != "" {
			t.Errorf("to %s %s (-want +got):\n%s", tt.to.BaseURL, tt.to.Model, diff)
		}
	}
	if diff := cmp.Diff([]model.Message{user, said(&a), said(&b)}, all); diff != "" {
		t.Errorf("the messages were changed (-want +got):\n%s", diff)
	}
}
