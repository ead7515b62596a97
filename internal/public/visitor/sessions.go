package visitor

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/ratelimit"
)

// Card is what strangers see of an agent.
type Card struct {
	_ struct{} `json:"-" name:"PublicAgentCard"`

	AgentID     string      `json:"agent_id" format:"uuid" required:"true" doc:"The agent."`
	Name        string      `json:"name" required:"true" doc:"Its name."`
	Description string      `json:"description" required:"true" doc:"What it does; empty if its company does not say."`
	Greeting    string      `json:"greeting" required:"true" doc:"First message that a visitor sees; may be empty."`
	Company     cardCompany `json:"company" required:"true" doc:"Whose agent it is."`
	MaxLength   int64       `json:"max_message_length" required:"true" doc:"Characters of a message, at most."`
	Messages    int64       `json:"max_messages_per_session" required:"true" doc:"Messages of a session, at most."`
	CaptchaKey  string      `json:"captcha_site_key,omitzero" doc:"Public key of the captcha that visitors solve; absent: they need none."`
}

type cardCompany struct {
	_ struct{} `json:"-" name:"PublicAgentCompany"`

	Name    string `json:"name" required:"true" doc:"Name of the company."`
	Slug    string `json:"slug,omitzero" doc:"Names its public profile; absent: it has none."`
	LogoURL string `json:"logo_url,omitzero" doc:"Its logo."`
}

type agentIn struct {
	AgentID string `path:"agentId"`
	page
}

func (s *Service) card(ctx context.Context, who authz.Caller, in *agentIn) (*Card, error) {
	h, err := s.host(ctx, in.AgentID)
	if err != nil {
		return nil, err
	}
	if err := s.admit(ctx, h, in.page); err != nil {
		return nil, err
	}
	c, err := s.Company(ctx, h.tenant)
	if err != nil {
		return nil, err
	}
	set := s.settings()
	out := &Card{
		AgentID: h.agent.ID, Name: h.agent.Name, Description: h.agent.Description, Greeting: h.config.Greeting,
		Company: cardCompany{Name: c.Name, LogoURL: c.LogoURL}, MaxLength: maxContent,
		Messages: narrower(set.SessionMessages, h.config.SessionMessages),
	}
	if c.Public {
		out.Company.Slug = c.Slug
	}
	if set.CaptchaURL != "" {
		out.CaptchaKey = set.CaptchaKey
	}
	return out, nil
}

type (
	createIn struct {
		holding
		Body newSession
	}
	newSession struct {
		_ struct{} `json:"-" name:"PublicSessionCreate"`

		AgentID string `json:"agent_id" required:"true" format:"uuid" doc:"The agent to talk with."`
		Fresh   bool   `json:"fresh,omitzero" doc:"Begin another session, also where this visitor began one a moment ago."`
		Captcha string `json:"captcha_token,omitzero" maxLength:"4096" doc:"The answer to the captcha, where the agent's card has a captcha_site_key."`
	}
	// created answers a creation.
	created struct {
		_ struct{} `json:"-" name:"PublicSessionCreated"`

		SessionID   string    `json:"session_id" format:"uuid" required:"true" doc:"The session."`
		Token       string    `json:"token" required:"true" doc:"Send it with every request of the session. It is not shown again."`
		AgentName   string    `json:"agent_name" required:"true" doc:"Name of the agent."`
		Greeting    string    `json:"greeting" required:"true" doc:"First message that a visitor sees; may be empty."`
		Description string    `json:"description" required:"true" doc:"What the agent does."`
		ExpiresAt   time.Time `json:"expires_at" required:"true" doc:"From then on the session takes no messages."`
	}
)

// create begins a session.
func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (*route.Reply, error) {
	h, err := s.host(ctx, in.Body.AgentID)
	if err != nil {
		return nil, err
	}
	if err := s.admit(ctx, h, in.page); err != nil {
		return nil, err
	}
	if token := in.token(); token != "" && !in.Body.Fresh {
		r, err := s.Store.GetByToken(ctx, hashOf(token))
		if err != nil {
			return nil, err
		}
		if r != nil && r.AgentID == h.agent.ID && s.Clock.Now().Before(r.CreatedAt.Add(repeatedWithin)) {
			return s.answer(200, h, r, token)
		}
	}
	set, address := s.settings(), ratelimit.Network(who.Address)
	few, many := perMinute(set.SessionsPerMinute), perHour(set.SessionsPerHour)
	if err := s.spend("new sessions from your network address", address, few, many); err != nil {
		return nil, err
	}
	if own := h.config.SessionsPerAddress; own != nil {
		if err := s.spend("new sessions of this agent from your network address", h.agent.ID+"/"+address, perHour(*own)); err != nil {
			return nil, err
		}
	}
	if err := s.checkCaptcha(ctx, set, in.Body.Captcha, who.Address); err != nil {
		return nil, err
	}
	now, token := s.Clock.Now(), newToken()
	r := &Record{
		TenantID: h.tenant, SessionID: ident.New(), AgentID: h.agent.ID, Hash: hashOf(token), SeenAt: now, CreatedAt: now,
		ExpiresAt: now.Add(time.Duration(set.SessionMinutes) * time.Minute),
	}
	if err := s.Writer.Write(ctx, func(tx txn.Tx) error { return s.createTx(tx, h, r) }); err != nil {
		return nil, outward(err)
	}
	return s.answer(201, h, r, token)
}

