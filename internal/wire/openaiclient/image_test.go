package openaiclient

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

func TestImage(t *testing.T) {
	t.Parallel()
	jpeg := append([]byte{0xFF, 0xD8, 0xFF, 0xE0}, bytes.Repeat([]byte{1}, 100)...)
	for name, tt := range map[string]struct {
		pictures []modeltest.Picture
		calls    int
		want     model.Image // Data only where it is known
		code     string
		says     string
	}{
		"png":            {nil, 1, model.Image{MimeType: "image/png"}, "", ""},
		"jpeg":           {[]modeltest.Picture{{Data: jpeg, Revised: "A red dot."}}, 1, model.Image{MimeType: "image/jpeg", Data: jpeg, Revised: "A red dot."}, "", ""},
		"no-format":      {[]modeltest.Picture{{NoFormat: true}}, 2, model.Image{MimeType: "image/png"}, "", ""},
		"busy":           {[]modeltest.Picture{{Status: 429, Error: "slow down"}, {}}, 2, model.Image{MimeType: "image/png"}, "", ""},
		"always-busy":    {[]modeltest.Picture{{Status: 503, Error: "overloaded"}}, 3, model.Image{}, "model_error", "failed (status 503)"},
		"failed":         {[]modeltest.Picture{{Status: 500, Error: "boom at 10.0.0.1"}}, 1, model.Image{}, "model_error", "failed (status 500)"},
		"refused":        {[]modeltest.Picture{{Status: 400, Error: "Your prompt was rejected."}}, 1, model.Image{}, "model_error", "rejected"},
		"address":        {[]modeltest.Picture{{URL: "http://169.254.169.254/x"}}, 1, model.Image{}, "model_error", "b64_json"},
		"no-base64":      {[]modeltest.Picture{{Raw: []byte(`{"data":[{"b64_json":"***"}]}`)}}, 1, model.Image{}, "model_error", "cannot be decoded"},
		"data-url":       {[]modeltest.Picture{{Raw: []byte(`{"data":[{"b64_json":"data:image/gif;base64,R0lGODlhAQABAAAAACw="}]}`)}}, 1, model.Image{MimeType: "image/gif"}, "", ""},
		"html":           {[]modeltest.Picture{{Data: []byte("<html><script>")}}, 1, model.Image{}, "model_error", "other than an image"},
		"svg":            {[]modeltest.Picture{{Data: []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)}}, 1, model.Image{}, "model_error", "other than an image"},
		"nothing":        {[]modeltest.Picture{{Raw: []byte(`{"data":[]}`)}}, 1, model.Image{}, "model_error", "sent no image"},
		"garbage":        {[]modeltest.Picture{{Raw: []byte(`<html>`)}}, 1, model.Image{}, "model_error", "did not send an answer"},
		"error-in-a-200": {[]modeltest.Picture{{Raw: []byte(`{"error":{"message":"out of credit"}}`)}}, 1, model.Image{}, "model_error", "out of credit"},
		"too-large":      {[]modeltest.Picture{{Raw: bytes.Repeat([]byte(" "), maxImageAnswer+1)}}, 1, model.Image{}, "model_error", "longer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{}, modeltest.Pictures(tt.pictures...), modeltest.RequireKey("sk-secret"))
			b.req.Target.APIKey = secret.New("sk-secret")
			got, err := b.Image(t.Context(), model.ImageRequest{Target: b.req.Target, Prompt: "A \"red\" dot", Size: "2x2"})
			if n := len(b.sim.ImageRequests()); n != tt.calls {
				t.Errorf("%d calls, want %d", n, tt.calls)
			}
			failed, _ := errors.AsType[*model.Error](err)
			if tt.code != "" {
				if failed == nil || failed.Code != tt.code || !strings.Contains(failed.Detail, tt.says) || strings.Contains(failed.Detail, "10.0.0.1") {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.Data == nil {
				got.Data = nil
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if r := b.sim.ImageRequests()[0]; r.Model != "m" || r.Prompt != `A "red" dot` || r.Size != "2x2" || r.Format != "b64_json" {
				t.Errorf("asked with %s", r.Body)
			}
		})
	}
}

func TestImageThatIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{}, modeltest.Pictures(modeltest.Picture{Status: 429, Error: "slow down"}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Image(ctx, model.ImageRequest{Target: b.req.Target}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	target := b.req.Target
	target.Guarded = true
	_, err := b.Image(t.Context(), model.ImageRequest{Target: target})
	if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Code != "provider_not_configured" {
		t.Errorf("an endpoint that a tenant names, without the guarded client: %v", err)
	}
}

func FuzzReadImage(f *testing.F) {
	f.Add([]byte(`{"data":[{"b64_json":"R0lGODlhAQABAAAAACw="}]}`))
	f.Add([]byte(`{"error":{"message":"x"}}`))
	f.Add([]byte(`{"data":[{"url":1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		img, err := readImage(raw, &model.Request{})
		if (err == nil) != (len(img.Data) > 0) {
			t.Errorf("%d bytes and %v", len(img.Data), err)
		}
	})
}
