package bedrockclient

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

const testRole = "arn:aws:iam::123456789012:role/models"

// cloud simulates AWS's services that give keys.
type cloud struct {
	*httptest.Server
	mu      sync.Mutex
	asked   []string
	expires time.Time
	refuses string // an error's code
	status  int    // of every answer; 0: as it should be
}

func newCloud(t *testing.T) *cloud {
	c := &cloud{expires: time.Now().Add(time.Hour)}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, "metadata-token")
	})
	mux.HandleFunc("GET /latest/meta-data/iam/security-credentials/{role}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Aws-Ec2-Metadata-Token") != "metadata-token" || r.PathValue("role") != "node role" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"INSTANCE","SecretAccessKey":"s","Token":"t","Expiration":%q}`, c.end())
	})
	mux.HandleFunc("GET /latest/meta-data/iam/security-credentials/{$}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Aws-Ec2-Metadata-Token") != "metadata-token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "node role")
	})
	mux.HandleFunc("GET /container", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "container-token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `{"AccessKeyId":"CONTAINER","SecretAccessKey":"s","Token":"t","Expiration":%q}`, c.end())
	})
	mux.HandleFunc("POST /{$}", c.tokens)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.status != 0 {
			w.WriteHeader(c.status)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *cloud) end() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, "")
	return c.expires.UTC().Format(time.RFC3339)
}

// tokens is the Security Token Service: AssumeRole is signed, AssumeRoleWithWebIdentity not.
func (c *cloud) tokens(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // a form that is none has no values
	action, signed := r.Form.Get("Action"), r.Header.Get("Authorization")
	scope := "/eu-central-1/sts/aws4_request"
	switch {
	case c.refuses != "", r.Form.Get("Version") != "2011-06-15", r.Form.Get("RoleArn") != testRole,
		action == "AssumeRole" && !strings.Contains(signed, scope), action == "AssumeRoleWithWebIdentity" && signed != "":
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>User: arn:aws:iam::1:user/secret-name</Message></Error></ErrorResponse>`, c.refuses)
		return
	}
	_, by, _ := strings.Cut(signed, "Credential=")
	by, _, _ = strings.Cut(by, "/")
	who := strings.Join([]string{by, r.Form.Get("WebIdentityToken"), r.Form.Get("ExternalId"), r.Form.Get("RoleSessionName"), authz.TenantOf(r.Context())}, " ")
	fmt.Fprintf(w, `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials><AccessKeyId>`, action)
	_ = xml.EscapeText(w, []byte("ASSUMED "+who))
	fmt.Fprintf(w, `</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>%s</Expiration></Credentials></%[2]sResult></%[2]sResponse>`,
		c.end(), action)
}

func (c *cloud) calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

// passage counts what goes through it, and for whom.
type passage struct {
	http.RoundTripper
	tenants []string
}

func (p *passage) RoundTrip(r *http.Request) (*http.Response, error) {
	p.tenants = append(p.tenants, authz.TenantOf(r.Context()))
	return p.RoundTripper.RoundTrip(r)
}

func ring(m Machine, c modelcall.Config) *keyring { return NewOn(m, c).ring }

func ownKeys() *model.AWS {
	return &model.AWS{AccessKeyID: "AKIA", SecretAccessKey: secret.New("long-secret"), RoleARN: testRole, ExternalID: "ours"}
}

// Keys of a machine and of roles are fetched from the service that issues them, and once until they expire.
func TestKeysOfRoles(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("cluster-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	machine := &model.AWS{From: model.FromMachine}
	container := Machine{ContainerURL: c.URL + "/container", ContainerToken: secret.New("container-token"), STS: c.URL}
	for name, tt := range map[string]struct {
		on   Machine
		as   *model.AWS
		want string
		asks int
	}{
		"instance":         {Machine{Metadata: c.URL}, machine, "INSTANCE", 1},
		"container":        {container, machine, "CONTAINER", 1},
		"web identity":     {Machine{TokenFile: file, RoleARN: testRole, STS: c.URL}, machine, "ASSUMED  cluster-token  agentd ", 1},
		"a name":           {Machine{SessionName: "n", STS: c.URL}, ownKeys(), "ASSUMED AKIA  ours n ", 1},
		"own keys":         {Machine{STS: c.URL}, ownKeys(), "ASSUMED AKIA  ours agentd ", 1},
		"machine and role": {container, &model.AWS{From: model.FromMachine, RoleARN: testRole}, "ASSUMED CONTAINER   agentd ", 2},
		"no role":          {Machine{}, &model.AWS{AccessKeyID: "AKIA"}, "AKIA", 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.calls()
			r := ring(tt.on, modelcall.Config{})
			var all sync.WaitGroup
			for range 8 { // at the same time: one of them asks
				all.Go(func() {
					got, err := r.keys(t.Context(), &model.Target{Provider: "bedrock", Access: model.Access{AWS: tt.as}}, "eu-central-1")
					if err != nil || got.AccessKeyID != tt.want {
						t.Errorf("the keys %q, %v; want %q", got.AccessKeyID, err, tt.want)
					}
				})
			}
			all.Wait()
			if n := c.calls() - before; n != tt.asks {
				t.Errorf("%d keys were requested, want %d", n, tt.asks)
			}
		})
	}
}

