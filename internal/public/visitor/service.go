package visitor

import (
	"context"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/cache"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/ratelimit"
	"agentd/internal/operation/setting"
)

// Agents is the port to agents; *agent.Agents implements it.
type Agents interface {
	Get(ctx context.Context, tenant, id string) (agent.Agent, error)
}

// Sessions is the port to sessions; *session.Service implements it.
type Sessions interface {
	OpenTx(tx txn.Tx, o session.Opening) error
	Post(ctx context.Context, who authz.Caller, id, content string, fileIDs []string, adjust func(*run.Request)) (session.Accepted, error)
	Talk(ctx context.Context, tenant, id string, limit int) (*session.Talk, error)
	UnderWay(ctx context.Context, tenant, id string) (string, error)
	Follow(ctx context.Context, tenant, id, lastEventID string) (iter.Seq2[route.Frame, error], error)
}

// Runs is the port to runs; *run.Service implements it.
type Runs interface {
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Respond(ctx context.Context, tenant, id, response string) error
	Cancel(ctx context.Context, tenant, id string) (run.CancelAnswer, error)
}

// Records reads runs as they are stored; run.Store implements it.
type Records interface {
	Get(ctx context.Context, tenant, id string) (*run.Record, error)
}

// Files is the port to uploaded files.
type Files interface {
	// Add stores an image. Errors: TooLarge, and those of reading it.
	Add(ctx context.Context, tenant, name, mimeType string, from io.Reader) (id string, size int64, err error)
	// Open opens a file. Errors: NotFound.
	Open(ctx context.Context, tenant, id string) (*route.Content, error)
}

// Company is what is public of a company that has public agents.
type Company struct {
	Name, Slug, LogoURL string
	Public              bool // it has a profile
}

// Deps are the dependencies of a Service.
type Deps struct {
	Store    Store
	Agents   Agents
	Sessions Sessions
	Runs     Runs
	Records  Records
	Files    Files
	Reports  *Reports
	Writer   txn.Writer
	Clock    clock.Clock
	Limiter  *ratelimit.Limiter
	// Limits are the operator's settings; nil for the document of operations.
	Limits *setting.Section[Settings]
	// Owner returns the company of an agent that is published; "" if there is none.
	Owner func(ctx context.Context, agent string) (string, error)
	// Company returns what is public of a company. Errors: NotFound.
	Company func(ctx context.Context, tenant string) (Company, error)
	// Suspended reports whether the agents of a company start no runs.
	Suspended func(ctx context.Context, tenant string) (bool, error)
	// Shows returns the company whose public profile shows a file; "" if there is none.
	Shows func(ctx context.Context, fileID string) (string, error)
	// Captcha verifies the answer to a captcha. Errors: Unavailable.
	Captcha func(ctx context.Context, verifyURL, secret, answer, address string) (bool, error)

	PublicURL func() string
	Origins   []string // that the operator lets call every operation; "*": all
}

// Service serves visitors.
type Service struct {
	Deps

	// visits caches what event streams check repeatedly: whether their agent is still public.
	visits *cache.Cache[string, bool]

	mu      sync.Mutex
	streams map[string]int // open ones, by session
}

// New returns a service.
func New(d Deps) *Service {
	start := time.Now()
	return &Service{Deps: d, streams: map[string]int{}, visits: cache.New(cache.Options[string, bool]{
		Most: 10_000, Lasts: cache.For[bool](streamCheck / 2), Elapsed: func() time.Duration { return time.Since(start) },
	})}
}

// settings returns the operator's settings.
func (s *Service) settings() *Settings { return s.Limits.Get() }

// host is an agent that strangers may talk with.
type host struct {
	tenant string
	agent  agent.Agent
	config agent.PublicConfig
}

var (
	errOff     = fault.New(fault.Unsupported, "", "Public chat is switched off on this deployment.")
	errNoAgent = fault.New(fault.NotFound, "", "There is no public agent with this id.")
	errGone    = fault.New(fault.Gone, "", "This agent no longer talks with visitors.")
)

// host returns an agent that visitors may talk with. Errors: NotFound.
func (s *Service) host(ctx context.Context, id string) (*host, error) {
	if !s.settings().Enabled {
		return nil, errOff
	}
	if !ident.Valid(id) {
		return nil, errNoAgent
	}
	tenant, err := s.Owner(ctx, id)
	if err != nil {
		return nil, err
	}
	if tenant == "" {
		return nil, errNoAgent
	}
	return s.hostIn(ctx, tenant, id)
}

