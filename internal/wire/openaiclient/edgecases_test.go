package openaiclient_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/wire/openaiclient"
)

// Endpoints that misbehave are understood as far as there is something to
// understand, and fail otherwise.
func TestEdgeCases(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, odd := range modeltest.Oddities(stream) {
			name := "whole/" + odd.Name
			if stream {
				name = "streamed/" + odd.Name
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				sim := modeltest.New(t, modeltest.Default(odd.Answer))
				client := openaiclient.New(openaiclient.Config{Backoff: time.Millisecond, MaxBackoff: time.Millisecond})
				var said strings.Builder
				var sink func(model.Delta)
				if stream {
					sink = func(d model.Delta) { said.WriteString(d.Text) }
				}
				resp, err := client.Generate(t.Context(), model.Request{
					Target: model.Target{Model: "m", BaseURL: sim.URL}, Messages: []model.Message{{Role: model.User, Text: "Hi"}},
				}, sink)
				if (err != nil) != odd.Fails {
					t.Fatalf("err = %v", err)
				}
				if stream && said.String() != odd.Text {
					t.Errorf("streamed %q, want %q", said.String(), odd.Text)
				}
				if odd.Fails {
					return
				}
				for i := range resp.ToolCalls {
					if resp.ToolCalls[i].ID == "" {
						t.Error("a call has no id")
					}
					if i < len(odd.Calls) && odd.Calls[i].ID == "" {
						resp.ToolCalls[i].ID = ""
					}
				}
				if diff := cmp.Diff(odd.Calls, resp.ToolCalls); diff != "" || resp.Text != odd.Text || (resp.FinishReason == model.FinishLength) != odd.Cut {
					t.Errorf("text %q, finish %s, calls (-want +got):\n%s", resp.Text, resp.FinishReason, diff)
				}
			})
		}
	}
}
