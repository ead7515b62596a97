package azureclient

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
	"agentd/internal/wire/wiretest"
)

func azure(url string) model.Target {
	return model.Target{
		Provider: "azure", Model: "my deployment", BaseURL: url, APIKey: secret.New("azure-secret"), Wire: model.WireAzure,
		Access: model.Access{APIVersion: "2025-04-01-preview"},
	}
}

var protocol = wiretest.Chat{
	Path: "/openai/deployments/my%20deployment/chat/completions?api-version=2025-04-01-preview", Header: "Api-Key", Key: "azure-secret", To: azure,
}

// Azure OpenAI behaves as all wires do (rule D23-wires).
func TestWire(t *testing.T) {
	wiretest.Run(t, func(c modelcall.Config) model.Client { return New(c, "") }, protocol, wiretest.Features{NoSignatures: true})
}

func hello(to model.Target) model.Request {
	return model.Request{Target: to, Messages: []model.Message{{Role: model.User, Text: "Hi"}}}
}

// An application's token stands in place of the key. It is requested once while it holds,
// and again by another secret; a refusal names what to check, and no secret (rule
// D23-azure-entra).
func TestEntra(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	directory := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_ = r.ParseForm() // a form that is none has no values
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/t-1/oauth2/v2.0/token" || r.Form.Get("grant_type") != "client_credentials" || r.Form.Get("client_id") != "c-1" ||
			r.Form.Get("scope") != "https://cognitiveservices.azure.com/.default" || r.Form.Get("client_secret") != "entra-secret" {
			w.WriteHeader(http.StatusUnauthorized)
			w.Write([]byte(`{"error":"invalid_client","error_description":"AADSTS7000215"}`))
			return
		}
		w.Write([]byte(`{"token_type":"Bearer","expires_in":3599,"access_token":"token-1"}`))
	}))
	defer directory.Close()
	p := protocol
	p.Path, p.Header, p.Key = "/openai/deployments/m/chat/completions?api-version="+defaultVersion, "Authorization", "Bearer token-1"
	p.To = func(url string) model.Target {
		return model.Target{Provider: "azure", Model: "m", BaseURL: url, Wire: model.WireAzure, Access: model.Access{
			Entra: &model.Entra{TenantID: "t-1", ClientID: "c-1", ClientSecret: secret.New("entra-secret")},
		}}
	}
	e := wiretest.NewEndpoint(t, p, wiretest.Features{}, wiretest.Reply{Answer: wiretest.Answer{Blocks: []wiretest.Block{{Text: "So."}}}})
	client := New(wiretest.Config(), directory.URL)
	for range 3 {
		if resp, err := client.Generate(t.Context(), hello(p.To(e.URL+"/openai")), nil); err != nil || resp.Text != "So." {
			t.Fatalf("%+v, %v", resp, err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("%d tokens were requested", asked.Load())
	}
	wrong := p.To(e.URL)
	wrong.Access.Entra.ClientSecret = secret.New("other-secret")
	_, err := client.Generate(t.Context(), hello(wrong), nil)
	if err == nil || !strings.Contains(err.Error(), "provider_auth_failed") || !strings.Contains(err.Error(), "client_secret") || strings.Contains(err.Error(), "other-secret") {
		t.Errorf("%v", err)
	}
	directory.Close()
	wrong.Access.Entra.ClientSecret = secret.New("third-secret")
	if _, err = client.Generate(t.Context(), hello(wrong), nil); err == nil || !strings.Contains(err.Error(), "could not be reached") {
		t.Errorf("%v", err)
	}
}