// createTx stores a session if the agent has room for it.
func (s *Service) createTx(tx txn.Tx, h *host, r *Record) error {
	most := narrower(s.settings().AgentSessions, h.config.Sessions)
	active, err := s.Store.CountActiveTx(tx, r.TenantID, r.AgentID, r.CreatedAt.Add(-activeFor))
	if err != nil {
		return err
	}
	if active >= most {
		return busy("This agent talks with as many visitors as it can. Try again in a few minutes.", time.Minute)
	}
	if err := s.Store.DeleteOldTx(tx, r.TenantID, r.AgentID, r.CreatedAt.Add(-keptFor)); err != nil {
		return err
	}
	if err := s.Sessions.OpenTx(tx, session.Opening{
		TenantID: r.TenantID, SessionID: r.SessionID, AgentID: r.AgentID, Metadata: metadata, ExpiresAt: r.ExpiresAt,
	}); err != nil {
		return err
	}
	return s.Store.CreateTx(tx, r)
}

var metadata = schema.Object(`{"source":"` + Source + `"}`)

func (s *Service) answer(status int, h *host, r *Record, token string) (*route.Reply, error) {
	body, err := json.Marshal(created{
		SessionID: r.SessionID, Token: token, AgentName: h.agent.Name, Greeting: h.config.Greeting, Description: h.agent.Description,
		ExpiresAt: r.ExpiresAt,
	})
	return &route.Reply{
		Status: status, JSON: body, Cookie: &route.Cookie{Name: cookieName, Value: token, Lasts: keptFor, Strict: true, Host: true},
	}, err
}

func (s *Service) checkCaptcha(ctx context.Context, set *Settings, answer, address string) error {
	if set.CaptchaURL == "" {
		return nil
	}
	if answer == "" {
		return fault.BadFields(fault.Field{
			Field: "captcha_token", Message: "solve the captcha whose key the agent's card has, and send its answer",
		})
	}
	ok, err := s.Captcha(ctx, set.CaptchaURL, set.CaptchaSecret.Reveal(), answer, address)
	if err != nil {
		return fault.New(fault.Unavailable, "", "Captchas cannot be verified at this time. Try again in a minute.").Because(err)
	}
	if !ok {
		return fault.BadFields(fault.Field{
			Field: "captcha_token", Message: "the captcha was not solved, or its answer was used before; solve it again",
		})
	}
	return nil
}

// busy is the refusal where too many visitors talk with an agent.
func busy(detail string, retry time.Duration) *fault.Error {
	e := fault.New(fault.Limited, "ANON_BUSY", "%s", detail)
	e.RetryAfter, e.Extra = retry, map[string]any{"retry_after": retrySeconds(retry)}
	return e
}

// outward hides the details of a refusal from a visitor: the company's plan, its budget
// and its usage.
func outward(err error) error {
	f := fault.From(err)
	switch {
	case f.Code == "ANON_BUSY" || f.Code == "DAILY_LIMIT" || f.Code == "MESSAGE_LIMIT":
		return err
	case f.Code == "SESSION_BUSY":
		out := fault.New(fault.Conflict, "SESSION_BUSY",
			"The agent still answers the message before. Wait for its answer, or cancel it.").Because(err)
		out.RetryAfter = time.Second
		return out
	case f.Kind == fault.Limited || f.Kind == fault.Forbidden || f.Kind == fault.Payment:
		retry := f.RetryAfter
		if retry <= 0 {
			retry = time.Hour
		}
		return busy("This agent takes no messages at this time. Try again later.", retry).Because(err)
	case f.Kind == fault.Conflict:
		return fault.New(fault.Conflict, "", "The session takes no messages at this time.").Because(err)
	}
	return err
}

type sessionIn struct {
	SessionID string `path:"sessionId"`
	holding
}

