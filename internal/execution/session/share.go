package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// Share is a link to a conversation as it is stored. Whoever knows its secret
// may read; the secret is found by its hash and kept sealed.
type Share struct {
	TenantID, SessionID string
	Hash                string
	Sealed              []byte
	Role                string
	ExpiresAt           time.Time // zero: never
}

// ShareStore is the port to the table of links.
type ShareStore interface {
	// PutShareTx replaces the link of a session.
	PutShareTx(tx txn.Tx, sh *Share) error
	DeleteShareTx(tx txn.Tx, tenant, session string) error
	// GetShare gives a session's link, SharedBy the link with a hash, whoever's it
	// is; fault.NotFound where there is none.
	GetShare(ctx context.Context, tenant, session string) (*Share, error)
	GetShareByHash(ctx context.Context, hash string) (*Share, error)
}

// Artifacts is the port to the files that runs make.
type Artifacts interface {
	OfRuns(ctx context.Context, tenant string, runIDs []string) ([]run.Artifact, error)
}

type (
	shareIn struct {
		SessionID string `path:"sessionId"`
		Body      struct {
			_ struct{} `json:"-" name:"SessionShareCreate"`

			Role    string  `json:"role" required:"true" enum:"viewer,editor" doc:"Shown with the conversation. The link itself lets read, and nothing else."`
			Expires float64 `json:"expires_in_hours,omitzero" minimum:"1" maximum:"87600" doc:"Left out: when it is taken back."`
		}
	}
	sharing struct {
		_ struct{} `json:"-" name:"SessionShare"`

		URL       *string    `json:"share_url"`
		Role      *string    `json:"role"`
		ExpiresAt *time.Time `json:"expires_at"`
	}
	sharedIn struct {
		ShareID string `path:"shareId" format:"any"`
	}
)

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

const sealedFor = "session_share"

func (s *Service) share(ctx context.Context, who authz.Caller, in *shareIn) (sharing, error) {
	token := rand.Text()
	sh := &Share{TenantID: who.TenantID, SessionID: in.SessionID, Hash: hashOf(token), Role: in.Body.Role, Sealed: s.Box.Seal([]byte(token), sealedFor)}
	if in.Body.Expires > 0 {
		sh.ExpiresAt = s.Clock.Now().Add(time.Duration(in.Body.Expires * float64(time.Hour))).Truncate(time.Microsecond)
	}
	answer := s.linked(sh, token)
	ctx = txn.Promise(ctx, func() any { return answer })
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		if _, err := s.Store.LockTx(tx, who.TenantID, in.SessionID); err != nil {
			return err
		}
		if err := s.record(tx, who, "shared", in.SessionID); err != nil {
			return err
		}
		return s.Shares.PutShareTx(tx, sh)
	})
	return answer, err
}

func (s *Service) linked(sh *Share, token string) sharing {
	url := s.Public() + "/api/v1/shared/" + token
	out := sharing{URL: &url, Role: &sh.Role}
	if !sh.ExpiresAt.IsZero() {
		out.ExpiresAt = &sh.ExpiresAt
	}
	return out
}

func (sh *Share) over(now time.Time) bool { return !sh.ExpiresAt.IsZero() && !now.Before(sh.ExpiresAt) }

func (s *Service) shareOf(ctx context.Context, who authz.Caller, in *idIn) (sharing, error) {
	if _, err := s.Store.Get(ctx, who.TenantID, in.SessionID); err != nil {
		return sharing{}, err
	}
	sh, err := s.Shares.GetShare(ctx, who.TenantID, in.SessionID)
	if fault.Is(err, fault.NotFound) || err == nil && sh.over(s.Clock.Now()) {
		return sharing{}, nil
	}
	if err != nil {
		return sharing{}, err
	}
	token, err := s.Box.Open(sh.Sealed, sealedFor)
	if err != nil {
		return sharing{}, err
	}
	return s.linked(sh, string(token)), nil
}

