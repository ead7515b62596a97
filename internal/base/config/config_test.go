package config

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
	"agentd/internal/goldentest"
)

func TestReferenceIsFresh(t *testing.T) {
	t.Parallel()
	goldentest.Check(t, "../../../docs/configuration.md", []byte(Reference()))
}

// The reference must name the flags that the command line has.
func TestFlagsAreThoseOfTheCommandLine(t *testing.T) {
	t.Parallel()
	var cfg Config
	parser, err := kong.New(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range parser.Model.Flags {
		if f.Name != "help" {
			want = append(want, "--"+f.Name+" "+f.Envs[0])
		}
	}
	var got []string
	for s := range cfg.Settings() {
		got = append(got, s.Flag+" "+s.Env)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// parse reads flags as the command line does, which also validates.
func parse(t *testing.T, args ...string) (*Config, error) {
	t.Helper()
	var command struct {
		Config Config `embed:""`
	}
	parser, err := kong.New(&command)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return &command.Config, err
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	cfg, err := parse(t)
	if err != nil {
		t.Error(err)
	}
	if got := cfg.Server.Listen; got != "127.0.0.1:8080" {
		t.Errorf("Listen = %q", got)
	}
	if got := cfg.Server.RateLimits; got != "tenant=6000/m,key=3000/m" {
		t.Errorf("RateLimits = %q", got)
	}
	if got := cfg.Server.StreamsPerTenant; got != 20_000 {
		t.Errorf("StreamsPerTenant = %d", got)
	}
	if got, err := cfg.Server.Proxies(); err != nil || got != nil {
		t.Errorf("Proxies = %v, %v", got, err)
	}
	if got := cfg.Observability.Level(); got != slog.LevelInfo {
		t.Errorf("Level = %v", got)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "providers.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string // part of the error; empty: none
	}{
		{"every interface", []string{"--listen=:8080"}, ""},
		{"trusted proxies", []string{"--trusted-proxies=10.0.0.0/8, 192.0.2.1,fd00::/8,::1"}, ""},
		{"a proxy by name", []string{"--trusted-proxies=10.0.0.0/8,proxy.example"}, `AGENTD_TRUSTED_PROXIES "proxy.example" is no network`},
		{"too long a prefix", []string{"--trusted-proxies=10.0.0.0/33"}, "AGENTD_TRUSTED_PROXIES"},
		{"a proxy with a port", []string{"--trusted-proxies=10.0.0.1:80"}, "AGENTD_TRUSTED_PROXIES"},
		{"a proxy with a zone", []string{"--trusted-proxies=fe80::1%eth0"}, "AGENTD_TRUSTED_PROXIES"},
		{"any number of streams", []string{"--streams-per-tenant=0"}, ""},
		{"less than no streams", []string{"--streams-per-tenant=-1"}, "AGENTD_STREAMS_PER_TENANT must be 0 or more"},
		{"a model that may take a day", []string{"--model-start-timeout=24h"}, "AGENTD_MODEL_START_TIMEOUT must be from 0s, for the default, to 1h0m0s"},
		{"a role", []string{"--role=api", "--database-url=postgres://u:p@h/agentd"}, ""},
		{"a role on SQLite", []string{"--role=worker"}, "AGENTD_ROLE worker needs AGENTD_DATABASE_URL"},
		{"less than no room", []string{"--disk-reserve-mib=-1"}, "AGENTD_DISK_RESERVE_MIB must be from 0"},
		{"any port", []string{"--listen=[::1]:0"}, ""},
		{"no port", []string{"--listen=localhost"}, `AGENTD_LISTEN "localhost" is no address`},
		{"port out of range", []string{"--listen=:70000"}, `AGENTD_LISTEN "70000" is no port`},
		{"no data directory", []string{"--data-dir= "}, "AGENTD_DATA_DIR must name a directory"},
		{"postgres", []string{"--database-url=postgres://u:p@h1:1,h2:2/agentd"}, ""},
		{"postgres behind a socket", []string{"--database-url=postgres:///agentd?host=/run/postgresql"}, ""},
		{"no address at all", []string{"--database-url=agentd"}, "AGENTD_DATABASE_URL must begin with postgres:// or postgresql://"},
		{"nats without a host", []string{"--nats-url=nats:///x"}, "AGENTD_NATS_URL names no host"},
		{"stdio servers", []string{"--mcp-stdio=/bin/sh, /bin/true"}, ""},
		{"a command without a path", []string{"--mcp-stdio=npx"}, `AGENTD_MCP_STDIO "npx" is no absolute path`},
		{"a command that is not there", []string{"--mcp-stdio=/bin/sh,/no/such/command"}, "AGENTD_MCP_STDIO cannot be used"},
		{"a command that is a directory", []string{"--mcp-stdio=/bin/"}, "AGENTD_MCP_STDIO /bin/ is no program"},
		{"another database", []string{"--database-url=mysql://h/agentd"}, "AGENTD_DATABASE_URL must begin with postgres:// or postgresql://"},
		{"nats cluster", []string{"--nats-url=nats://a:4222,nats://b:4222"}, ""},
		{"half a nats cluster", []string{"--nats-url=nats://a:4222,http://b:4222"}, "AGENTD_NATS_URL must begin with nats:// or tls://"},
		{"search memory", []string{"--search-memory-mib=16"}, ""},
		{"little search memory", []string{"--search-memory-mib=15"}, "AGENTD_SEARCH_MEMORY_MIB must be from 16 to 1048576"},
		{"short secret key", []string{"--secret-key=aGVsbG8="}, "AGENTD_SECRET_KEY holds 5 bytes and must hold 32"},
		{"secret key in no base64", []string{"--secret-key=***"}, "AGENTD_SECRET_KEY is not base64"},
		{"secret key, url spelling", []string{"--secret-key=__________________________________________8"}, ""},
		{"model", []string{"--model-base-url=http://10.0.0.1:1/v1", "--model=meta/llama"}, ""},
		{"model in a file", []string{"--providers=" + file, "--model=far/llama"}, ""},
		{"embeddings of the model's endpoint", []string{"--model-base-url=http://10.0.0.1:1/v1", "--embedding-model=e5"}, ""},
		{"embeddings of their own endpoint", []string{"--embedding-base-url=http://10.0.0.1:1/v1", "--embedding-model=e5"}, ""},
		{"speech from nowhere", []string{"--speech-model=a/b"}, "AGENTD_SPEECH_MODEL names the model a/b, but neither"},
		{"transcriptions from nowhere", []string{"--transcription-model=ear"}, "AGENTD_TRANSCRIPTION_MODEL names the model ear, but neither"},
		{"embeddings from nowhere", []string{"--embedding-model=e5"}, "AGENTD_EMBEDDING_MODEL names the model e5, but neither"},
		{"rerank endpoint without a scheme", []string{"--rerank-base-url=localhost:1"}, "AGENTD_RERANK_BASE_URL"},
		{"embedding endpoint without a scheme", []string{"--embedding-base-url=localhost:1"}, "AGENTD_EMBEDDING_BASE_URL"},
		{"echo", []string{"--model=builtin/echo"}, ""},
		{"messages model from nowhere", []string{"--messages-model=llama"}, "AGENTD_MESSAGES_MODEL names the model llama, but neither"},
		{"model from nowhere", []string{"--model=llama"}, "AGENTD_MODEL names the model llama, but neither"},
		{"endpoint without a scheme", []string{"--model-base-url=localhost:11434/v1"}, "AGENTD_MODEL_BASE_URL"},
		{"no such file", []string{"--providers=" + file + ".not"}, "AGENTD_PROVIDERS cannot be read"},
		{"a directory", []string{"--providers=" + filepath.Dir(file)}, "AGENTD_PROVIDERS must be a file"},
		{"plans", []string{"--plans=" + file}, ""},
		{"no such plans", []string{"--plans=" + file + ".not"}, "AGENTD_PLANS cannot be read"},
		{"collector", []string{"--otlp-endpoint=collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"public url", []string{"--public-url=agents.example.com"}, "AGENTD_PUBLIC_URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, tt.args...)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestValidateReportsEverything(t *testing.T) {
	t.Parallel()
	cfg, _ := parse(t, "--listen=x", "--database-url=x", "--model=x")
	err := cfg.Validate()
	for _, want := range []string{"AGENTD_LISTEN", "AGENTD_DATABASE_URL", "AGENTD_MODEL "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

// Nothing that is secret may be seen in any printed form, valid or not.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	const hush = "hushhushhush"
	for _, dsn := range []string{
		"postgres://user:" + hush + "@db:5432/agentd?sslmode=require",
		"postgres://db/agentd?user=x&password=" + hush + "&sslmode=require",
		"postgres://db/agentd?sslpassword=" + hush,
		"postgres://user:" + hush + "/" + hush + "@db/agentd",
		"postgres://user:" + hush + "@" + hush + "@db/agentd",
		"postgres://user:%zz" + hush + "@db/agentd",
		"nats://a:4222,nats://" + hush + "@b:4222",
		hush,
	} {
		cfg, err := parse(t, "--database-url="+dsn, "--nats-url="+dsn, "--owner-key="+hush, "--secret-key="+hush, "--model-api-key="+hush, "--embedding-api-key="+hush)
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "config", cfg, "url", cfg.Storage.DatabaseURL)
		printed := fmt.Sprintf("%v %+v %#v", *cfg, cfg, cfg.Storage.DatabaseURL) + log.String() + fmt.Sprint(err, cfg.Validate()) + cfg.Dump()
		if strings.Contains(printed, hush) {
			t.Errorf("%s is seen in:\n%s", dsn, printed)
		}
	}
}

func TestURLShowsItsHost(t *testing.T) {
	t.Parallel()
	got := NewURL("postgres://user:pw@db:5432/agentd?password=pw&sslmode=require").String()
	want := "postgres://" + secret.Redacted + "@db:5432/agentd?password=" + secret.Redacted + "&sslmode=require"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()
	got, err := Server{TrustedProxies: " 10.1.2.3/8,192.0.2.1 ,::ffff:192.0.2.2,, fd00::1/8,::ffff:10.0.0.0/104"}.Proxies()
	if err != nil || fmt.Sprint(got) != "[10.0.0.0/8 192.0.2.1/32 192.0.2.2/32 fd00::/8 10.0.0.0/8]" {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzProxies(f *testing.F) {
	for _, seed := range []string{"", "10.0.0.0/8", "::ffff:10.0.0.0/104", "fe80::1%x", "1.2.3.4/-1", ",,x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Server{TrustedProxies: text}.Proxies()
		for _, network := range all {
			if err != nil || !network.IsValid() || !network.Contains(network.Addr()) {
				t.Errorf("%q: %v, %v", text, all, err)
			}
		}
	})
}

func TestDumpIsAnEnvironmentFile(t *testing.T) {
	t.Parallel()
	cfg, err := parse(t, "--egress-allow=10.0.0.0/8,127.0.0.1:1", "--owner-key=k", "--database-url=postgres://u:p@h/d")
	if err != nil {
		t.Fatal(err)
	}
	got := cfg.Dump()
	for _, want := range []string{
		"AGENTD_LISTEN=127.0.0.1:8080\n", "AGENTD_EGRESS_ALLOW=10.0.0.0/8,127.0.0.1:1\n", "AGENTD_OWNER_KEY=[redacted]\n",
		"AGENTD_SECRET_KEY=\n", "AGENTD_DATABASE_URL=postgres://[redacted]@h/d\n", "# Storage\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}
