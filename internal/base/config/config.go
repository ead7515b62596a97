// Package config holds every setting of agentd. One struct declares its flag,
// environment variable, default and documentation, from which the command line,
// the printed configuration and docs/configuration.md are generated. Every
// setting is read somewhere.
package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"agentd/internal/base/secret"
)

// Config is what `agentd serve` runs with.
type Config struct {
	Server        Server        `embed:"" group:"Server"`
	Storage       Storage       `embed:"" group:"Storage"`
	Bus           Bus           `embed:"" group:"Several nodes"`
	Security      Security      `embed:"" group:"Security"`
	Models        Models        `embed:"" group:"Models"`
	Tenancy       Tenancy       `embed:"" group:"Tenants"`
	Billing       Billing       `embed:"" group:"Payments"`
	Search        Search        `embed:"" group:"Web search"`
	Webhooks      Webhooks      `embed:"" group:"Webhooks"`
	Mail          Mail          `embed:"" group:"Mail"`
	SignIn        SignIn        `embed:"" group:"Signing in"`
	Governance    Governance    `embed:"" group:"Governance"`
	Observability Observability `embed:"" group:"Logs and traces"`
}

// Governance is whether agents act under rules.
type Governance struct {
	Governance string `env:"AGENTD_GOVERNANCE" name:"governance" default:"on" enum:"on,off" placeholder:"on|off" help:"Whether companies can set rules for their agents, which every act is checked against. off: these operations are 501, and nothing is checked."`
}

// Off reports whether governance is switched off.
func (g Governance) Off() bool { return g.Governance == "off" }

// The roles of a node that does not do everything.
const (
	RoleAPI    = "api"
	RoleWorker = "worker"
)

// Server is where agentd is reached.
type Server struct {
	Listen    string `env:"AGENTD_LISTEN" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address to listen on."`
	PublicURL string `env:"AGENTD_PUBLIC_URL" name:"public-url" placeholder:"URL" help:"Address that clients use, where a proxy stands in front of agentd. Empty: the address listened on."`

	TLSCert       string `env:"AGENTD_TLS_CERT" name:"tls-cert" placeholder:"FILE" help:"Certificate chain (PEM) with which agentd itself speaks TLS; read again when the file changes. Empty: no TLS; a proxy in front has it."`
	TLSKey        string `env:"AGENTD_TLS_KEY" name:"tls-key" placeholder:"FILE" help:"Private key (PEM) of AGENTD_TLS_CERT."`
	MetricsListen string `env:"AGENTD_METRICS_LISTEN" name:"metrics-listen" placeholder:"HOST:PORT" help:"Address for /metrics, for /health with the details of the build and for /debug/pprof/, without TLS and without a key: for the operator's own network. AGENTD_LISTEN then has neither. Empty: /metrics is on AGENTD_LISTEN."`

	CORSOrigins      string `env:"AGENTD_CORS_ORIGINS" name:"cors-origins" placeholder:"ORIGINS" help:"Origins of pages in browsers that may call the API with a key, as in https://app.example.com; several by commas, * for any. Cookies never go with such calls. Empty: none but the service's own."`
	RateLimits       string `env:"AGENTD_RATE_LIMITS" default:"tenant=6000/m,key=3000/m" placeholder:"LIMITS" help:"How many requests a tenant, a key (or browser session) and an operation of a tenant may make: any of tenant=N/m, key=N/m and endpoint=N/m by commas, with /s, /m or /h. off: no limits."`
	StreamsPerTenant int    `env:"AGENTD_STREAMS_PER_TENANT" name:"streams-per-tenant" default:"20000" placeholder:"N" help:"How many event streams a tenant may have open at once on this node. 0: any number."`

	DiskReserveMiB int `env:"AGENTD_DISK_RESERVE_MIB" name:"disk-reserve-mib" default:"256" placeholder:"MIB" help:"Room on the disk with the SQLite database, in MiB, below which new runs are refused, so that those under way can end. 0: none is kept."`

	Role string `env:"AGENTD_ROLE" name:"role" default:"all" enum:"all,api,worker" placeholder:"ROLE" help:"What this node does: api serves the API and carries no runs or other work, worker carries them and serves probes and metrics alone, all does both. api and worker need PostgreSQL, and a node of the other role."`

	DrainTimeout time.Duration `env:"AGENTD_DRAIN_TIMEOUT" default:"30s" placeholder:"DURATION" help:"How long a server that is stopped with SIGTERM lets steps of runs, deliveries and requests that are under way come to their end. What is left then is cut off, as it is at a second signal. Ctrl-C at a terminal waits 3s at most."`

	TrustedProxies string `env:"AGENTD_TRUSTED_PROXIES" placeholder:"CIDR" help:"Addresses of the proxies in front of agentd, several by commas, whose X-Forwarded-For says who the client is. Empty: none; the client is whoever connects."`
}

