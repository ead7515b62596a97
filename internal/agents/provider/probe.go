package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/text"
	"agentd/internal/kernel/model"
)

// probeTimeout is how long a probe waits for an endpoint.
const probeTimeout = 5 * time.Second

// Statuses of endpoints, as in model.Error.
const (
	statusOK           = 200
	statusUnauthorized = 401
	statusForbidden    = 403
	statusNotFound     = 404
	statusNoMethod     = 405
)

// Probed is what a probe of an endpoint found, in a sentence for the operator.
type Probed struct {
	OK   bool
	Text string
}

// Probe asks an endpoint of the operator for its models, and reports whether it
// answers, accepts the key and lists the models that are going to be called. setting
// names where its address is configured, keySetting its key. The sentence has no
// key, but may have the address.
func Probe(ctx context.Context, lister model.Lister, to model.Target, models []string, setting, keySetting string) Probed {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	listed, err := lister.ListModels(ctx, to)
	if err == nil {
		return probeModels(to, listed, models)
	}
	e, ok := errors.AsType[*model.Error](err)
	switch {
	case !ok:
		return Probed{Text: fmt.Sprintf("%s did not answer within %v; check %s", to.BaseURL, probeTimeout, setting)}
	case e.Status == statusUnauthorized || e.Status == statusForbidden:
		with := "the key"
		if to.APIKey.Empty() {
			with = "calls without a key"
		}
		return Probed{Text: fmt.Sprintf("%s refuses %s (status %d); check %s", to.BaseURL, with, e.Status, keySetting)}
	case e.Status == 0:
		return Probed{Text: fmt.Sprintf("%s cannot be reached: %s; check %s, and that the endpoint runs", to.BaseURL, reason(e), setting)}
	case e.Status == statusNotFound, e.Status == statusNoMethod, e.Status == statusOK:
		return probeDeeper(ctx, lister, to, e, setting)
	}
	return Probed{Text: fmt.Sprintf("%s does not list its models: %s", to.BaseURL, strings.TrimSuffix(e.Detail, "."))}
}

// reason is why an endpoint was not reached.
func reason(e *model.Error) string {
	if e.Cause == nil {
		return strings.TrimSuffix(e.Detail, ".")
	}
	return text.Truncate(text.OneLine(e.Cause.Error()), 300)
}

// probeDeeper looks for the list of models where the address is most often meant to
// be: below /v1.
func probeDeeper(ctx context.Context, lister model.Lister, to model.Target, failed *model.Error, setting string) Probed {
	deeper := to
	deeper.BaseURL = strings.TrimRight(to.BaseURL, "/") + "/v1"
	if _, err := lister.ListModels(ctx, deeper); err == nil {
		return Probed{Text: fmt.Sprintf("%s has no models, but %s has: /v1 is missing in %s", to.BaseURL, deeper.BaseURL, setting)}
	}
	if failed.Status == statusOK {
		return Probed{Text: fmt.Sprintf("%s answers, but not as an OpenAI-compatible endpoint does; check %s", to.BaseURL, setting)}
	}
	return Probed{Text: fmt.Sprintf("%s answers, but does not list its models (status %d): calls may work, or %s is wrong",
		to.BaseURL, failed.Status, setting)}
}

func probeModels(to model.Target, listed []model.Listed, models []string) Probed {
	ids := make([]string, len(listed))
	for i, m := range listed {
		ids[i] = m.ID
	}
	for _, name := range models {
		// Ollama lists llama3.2:latest and serves it as llama3.2 too.
		if slices.Contains(ids, name) || slices.Contains(ids, name+":latest") {
			continue
		}
		sentence := fmt.Sprintf("%s answers, but does not list the model %q", to.BaseURL, text.Truncate(name, 100))
		if near := text.Nearest(name, ids); near != "" {
			return Probed{Text: sentence + fmt.Sprintf("; did you mean %q?", text.Truncate(near, 100))}
		}
		return Probed{Text: sentence + "; it lists " + some(ids)}
	}
	if len(models) == 0 {
		return Probed{OK: true, Text: fmt.Sprintf("%s answers, and lists %s", to.BaseURL, some(ids))}
	}
	return Probed{OK: true, Text: fmt.Sprintf("%s answers, and lists %s", to.BaseURL, strings.Join(models[:min(len(models), maxNamed)], ", "))}
}

// maxNamed is how many models a sentence names.
const maxNamed = 5

func some(ids []string) string {
	first := make([]string, 0, maxNamed)
	for _, id := range ids[:min(len(ids), maxNamed)] {
		first = append(first, text.Truncate(text.OneLine(id), 100))
	}
	list := cmp.Or(strings.Join(first, ", "), "none")
	if more := len(ids) - len(first); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}
