package model_test

import (
	"errors"
	"testing"

	"agentd/internal/kernel/model"
)

// TestRememberedProvider: a model whose provider is known goes to that one or fails.
func TestRememberedProvider(t *testing.T) {
	t.Parallel()
	providers, err := model.ParseProviders([]byte(keysFile))
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := model.NewCatalogue(providers, "small")
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{"acme/x": "acme", "gone/x": "default", "small": "default", "": ""} {
		if got := catalogue.ProviderOf(ref); got != want {
			t.Errorf("%q is served by %q, want %q", ref, got, want)
		}
	}
	r := model.Resolver{Catalogue: catalogue}
	for name, test := range map[string]struct {
		spec            model.Spec
		provider, model string // "": it is missing
	}{
		"there":               {model.Spec{ModelRef: "acme/x", Remembered: "acme"}, "acme", "x"},
		"removed":             {model.Spec{ModelRef: "tools/x", Remembered: "tools"}, "", ""},
		"unknown":             {model.Spec{ModelRef: "tools/x"}, "default", "tools/x"},
		"not_taken_by_a_name": {model.Spec{ModelRef: "acme/x", Remembered: "default"}, "default", "acme/x"},
		"bare_name":           {model.Spec{ModelRef: "small", Remembered: "default"}, "default", "small"},
	} {
		got, err := r.Resolve(t.Context(), "t1", test.spec)
		if test.provider == "" {
			failed, ok := errors.AsType[*model.Error](err)
			if !ok || failed.Code != model.CodeProviderMissing || failed.Passing {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		if err != nil || got.Provider != test.provider || got.Model != test.model {
			t.Errorf("%s: %s/%s, %v", name, got.Provider, got.Model, err)
		}
	}
}