// Proxies returns the networks of TrustedProxies; a single address becomes a
// network of one. It fails for a part that is neither.
func (s Server) Proxies() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for part := range strings.SplitSeq(s.TrustedProxies, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		network, err := netip.ParsePrefix(part)
		if err != nil {
			address, err := netip.ParseAddr(part)
			if err != nil || address.Zone() != "" {
				return nil, fmt.Errorf("%q is no network; write it as 10.0.0.0/8 or fd00::/8, or one address", part)
			}
			network = netip.PrefixFrom(address, address.BitLen())
		}
		if address := network.Addr(); address.Is4In6() && network.Bits() >= 96 { // else it would hold no IPv4 address
			network = netip.PrefixFrom(address.Unmap(), network.Bits()-96)
		}
		all = append(all, network.Masked())
	}
	return all, nil
}

// Origins returns the origins of CORSOrigins in lower case.
func (s Server) Origins() []string {
	var all []string
	for part := range strings.SplitSeq(s.CORSOrigins, ",") {
		if part = strings.ToLower(strings.TrimSpace(part)); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// checkOrigins requires origins as browsers send them: without a path.
func checkOrigins(all []string) error {
	for _, one := range all {
		u, err := url.Parse(one)
		if one == "*" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && one == u.Scheme+"://"+u.Host {
			continue
		}
		return fmt.Errorf("%q is no origin; write it without a path, as https://app.example.com or http://localhost:3000, or * for any", one)
	}
	return nil
}

// Storage is where state is kept. The commands that work on the database
// directly (migrate, admin) read these settings only.
type Storage struct {
	DataDir     string `env:"AGENTD_DATA_DIR" default:"./agentd-data" placeholder:"DIR" help:"Directory for everything that agentd keeps on disk; made, for its owner only, if it is not there."`
	DatabaseURL URL    `env:"AGENTD_DATABASE_URL" name:"database-url" placeholder:"URL" help:"postgres://user:password@host/name to keep state in PostgreSQL. Empty: SQLite in the data directory."`
}

// Bus connects nodes, so that they are notified of each other's work.
type Bus struct {
	NATSURL    URL    `env:"AGENTD_NATS_URL" name:"nats-url" placeholder:"URL" help:"nats://host:4222 (several by commas) to share live events and wake-ups with other nodes. Empty: the NATS inside agentd."`
	NATSListen string `env:"AGENTD_NATS_LISTEN" name:"nats-listen" placeholder:"HOST:PORT" help:"Address on which the NATS inside agentd takes other nodes, which name it in AGENTD_NATS_URL and share AGENTD_SECRET_KEY. Empty: none; it serves this node alone."`
}

// Security is keys, and where agentd may call.
type Security struct {
	OwnerKey    secret.String `env:"AGENTD_OWNER_KEY" placeholder:"KEY" help:"Key of the first tenant's owner, svc_ with 8 and 32 letters or digits. Read on the first start only. Empty: one is made and printed once."`
	SecretKey   secret.String `env:"AGENTD_SECRET_KEY" placeholder:"BASE64" help:"32 bytes in base64 that seal what is stored encrypted; several by commas while one is replaced: the first one seals, all of them open. Nodes that share a database must share it. Empty: made once in the data directory, in secret.key, which takes several lines."`
	EgressAllow string        `env:"AGENTD_EGRESS_ALLOW" placeholder:"CIDR|IP:PORT" help:"Private addresses that calls whose target a tenant chose may reach all the same; several by commas."`
	MCPStdio    string        `env:"AGENTD_MCP_STDIO" name:"mcp-stdio" placeholder:"PATH" help:"Absolute paths of the commands that tenants may run as MCP servers over standard streams, in a sandbox, without arguments or variables of their own; several by commas. Empty: none."`

	MCPStdioCommands string `env:"AGENTD_MCP_STDIO_COMMANDS" name:"mcp-stdio-commands" placeholder:"FILE" help:"JSON file with further such commands: the arguments and variables that tenants may set, what the sandbox lets them read, their limits and whether they have a network (docs/mcp.md). Empty: none."`
	SandboxUser      string `env:"AGENTD_SANDBOX_USER" name:"sandbox-user" placeholder:"NAME" help:"User, by name or number, that sandboxed commands run as where agentd runs as root. Empty: a number for each process, from 64000 on, that has no other files."`
}

// Models is the operator's own model endpoint, and a file with further ones.
type Models struct {
	BaseURL       string        `env:"AGENTD_MODEL_BASE_URL" name:"model-base-url" placeholder:"URL" help:"OpenAI-compatible endpoint, as in http://127.0.0.1:11434/v1; the provider that it makes is called default."`
	APIKey        secret.String `env:"AGENTD_MODEL_API_KEY" name:"model-api-key" placeholder:"KEY" help:"Key for that endpoint; it is sent nowhere else."`
	RerankBaseURL string        `env:"AGENTD_RERANK_BASE_URL" name:"rerank-base-url" placeholder:"URL" help:"Endpoint that orders what searches of knowledge bases found, with /rerank of the form of Jina, Cohere, vLLM or TEI. Empty: none."`
	RerankModel   string        `env:"AGENTD_RERANK_MODEL" name:"rerank-model" placeholder:"NAME" help:"Model that AGENTD_RERANK_BASE_URL is asked for; empty where it has one alone."`
	RerankAPIKey  secret.String `env:"AGENTD_RERANK_API_KEY" name:"rerank-api-key" placeholder:"KEY" help:"Key for AGENTD_RERANK_BASE_URL; it is sent nowhere else."`
	Model         string        `env:"AGENTD_MODEL" placeholder:"NAME" help:"Model of agents that name none: a name that the default provider knows, or PROVIDER/NAME. Empty: the first one listed in AGENTD_PROVIDERS, if any."`

	MaxConcurrency  int `env:"AGENTD_MODEL_MAX_CONCURRENCY" name:"model-max-concurrency" placeholder:"N" help:"How many calls that endpoint takes at a time with its key, from all nodes together; what is over waits. 0: no limit. Providers of AGENTD_PROVIDERS have max_concurrency."`
	TokensPerMinute int `env:"AGENTD_MODEL_TOKENS_PER_MINUTE" name:"model-tokens-per-minute" placeholder:"N" help:"How many tokens a minute that endpoint takes with its key, from all nodes together; what is over waits. 0: no limit. Providers of AGENTD_PROVIDERS have tokens_per_minute."`

	StartTimeout time.Duration `env:"AGENTD_MODEL_START_TIMEOUT" name:"model-start-timeout" default:"2m" placeholder:"DURATION" help:"How long a model may take until its streamed answer begins; then the call is tried again. Raise it for models that are loaded when they are called."`

	MessagesModel string `env:"AGENTD_MESSAGES_MODEL" name:"messages-model" placeholder:"NAME" help:"Model that answers POST /v1/messages where a model is named whose name begins with claude-: a name that the default provider knows, or PROVIDER/NAME. Empty: that of AGENTD_MODEL."`
	Fallback      string `env:"AGENTD_FALLBACK_MODEL" name:"fallback-model" placeholder:"PROVIDER/NAME" help:"Model that the model proxy asks where the one that was named does not answer. Agents name a fallback of their own. Empty: none."`

	EmbeddingModel   string        `env:"AGENTD_EMBEDDING_MODEL" name:"embedding-model" placeholder:"NAME" help:"Model that turns texts into vectors, so that memory and knowledge are found by meaning too. Empty: they are found by their words alone."`
	EmbeddingBaseURL string        `env:"AGENTD_EMBEDDING_BASE_URL" name:"embedding-base-url" placeholder:"URL" help:"OpenAI-compatible endpoint of that model. Empty: AGENTD_MODEL_BASE_URL, with its key."`
	EmbeddingAPIKey  secret.String `env:"AGENTD_EMBEDDING_API_KEY" name:"embedding-api-key" placeholder:"KEY" help:"Key for AGENTD_EMBEDDING_BASE_URL; it is sent nowhere else."`
	SearchMemoryMiB  int           `env:"AGENTD_SEARCH_MEMORY_MIB" name:"search-memory-mib" default:"256" placeholder:"MIB" help:"Memory for the indexes of memory and knowledge on this node, in MiB, 16 at least. Those that were not searched for the longest time are dropped, and made again from the database when they are searched."`

	SpeechModel        string `env:"AGENTD_SPEECH_MODEL" name:"speech-model" placeholder:"NAME" help:"Model that speaks, as PROVIDER/NAME or a name that the default provider knows. Empty: /llm/audio/speech is 501."`
	SpeechVoice        string `env:"AGENTD_SPEECH_VOICE" name:"speech-voice" placeholder:"NAME" help:"Voice of those who ask for none. Empty: alloy."`
	TranscriptionModel string `env:"AGENTD_TRANSCRIPTION_MODEL" name:"transcription-model" placeholder:"NAME" help:"Model that writes down what is said, as PROVIDER/NAME or a name that the default provider knows. Empty: /llm/audio/transcriptions is 501."`

	Prices    string `env:"AGENTD_MODEL_PRICES" name:"model-prices" placeholder:"FILE" help:"JSON file with prices and limits of public providers' models, in place of the list that agentd comes with."`
	Providers string `env:"AGENTD_PROVIDERS" placeholder:"FILE" help:"JSON file with further model providers, their models, and what is known of these: context windows, prices, capabilities."`

	AWSAccessKeyID     string        `env:"AWS_ACCESS_KEY_ID" name:"aws-access-key-id" placeholder:"ID" help:"Access key with which providers of Amazon Bedrock in AGENTD_PROVIDERS are called that have no key there."`
	AWSSecretAccessKey secret.String `env:"AWS_SECRET_ACCESS_KEY" name:"aws-secret-access-key" placeholder:"KEY" help:"Secret of AWS_ACCESS_KEY_ID."`
	AWSSessionToken    secret.String `env:"AWS_SESSION_TOKEN" name:"aws-session-token" placeholder:"TOKEN" help:"Session token of AWS_ACCESS_KEY_ID, if it is temporary."`
	AWSBearerToken     secret.String `env:"AWS_BEARER_TOKEN_BEDROCK" name:"aws-bearer-token-bedrock" placeholder:"KEY" help:"Bedrock's own API key for those providers, in place of AWS_ACCESS_KEY_ID."`

	AWSMachine
}

// AWSMachine is how providers of Amazon Bedrock with "from": "machine" get their keys. AWS
// sets most of these variables itself.
type AWSMachine struct {
	RoleARN            string        `env:"AWS_ROLE_ARN" name:"aws-role-arn" placeholder:"ARN" help:"Role that AWS_WEB_IDENTITY_TOKEN_FILE assumes, for providers of AGENTD_PROVIDERS whose aws is from: machine."`
	TokenFile          string        `env:"AWS_WEB_IDENTITY_TOKEN_FILE" name:"aws-web-identity-token-file" placeholder:"FILE" help:"Token of a Kubernetes service account, with which that role is assumed."`
	SessionName        string        `env:"AWS_ROLE_SESSION_NAME" name:"aws-role-session-name" placeholder:"NAME" help:"Name of the sessions of roles in AWS's logs. Empty: agentd."`
	ContainerPath      string        `env:"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" name:"aws-container-credentials-relative-uri" placeholder:"PATH" help:"Where a task of ECS gets the keys of its role, below http://169.254.170.2; for the same providers."`
	ContainerURL       string        `env:"AWS_CONTAINER_CREDENTIALS_FULL_URI" name:"aws-container-credentials-full-uri" placeholder:"URL" help:"Where a pod of EKS gets the keys of its role."`
	ContainerToken     secret.String `env:"AWS_CONTAINER_AUTHORIZATION_TOKEN" name:"aws-container-authorization-token" placeholder:"TOKEN" help:"Token for that address."`
	ContainerTokenFile string        `env:"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE" name:"aws-container-authorization-token-file" placeholder:"FILE" help:"File with the token for that address, which is read each time."`
	Metadata           string        `env:"AWS_EC2_METADATA_SERVICE_ENDPOINT" name:"aws-ec2-metadata-service-endpoint" placeholder:"URL" help:"Metadata service that gives the keys of an instance's role, if none of the settings above is set. Empty: http://169.254.169.254."`
	STS                string        `env:"AWS_ENDPOINT_URL_STS" name:"aws-endpoint-url-sts" placeholder:"URL" help:"Security Token Service that assumes roles. Empty: that of the provider's region."`
}

// Tenancy is what tenants may have. The admin commands read it too.
type Tenancy struct {
	Plans string `env:"AGENTD_PLANS" name:"plans" placeholder:"FILE" help:"JSON file with the plans that tenants can be on, and their limits. Empty: one plan, self_hosted, without limits."`
}

// Billing is how companies pay for plans. PUT /api/v1/admin/config/stripe takes precedence.
type Billing struct {
	StripeSecretKey     secret.String `env:"AGENTD_STRIPE_SECRET_KEY" name:"stripe-secret-key" placeholder:"KEY" help:"Stripe's secret key. Empty: companies cannot pay for plans; the operations are 501."`
	StripeWebhookSecret secret.String `env:"AGENTD_STRIPE_WEBHOOK_SECRET" name:"stripe-webhook-secret" placeholder:"SECRET" help:"Secret with which Stripe signs the events that it sends to /api/v1/webhooks/stripe."`
	StripeBaseURL       string        `env:"AGENTD_STRIPE_BASE_URL" name:"stripe-base-url" placeholder:"URL" help:"Address of Stripe's API, for tests. Empty: Stripe's own."`
}

// Search is the search provider of the tool web_search. The operator sets the
// address, so it may be a private one.
type Search struct {
	Provider string        `env:"AGENTD_SEARCH_PROVIDER" name:"search-provider" placeholder:"NAME" help:"Search provider: searxng or brave. Empty: none; the tool web_search says so."`
	URL      string        `env:"AGENTD_SEARCH_URL" name:"search-url" placeholder:"URL" help:"Address of the SearXNG instance, which must have json among its search.formats. Of Brave's API; empty: Brave's own."`
	APIKey   secret.String `env:"AGENTD_SEARCH_API_KEY" name:"search-api-key" placeholder:"KEY" help:"Brave's subscription token; for SearXNG a bearer token, if a proxy in front of it wants one."`
}

// Webhooks are how events are delivered.
type Webhooks struct {
	RetryWaits string `env:"AGENTD_WEBHOOK_RETRY_WAITS" name:"webhook-retry-waits" default:"60s,5m,30m,2h" placeholder:"WAITS" help:"How long to wait before each further attempt at a webhook delivery that failed; as many attempts follow as there are waits, up to 20."`
}

// maxWait is the longest wait: deliveries are deleted after a week.
const maxWait = 24 * time.Hour

// Waits returns RetryWaits as durations. It fails for a part that is not one.
func (w Webhooks) Waits() ([]time.Duration, error) {
	var all []time.Duration
	for part := range strings.SplitSeq(cmp.Or(w.RetryWaits, "60s,5m,30m,2h"), ",") {
		wait, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil || wait <= 0 || wait > maxWait {
			return nil, fmt.Errorf("%q is no wait; write it as 90s, 5m or 2h, up to 24h", strings.TrimSpace(part))
		}
		all = append(all, wait)
	}
	if len(all) > 20 {
		return nil, fmt.Errorf("there are %d waits, and there may be 20", len(all))
	}
	return all, nil
}

// Mail is the SMTP server that sends emails to people.
type Mail struct {
	SMTPURL URL    `env:"AGENTD_SMTP_URL" name:"smtp-url" placeholder:"URL" help:"smtp://user:password@host:587, where the server must offer STARTTLS unless it is this very machine or ?tls=off stands at the end; or smtps://user:password@host:465. Empty: no mail is sent."`
	From    string `env:"AGENTD_MAIL_FROM" name:"mail-from" placeholder:"ADDRESS" help:"Sender of letters, as in agentd@example.com or Acme <agentd@example.com>. Needed with AGENTD_SMTP_URL."`
}

// SignIn is how people sign in with a browser.
type SignIn struct {
	Signup        string `env:"AGENTD_SIGNUP" default:"off" enum:"on,off" placeholder:"on|off" help:"Whether strangers may sign up and make a company of their own; off: only members and the invited get in."`
	OIDCProviders string `env:"AGENTD_OIDC_PROVIDERS" name:"oidc-providers" placeholder:"FILE" help:"JSON file with the OpenID providers to sign in with: [{id, name, issuer, client_id, client_secret, scopes}]. Empty: none."`
}

// Observability is what agentd logs and traces.
type Observability struct {
	LogLevel     string `env:"AGENTD_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" placeholder:"LEVEL" help:"Least level that is logged: debug, info, warn or error."`
	LogFormat    string `env:"AGENTD_LOG_FORMAT" default:"auto" enum:"auto,short,text,json" placeholder:"FORMAT" help:"Form of log lines: short (for people), text (logfmt) or json; auto: short at a terminal, text in files and pipes."`
	OTLPEndpoint string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" name:"otlp-endpoint" placeholder:"URL" help:"OpenTelemetry collector that takes traces by OTLP over HTTP. Empty: no traces."`

	AuditPush       URL           `env:"AGENTD_AUDIT_PUSH" name:"audit-push" placeholder:"URL" help:"Where new entries of the audit logs of all tenants are pushed: https://…, or syslog+tls://host:6514 or syslog+tcp://host:601. The same on every node. Empty: nowhere."`
	AuditPushSecret secret.String `env:"AGENTD_AUDIT_PUSH_SECRET" name:"audit-push-secret" placeholder:"SECRET" help:"Signs what is pushed over HTTP, as webhooks are signed: whsec_ and the base64 of 24 to 64 bytes. Empty: not signed."`
}

// Level returns LogLevel as a slog.Level.
func (o Observability) Level() slog.Level {
	var l slog.Level
	if l.UnmarshalText([]byte(o.LogLevel)) != nil {
		return slog.LevelInfo
	}
	return l
}

// Client is how the commands that talk to a server reach it.
type Client struct {
	URL string        `env:"AGENTD_URL" name:"url" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Server to talk to."`
	Key secret.String `env:"AGENTD_KEY" name:"key" placeholder:"KEY" help:"API key to talk with."`
	// Tenant is sent with every request, which is refused if it is not the key's.
	Tenant string `env:"AGENTD_TENANT" name:"tenant" placeholder:"ID" help:"Company to act in; commands are refused if the key belongs to another."`
}
