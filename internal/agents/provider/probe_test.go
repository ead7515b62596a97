package provider

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
)

// lists answers by address.
type lists map[string]any // []string or error

func (l lists) ListModels(ctx context.Context, to model.Target) ([]model.Listed, error) {
	switch a := l[to.BaseURL].(type) {
	case []string:
		all := make([]model.Listed, len(a))
		for i, id := range a {
			all[i].ID = id
		}
		return all, nil
	case error:
		return nil, a
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestProbe(t *testing.T) {
	t.Parallel()
	notFound := &model.Error{Status: 404, Detail: "The model endpoint does not list its models; check its address."}
	many := strings.Split("alpha bravo charlie delta echo foxtrot golf", " ")
	for _, tt := range []struct {
		name   string
		lists  lists
		models []string
		key    string
		ok     bool
		want   string
	}{
		{name: "listed", lists: lists{"http://m": []string{"llama", "other"}}, models: []string{"llama"}, ok: true, want: "http://m answers, and lists llama"},
		{name: "listed with a tag", lists: lists{"http://m": []string{"llama3.2:latest"}}, models: []string{"llama3.2"}, ok: true, want: "lists llama3.2"},
		{name: "none is chosen", lists: lists{"http://m": many}, ok: true, want: "lists alpha, bravo, charlie, delta, echo and 2 more"},
		{name: "misspelt", lists: lists{"http://m": []string{"llama3.2", "qwen"}}, models: []string{"lama3.2"}, want: `does not list the model "lama3.2"; did you mean "llama3.2"?`},
		{name: "unlisted", lists: lists{"http://m": []string{"qwen"}}, models: []string{"xxxxxxxxxx"}, want: "it lists qwen"},
		{name: "none", lists: lists{"http://m": []string{}}, models: []string{"llama"}, want: "it lists none"},
		{name: "not reached", lists: lists{"http://m": &model.Error{Detail: "Not reached.", Cause: errors.New("dial tcp 127.0.0.1:1: connection refused")}},
			want: "http://m cannot be reached: dial tcp 127.0.0.1:1: connection refused; check THE_URL"},
		{name: "key refused", lists: lists{"http://m": &model.Error{Status: 401}}, key: "sk-secret", want: "refuses the key (status 401); check THE_KEY"},
		{name: "no key", lists: lists{"http://m": &model.Error{Status: 403}}, want: "refuses calls without a key (status 403); check THE_KEY"},
		{name: "without v1", lists: lists{"http://m": notFound, "http://m/v1": []string{"llama"}}, want: "http://m has no models, but http://m/v1 has: /v1 is missing in THE_URL"},
		{name: "a page", lists: lists{"http://m": &model.Error{Status: 200}, "http://m/v1": notFound}, want: "not as an OpenAI-compatible endpoint does; check THE_URL"},
		{name: "no list", lists: lists{"http://m": notFound, "http://m/v1": notFound}, want: "does not list its models (status 404): calls may work"},
		{name: "broken", lists: lists{"http://m": &model.Error{Status: 500, Detail: "The model endpoint failed (status 500)."}}, want: "does not list its models: The model endpoint failed (status 500)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			to := model.Target{BaseURL: "http://m", APIKey: secret.New(tt.key)}
			got := Probe(t.Context(), tt.lists, to, tt.models, "THE_URL", "THE_KEY")
			if got.OK != tt.ok || !strings.Contains(got.Text, tt.want) {
				t.Errorf("%+v, want %v %q", got, tt.ok, tt.want)
			}
			if strings.Contains(got.Text, "secret") {
				t.Errorf("the key is shown: %s", got.Text)
			}
		})
	}
}

// A silent endpoint ends the probe, not the other way round.
func TestProbeOfASilentEndpoint(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Probe(ctx, lists{}, model.Target{BaseURL: "http://m"}, nil, "THE_URL", "THE_KEY"); got.OK || !strings.Contains(got.Text, "did not answer") {
		t.Errorf("%+v", got)
	}
}