// What a tenant stored assumes a role through the guarded client, by its own keys, and
// never has the identity of the machine.
func TestTenantsHaveNoMachine(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	guarded := &passage{RoundTripper: http.DefaultTransport}
	r := ring(Machine{Metadata: c.URL, STS: c.URL}, modelcall.Config{Guarded: guarded})
	for name, to := range map[string]model.Target{"its endpoint": {Guarded: true, TenantID: "t-1"}, "the operator's": {OwnKey: true, TenantID: "t-1"}} {
		to.Access.AWS = &model.AWS{From: model.FromMachine}
		if _, err := r.keys(t.Context(), &to, "eu-central-1"); err == nil || !strings.Contains(err.Error(), "operator") {
			t.Errorf("%s: %v", name, err)
		}
		to.Access.AWS = ownKeys()
		if got, err := r.keys(t.Context(), &to, "eu-central-1"); err != nil || !strings.HasPrefix(got.AccessKeyID, "ASSUMED AKIA") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		to.TenantID = "t-2" // has the same keys, and egress rules of its own
		if _, err := r.keys(t.Context(), &to, "eu-central-1"); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"t-1", "t-2"}, guarded.tenants); diff != "" || c.calls() != 2 {
		t.Errorf("calls through the guarded client: %s; %d calls", diff, c.calls())
	}
	if _, err := ring(Machine{STS: c.URL}, modelcall.Config{}).keys(t.Context(),
		&model.Target{OwnKey: true, Access: model.Access{AWS: ownKeys()}}, "eu-central-1"); err == nil {
		t.Error("a tenant's keys were used without a guarded client")
	}
}

// Errors say what to look at, and repeat no secret and no name of AWS's.
func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	machine := &model.AWS{From: model.FromMachine}
	for name, tt := range map[string]struct {
		on      func(url string) Machine
		as      *model.AWS
		refuses string
		status  int
		code    string
		want    string
		passing bool
	}{
		"role":      {func(u string) Machine { return Machine{STS: u} }, ownKeys(), "AccessDenied", 0, modelcall.CodeAuth, "(AccessDenied); check role_arn", false},
		"no word":   {func(u string) Machine { return Machine{STS: u} }, ownKeys(), "a b c", 0, modelcall.CodeAuth, "(status 403)", false},
		"container": {func(u string) Machine { return Machine{ContainerURL: u + "/container"} }, machine, "", 0, modelcall.CodeAuth, "status 403", false},
		"no role":   {func(u string) Machine { return Machine{Metadata: u} }, machine, "", 404, modelcall.CodeAuth, "hop limit", false},
		"trouble":   {func(u string) Machine { return Machine{Metadata: u} }, machine, "", 503, modelcall.CodeModel, "could not be reached", true},
		"no xml":    {func(u string) Machine { return Machine{STS: u} }, ownKeys(), "", 200, modelcall.CodeModel, "could not be reached", true},
		"no file":   {func(u string) Machine { return Machine{TokenFile: "/none", RoleARN: testRole, STS: u} }, machine, "", 0, modelcall.CodeNotConfigured, "AWS_WEB_IDENTITY_TOKEN_FILE", false},
		"no arn":    {func(u string) Machine { return Machine{TokenFile: "/none", STS: u} }, machine, "", 0, modelcall.CodeNotConfigured, "AWS_ROLE_ARN", false},
		"elsewhere": {func(string) Machine { return Machine{ContainerURL: "http://example.com/x"} }, machine, "", 0, modelcall.CodeNotConfigured, "https", false},
		"a host":    {func(string) Machine { return Machine{ContainerPath: "@example.com/x"} }, machine, "", 0, modelcall.CodeNotConfigured, "https", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.refuses, c.status = tt.refuses, tt.status
			_, err := ring(tt.on(c.URL), modelcall.Config{}).keys(t.Context(), &model.Target{Provider: "bedrock", Access: model.Access{AWS: tt.as}}, "eu-central-1")
			failed, ok := errors.AsType[*model.Error](err)
			if !ok || failed.Code != tt.code || failed.Passing != tt.passing || !strings.Contains(failed.Detail, tt.want) {
				t.Fatalf("%v", err)
			}
			for _, hidden := range []string{"secret-name", "long-secret", testRole} {
				if strings.Contains(failed.Detail, hidden) {
					t.Errorf("it shows %s: %s", hidden, failed.Detail)
				}
			}
		})
	}
}

// answers is a transport that gives keys of one hour.
type answers struct{ asked atomic.Int64 }

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	fmt.Fprintf(w, `{"AccessKeyId":"KEY%d","SecretAccessKey":"s","Expiration":%q}`, a.asked.Add(1), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	return w.Result(), nil
}

// Temporary keys are replaced five minutes before they end.
func TestKeysThatEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := ring(Machine{ContainerPath: "/x"}, modelcall.Config{Operator: &answers{}})
		to := &model.Target{Access: model.Access{AWS: &model.AWS{From: model.FromMachine}}}
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{0, "KEY1"}, {54 * time.Minute, "KEY1"}, {2 * time.Minute, "KEY2"}, {time.Minute, "KEY2"}} {
			time.Sleep(step.after)
			if got, err := r.keys(t.Context(), to, "eu-central-1"); err != nil || got.AccessKeyID != step.want {
				t.Errorf("after %v more: %v, %v; want %s", step.after, got.AccessKeyID, err, step.want)
			}
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte(`<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>a</AccessKeyId><SecretAccessKey>b</SecretAccessKey><Expiration>2026-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`))
	f.Add([]byte(`{"AccessKeyId":"a","SecretAccessKey":"b","Expiration":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		give := transport(func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Write(answer)
			return w.Result(), nil
		})
		for _, to := range []*model.AWS{ownKeys(), {From: model.FromMachine}} {
			keys, err := ring(Machine{ContainerPath: "/x"}, modelcall.Config{Operator: give}).fetch(t.Context(),
				&model.Target{Access: model.Access{AWS: to}}, "eu-central-1")
			if whole := keys.AccessKeyID != "" && keys.SecretAccessKey != "" && !keys.Expires.IsZero(); (err == nil) != whole || err != nil && keys != (aws.Credentials{}) {
				t.Errorf("%+v, %v", keys, err)
			}
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