func (s *Service) unshare(ctx context.Context, who authz.Caller, in *idIn) (nothing, error) {
	return nothing{}, s.Writer.Write(ctx, func(tx txn.Tx) error {
		if _, err := s.Store.LockTx(tx, who.TenantID, in.SessionID); err != nil {
			return err
		}
		if err := s.record(tx, who, "share_revoked", in.SessionID); err != nil {
			return err
		}
		return s.Shares.DeleteShareTx(tx, who.TenantID, in.SessionID)
	})
}

// Shared is a conversation as whoever has the link sees it: what was said, and
// of everything else the outlines only.
type Shared struct {
	_ struct{} `json:"-" name:"SharedSession"`

	SessionID string           `json:"session_id" required:"true"`
	AgentName string           `json:"agent_name" required:"true"`
	Role      string           `json:"role" enum:"viewer,editor" required:"true"`
	Status    Status           `json:"status" required:"true"`
	CreatedAt time.Time        `json:"created_at" required:"true"`
	UpdatedAt time.Time        `json:"updated_at" required:"true"`
	Messages  []SharedMessage  `json:"messages" required:"true"`
	Todos     []SharedTodo     `json:"todos" required:"true"`
	Runs      []SharedRun      `json:"runs" required:"true" doc:"The last 20."`
	Artifacts []SharedArtifact `json:"artifacts" required:"true"`
}

type (
	// SharedMessage is one thing that was said.
	SharedMessage struct {
		Role      string    `json:"role" required:"true"`
		Content   string    `json:"content" required:"true"`
		Timestamp time.Time `json:"timestamp"`
	}
	// SharedTodo is the outline of a todo.
	SharedTodo struct {
		Title  string     `json:"title"`
		Status TodoStatus `json:"status"`
	}
	// SharedRun is the outline of a run.
	SharedRun struct {
		Status     run.Status       `json:"status"`
		DurationMS float64          `json:"duration_ms"`
		Tools      []SharedToolCall `json:"tools"`
	}
	// SharedToolCall is the outline of a tool call.
	SharedToolCall struct {
		Name       string `json:"name"`
		Status     string `json:"status"`
		DurationMS int64  `json:"duration_ms"`
	}
	// SharedArtifact is the outline of a file.
	SharedArtifact struct {
		Name      string `json:"name"`
		MimeType  string `json:"mime_type"`
		SizeBytes int64  `json:"size_bytes"`
	}
)

const sharedRuns = 20

// shared is public: knowing the link is the permission.
func (s *Service) shared(ctx context.Context, _ authz.Caller, in *sharedIn) (*Shared, error) {
	sh, err := s.Shares.GetShareByHash(ctx, hashOf(in.ShareID))
	if err == nil && sh.over(s.Clock.Now()) {
		err = fault.New(fault.NotFound, "", "")
	}
	if fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.NotFound, "", "This link leads nowhere: it was taken back, replaced, or has expired.")
	}
	if err != nil {
		return nil, err
	}
	rec, err := s.Store.Get(ctx, sh.TenantID, sh.SessionID)
	if err != nil {
		return nil, err
	}
	out := &Shared{
		SessionID: rec.SessionID, Role: sh.Role, Status: rec.status(s.Clock.Now()), CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt,
		Messages: []SharedMessage{}, Todos: []SharedTodo{}, Runs: []SharedRun{}, Artifacts: []SharedArtifact{},
	}
	if out.AgentName, err = s.agentName(ctx, map[string]string{}, sh.TenantID, rec.AgentID); err != nil {
		return nil, err
	}
	return out, s.outline(ctx, rec, out)
}

