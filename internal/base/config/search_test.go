package config

import (
	"strings"
	"testing"

	"agentd/internal/base/secret"
)

func TestSearchSettings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		search Search
		want   string // part of the complaint; "": none
	}{
		"none":             {Search{}, ""},
		"searxng":          {Search{Provider: "searxng", URL: "http://127.0.0.1:8888"}, ""},
		"searxng_with_key": {Search{Provider: "searxng", URL: "https://search.example/", APIKey: secret.New("k")}, ""},
		"brave":            {Search{Provider: "brave", APIKey: secret.New("k")}, ""},
		"searxng_nowhere":  {Search{Provider: "searxng"}, "AGENTD_SEARCH_URL does not say where"},
		"brave_without":    {Search{Provider: "brave"}, "holds no token"},
		"unknown":          {Search{Provider: "ducks"}, `not "ducks"`},
		"url_alone":        {Search{URL: "http://127.0.0.1"}, "must say who searches"},
		"key_alone":        {Search{APIKey: secret.New("topsecret")}, "must say who searches"},
		"no_url":           {Search{Provider: "searxng", URL: "localhost:8888"}, "AGENTD_SEARCH_URL"},
	} {
		var v verdict
		test.search.validate(&v)
		err := v.err()
		if (err != nil) != (test.want != "") || err != nil && (!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "topsecret")) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