type (
	// view is a visitor's session.
	view struct {
		_ struct{} `json:"-" name:"PublicSession"`

		SessionID   string    `json:"session_id" format:"uuid" required:"true" doc:"The session."`
		AgentName   string    `json:"agent_name" required:"true" doc:"Name of the agent."`
		Greeting    string    `json:"greeting" required:"true" doc:"First message that a visitor sees; may be empty."`
		Description string    `json:"description" required:"true" doc:"What the agent does."`
		Status      string    `json:"status" enum:"active,expired" required:"true" doc:"Whether it takes messages."`
		Messages    []message `json:"messages" required:"true" doc:"What was said, oldest first: the newest 200 or so."`
		Count       int64     `json:"message_count" required:"true" doc:"Messages of the visitor so far."`
		Remaining   int64     `json:"messages_remaining" required:"true" doc:"Messages that the visitor may still send."`
		RunID       string    `json:"run_id,omitzero" format:"uuid" doc:"The answer that is under way."`
		Question    string    `json:"question,omitzero" doc:"What the agent asks, where it waits for respond."`
		LastEventID string    `json:"last_event_id,omitzero" doc:"The event stream continues after these messages where this is sent as Last-Event-ID."`
		ExpiresAt   time.Time `json:"expires_at" required:"true" doc:"From then on the session takes no messages."`
	}
	message struct {
		_ struct{} `json:"-" name:"PublicMessage"`

		MessageID string    `json:"message_id" required:"true" doc:"Never changes."`
		Role      string    `json:"role" enum:"user,assistant" required:"true" doc:"Who said it."`
		Content   string    `json:"content" required:"true" doc:"What was said."`
		Timestamp time.Time `json:"timestamp" required:"true" doc:"When it was said."`
		RunID     string    `json:"run_id" required:"true" doc:"The answer that it belongs to."`
		FileIDs   []string  `json:"file_ids,omitzero" doc:"Images that were sent with it."`
	}
)

// eventID is the id of an event in the stream of a session.
func eventID(runID string, seq int64) string { return runID + ":" + strconv.FormatInt(seq, 10) }

// get returns a session with what was said.
func (s *Service) get(ctx context.Context, _ authz.Caller, in *sessionIn) (*view, error) {
	v, err := s.enter(ctx, in.SessionID, in.token(), in.page)
	if err != nil {
		return nil, err
	}
	talk, err := s.talk(ctx, v.Record)
	if err != nil {
		return nil, err
	}
	most := narrower(s.settings().SessionMessages, v.config.SessionMessages)
	out := &view{
		SessionID: v.SessionID, AgentName: v.agent.Name, Greeting: v.config.Greeting, Description: v.agent.Description,
		Status: string(session.Active), Messages: said(talk), Count: v.Messages, Remaining: max(0, most-v.Messages),
		ExpiresAt: v.ExpiresAt,
	}
	if !s.Clock.Now().Before(v.ExpiresAt) {
		out.Status = string(session.Expired)
	}
	if talk.UnderWay != "" {
		r, err := s.Runs.Get(ctx, v.TenantID, talk.UnderWay)
		if err != nil {
			return nil, err
		}
		if !r.Status.Final() {
			out.RunID = r.RunID
		}
		if r.PendingInput != nil {
			out.Question = r.PendingInput.Question
		}
	}
	if talk.Ended != "" {
		r, err := s.Records.Get(ctx, v.TenantID, talk.Ended)
		if err != nil {
			return nil, err
		}
		out.LastEventID = eventID(r.RunID, r.EventSeq)
	}
	return out, nil
}

// talk reads a session's conversation. A session that the company closed or deleted is
// not found.
func (s *Service) talk(ctx context.Context, r *Record) (*session.Talk, error) {
	talk, err := s.Sessions.Talk(ctx, r.TenantID, r.SessionID, shownTalk)
	if fault.Is(err, fault.NotFound) || err == nil && talk.Status == session.Closed {
		return nil, errOther
	}
	return talk, err
}

// said returns what a visitor may read of a conversation: the own messages, the answers
// of runs that have ended, questions and answers to them. Notes of the company, results
// of tools, summaries and reasoning are left out.
func said(talk *session.Talk) []message {
	all := []message{}
	for _, e := range talk.Entries {
		m := message{MessageID: e.MessageID, Role: e.Role, Content: e.Content, Timestamp: e.Timestamp, RunID: e.RunID}
		switch {
		case e.Role == "user" && e.MessageID == e.RunID:
			for _, a := range e.Attachments {
				m.FileIDs = append(m.FileIDs, a.FileID)
			}
			all = append(all, m)
		case e.Role == "assistant" && e.RunID != talk.UnderWay:
			if e.Content != "" {
				all = append(all, m)
			}
			all = append(all, asked(e)...)
		}
	}
	return all
}

// asked returns the question of a reply that asked the visitor, and the answer.
func asked(e session.Entry) (all []message) {
	for _, c := range e.ToolCalls {
		var in struct {
			Question string `json:"question"`
		}
		if c.Name != run.AskUser || json.Unmarshal([]byte(c.Input), &in) != nil || in.Question == "" {
			continue
		}
		all = append(all, message{
			MessageID: e.MessageID + "-question", Role: "assistant", Content: in.Question, Timestamp: e.Timestamp, RunID: e.RunID,
		})
		if c.Status == "done" {
			all = append(all, message{
				MessageID: e.MessageID + "-answer", Role: "user", Content: c.Output, Timestamp: e.Timestamp, RunID: e.RunID,
			})
		}
	}
	return all
}