func (s *Service) outline(ctx context.Context, rec *Record, out *Shared) error {
	p, err := s.plot(ctx, rec)
	if err != nil {
		return err
	}
	legs := p.line(rec.ActiveBranch)
	st, err := s.tell(ctx, rec.TenantID, legs)
	if err != nil {
		return err
	}
	calls := map[string][]SharedToolCall{}
	for _, e := range st.entries {
		for _, c := range e.ToolCalls {
			calls[e.RunID] = append(calls[e.RunID], SharedToolCall{c.Name, c.Status, c.DurationMS})
		}
		if !e.Compacted && e.Role != roleTool && strings.TrimSpace(e.Content) != "" {
			out.Messages = append(out.Messages, SharedMessage{e.Role, e.Content, e.Timestamp})
		}
	}
	legs = legs[max(0, len(legs)-sharedRuns):]
	ids := make([]string, len(legs))
	for i, l := range legs {
		ids[i] = l.runID
	}
	for _, id := range ids {
		r, err := s.Runs.Get(ctx, rec.TenantID, id)
		if err != nil {
			return err
		}
		tools := calls[id]
		if tools == nil {
			tools = []SharedToolCall{}
		}
		out.Runs = append(out.Runs, SharedRun{r.Status, r.Metrics.DurationMS, tools})
	}
	todos, _, err := s.Todos.ListTodos(ctx, rec.TenantID, TodoFilter{SessionID: rec.SessionID, Limit: 500})
	if err != nil {
		return err
	}
	for _, t := range todos {
		out.Todos = append(out.Todos, SharedTodo{t.Title, t.Status})
	}
	files, err := s.artifactsOf(ctx, rec.TenantID, p)
	for _, a := range files {
		out.Artifacts = append(out.Artifacts, SharedArtifact{a.Name, a.MimeType, a.SizeBytes})
	}
	return err
}

// artifactsOf gives the files of a session's runs.
func (s *Service) artifactsOf(ctx context.Context, tenant string, p *plot) ([]run.Artifact, error) {
	if s.Artifacts == nil || len(p.turns) == 0 {
		return nil, nil
	}
	ids := make([]string, len(p.turns))
	for i, t := range p.turns {
		ids[i] = t.RunID
	}
	return s.Artifacts.OfRuns(ctx, tenant, ids)
}

type artifactList struct {
	_ struct{} `json:"-" name:"SessionArtifactList"`

	Artifacts []run.Artifact `json:"artifacts" required:"true"`
	SessionID string         `json:"session_id" required:"true"`
	Total     int            `json:"total" required:"true"`
	Truncated bool           `json:"truncated" required:"true" doc:"There were more runs than are looked through."`
}

// maxScanned is how many runs are looked through for artifacts, the newest
// (behaviours 4).
const maxScanned = 50_000

func (s *Service) artifacts(ctx context.Context, who authz.Caller, in *idIn) (artifactList, error) {
	out := artifactList{Artifacts: []run.Artifact{}, SessionID: in.SessionID}
	rec, err := s.Store.Get(ctx, who.TenantID, in.SessionID)
	if err != nil {
		return out, err
	}
	p, err := s.plot(ctx, rec)
	if err != nil {
		return out, err
	}
	if over := len(p.turns) - maxScanned; over > 0 {
		p.turns, out.Truncated = p.turns[over:], true
	}
	found, err := s.artifactsOf(ctx, who.TenantID, p)
	if found != nil {
		out.Artifacts = found
	}
	out.Total = len(out.Artifacts)
	return out, err
}

func (s *Service) shareRoutes() []route.Route {
	const path = "/{sessionId}/share"
	public := route.Row{
		Method: "GET", Path: "/api/v1/shared/{shareId}", ID: "getSharedSession", Tag: tag, Summary: "Read a conversation that somebody shared",
		Doc: "Needs no key: knowing the link is the permission.", Public: true, Errors: []int{404},
	}
	return []route.Route{
		route.Action(read(path, "getSessionShare", "Read the link to a session"), s.shareOf),
		route.Action(documented(with(write("POST", path, "createSessionShare", "Make a link to a session", talkers), 200), "Each call makes a new link, and the one before leads nowhere from then on."), s.share),
		route.Action(with(write("DELETE", path, "revokeSessionShare", "Take the link to a session back", talkers), 204), s.unshare),
		route.Action(public, s.shared),
		route.Action(read("/{sessionId}/artifacts", "listSessionArtifacts", "List the files that the runs of a session made"), s.artifacts),
	}
}