func (s *Service) hostIn(ctx context.Context, tenant, id string) (*host, error) {
	if !s.settings().Enabled {
		return nil, errOff
	}
	g, err := s.Agents.Get(ctx, tenant, id)
	if fault.Is(err, fault.NotFound) {
		return nil, errNoAgent
	}
	if err != nil {
		return nil, err
	}
	if !g.Visitable() || g.Status != agent.Active {
		return nil, errNoAgent
	}
	if suspended, err := s.Suspended(ctx, tenant); err != nil || suspended {
		return nil, orElse(err, errNoAgent)
	}
	return &host{tenant, g, *g.PublicConfig}, nil
}

func orElse(err error, otherwise *fault.Error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// page is the web page that a request comes from.
type page struct {
	Origin string `header:"Origin" doc:"Set by browsers. Pages of other origins than this service's must be in the agent's public_config.allowed_origins."`
	Site   string `header:"Sec-Fetch-Site" doc:"Set by browsers."`
}

// admit refuses pages on which the agent does not talk with visitors, and lets the others
// read the answer. Requests that no page sent pass: the check protects people whose
// browsers send requests for a page, and a program of its own can send any origin.
func (s *Service) admit(ctx context.Context, h *host, from page) error {
	if from.Origin == "" || from.Site == "same-origin" || s.ownOrigin(from.Origin) {
		return nil
	}
	if slices.Contains(s.Origins, "*") || slices.Contains(s.Origins, strings.ToLower(from.Origin)) {
		return nil
	}
	if !h.config.Allows(from.Origin) {
		e := fault.New(fault.Forbidden, "ORIGIN_NOT_ALLOWED",
			"Visitors cannot talk with this agent on pages of %s. Add the origin to the agent's public_config.allowed_origins.",
			oneLine(from.Origin))
		return e.Because(&audit.Refusal{TenantID: h.tenant, TargetID: h.agent.ID})
	}
	route.AllowOrigin(ctx)
	return nil
}

func (s *Service) ownOrigin(origin string) bool {
	u, err := url.Parse(s.PublicURL())
	return err == nil && strings.EqualFold(origin, u.Scheme+"://"+u.Host)
}

// holding is where a visitor's token is.
type holding struct {
	page
	Token  string `header:"X-Public-Session-Token" doc:"Token of the session, as its creation answered it. Else the cookie svc_public_session."`
	Cookie string `cookie:"svc_public_session"`
	Hosted string `cookie:"__Host-svc_public_session"`
}

// cookieName is the cookie that has the token for pages of this service.
const cookieName = "svc_public_session"

func (h *holding) token() string {
	for _, token := range []string{h.Token, h.Hosted, h.Cookie} {
		if token != "" {
			return token
		}
	}
	return ""
}

var (
	errToken = fault.New(fault.Unauthenticated, "", "This needs the token of the session: send it in the header X-Public-Session-Token.")
	errOther = fault.New(fault.NotFound, "", "There is no such session for this token.")
	errOver  = fault.New(fault.Unauthenticated, "SESSION_EXPIRED", "This session has expired. Begin a new one.")
)

// visit is a session whose token was sent, with its agent.
type visit struct {
	*Record
	*host
}

// enter returns the session of a token. Errors: Unauthenticated, NotFound for another
// session than the token's, Gone if the agent is not public any more.
func (s *Service) enter(ctx context.Context, sessionID, token string, from page) (visit, error) {
	if !s.settings().Enabled {
		return visit{}, errOff
	}
	if token == "" {
		return visit{}, errToken
	}
	r, err := s.Store.GetByToken(ctx, hashOf(token))
	if err != nil {
		return visit{}, err
	}
	if r == nil || !s.Clock.Now().Before(r.CreatedAt.Add(keptFor)) {
		return visit{}, errToken
	}
	if r.SessionID != sessionID {
		return visit{}, refusal(errOther, r)
	}
	h, err := s.hostIn(ctx, r.TenantID, r.AgentID)
	if fault.Is(err, fault.NotFound) {
		return visit{}, errGone
	}
	if err != nil {
		return visit{}, err
	}
	return visit{r, h}, s.admit(ctx, h, from)
}

// enterToWrite is enter for what an expired session cannot do any more.
func (s *Service) enterToWrite(ctx context.Context, sessionID, token string, from page) (visit, error) {
	v, err := s.enter(ctx, sessionID, token, from)
	if err == nil && !s.Clock.Now().Before(v.ExpiresAt) {
		err = refusal(errOver, v.Record)
	}
	return v, err
}

// refusal returns a refusal for the audit log of the session's company.
func refusal(e *fault.Error, r *Record) error {
	public := *e
	return public.Because(&audit.Refusal{TenantID: r.TenantID, TargetID: r.SessionID})
}
