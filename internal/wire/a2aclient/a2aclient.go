// Package a2aclient sends messages to agents of other systems by the Agent2Agent
// protocol, with the official SDK's client in the versions 1.0 and 0.3. A peer may hang,
// answer for other tasks or send what is no answer: each call has a time limit, and reads
// a limited part of what comes.
package a2aclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/text"
	"agentd/internal/teams/a2a"
	"agentd/internal/wire/outbound"
)

// Bounds of what a peer sends.
const (
	cardTime  = 10 * time.Second
	cardBytes = 256 << 10
	maxBytes  = 1 << 20 // of one answer
	maxText   = 200_000 // characters of an answer that are kept
	maxIDs    = 300     // characters of an id that a peer chooses
)

// Client is safe for concurrent use.
type Client struct {
	Guarded *outbound.Client
	// Poll is how long it waits before it asks for a task again, which doubles up to ten
	// times as long [1 s].
	Poll time.Duration
}

var _ a2a.Peers = Client{}

// peer is an agent whose card was read.
type peer struct {
	to     a2a.Target
	client *a2aclient.Client
	lists  bool // it speaks a version in which tasks can be listed
}

// Connect implements a2a.Peers.
func (c Client) Connect(ctx context.Context, to a2a.Target) (a2a.Peer, error) {
	p, err := c.connect(authz.WithTenant(ctx, to.TenantID), to)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (c Client) connect(ctx context.Context, to a2a.Target) (*peer, error) {
	card, err := c.card(ctx, to)
	if err != nil {
		return nil, err
	}
	p := &peer{to: to}
	card.SupportedInterfaces = slices.DeleteFunc(card.SupportedInterfaces, func(one *sdk.AgentInterface) bool { return one == nil })
	for _, one := range card.SupportedInterfaces {
		if to.Endpoint != "" {
			one.URL = to.Endpoint
		}
		p.lists = p.lists || one.ProtocolBinding == sdk.TransportProtocolJSONRPC && strings.HasPrefix(string(one.ProtocolVersion), "1.")
	}
	client := new(*c.Guarded.HTTP())
	client.Transport = bounded{client.Transport, to.Auth}
	p.client, err = a2aclient.NewFromCard(ctx, card, a2aclient.WithDefaultsDisabled(), a2aclient.WithJSONRPCTransport(client),
		a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: client}))
	if err != nil {
		return nil, fault.New(fault.Upstream, "", "The peer's card has no JSON-RPC interface of the protocol 1.0 or 0.3.").Because(err)
	}
	return p, nil
}

// Send implements a2a.Peers.
func (c Client) Send(ctx context.Context, m a2a.Outgoing) (*a2a.Reply, error) {
	ctx = authz.WithTenant(ctx, m.Target.TenantID)
	p, err := c.connect(ctx, m.Target)
	if err != nil {
		return nil, err
	}
	req := &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(m.Text))}
	req.Message.ContextID, req.Message.TaskID = m.ContextID, sdk.TaskID(m.TaskID)
	got, err := p.client.SendMessage(ctx, req)
	if err != nil {
		return nil, failure(ctx, err)
	}
	if t, ok := got.(*sdk.Task); ok {
		if m.TaskID != "" && string(t.ID) != m.TaskID {
			return nil, another()
		}
		return c.await(ctx, p.client, t)
	}
	return said(got)
}

// Start implements a2a.Peer. A peer that lists its tasks receives the id as that of the
// conversation too, by which Find finds the task again.
func (p *peer) Start(ctx context.Context, id, text string) (*a2a.Reply, error) {
	ctx = authz.WithTenant(ctx, p.to.TenantID)
	req := &sdk.SendMessageRequest{
		Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text)), Config: &sdk.SendMessageConfig{ReturnImmediately: true},
	}
	if req.Message.ID = id; p.lists {
		req.Message.ContextID = id
	}
	got, err := p.client.SendMessage(ctx, req)
	if err != nil {
		return nil, failure(ctx, err)
	}
	if t, ok := got.(*sdk.Task); ok {
		if t.ID == "" || len(t.ID) > maxIDs {
			return nil, badIDs()
		}
		return replyOf(t)
	}
	return said(got)
}

// Find implements a2a.Peer.
func (p *peer) Find(ctx context.Context, id string) (*a2a.Reply, error) {
	if !p.lists {
		return nil, a2a.ErrUnlisted
	}
	ctx = authz.WithTenant(ctx, p.to.TenantID)
	got, err := p.client.ListTasks(ctx, &sdk.ListTasksRequest{ContextID: id, PageSize: 10, IncludeArtifacts: true})
	if errors.Is(err, sdk.ErrMethodNotFound) || errors.Is(err, sdk.ErrUnsupportedOperation) {
		return nil, a2a.ErrUnlisted
	}
	if err != nil {
		return nil, failure(ctx, err)
	}
	for _, t := range got.Tasks {
		if t != nil && t.ContextID == id {
			return replyOf(t)
		}
	}
	return nil, nil
}

// Get implements a2a.Peer.
func (p *peer) Get(ctx context.Context, taskID string) (*a2a.Reply, error) {
	ctx = authz.WithTenant(ctx, p.to.TenantID)
	t, err := p.client.GetTask(ctx, &sdk.GetTaskRequest{ID: sdk.TaskID(taskID)})
	switch {
	case errors.Is(err, sdk.ErrTaskNotFound):
		return nil, fault.NewNotFound("task of the peer")
	case err != nil:
		return nil, failure(ctx, err)
	case string(t.ID) != taskID:
		return nil, another()
	}
	return replyOf(t)
}

// Cancel implements a2a.Peer.
func (p *peer) Cancel(ctx context.Context, taskID string) error {
	ctx = authz.WithTenant(ctx, p.to.TenantID)
	if _, err := p.client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: sdk.TaskID(taskID)}); err != nil {
		return failure(ctx, err)
	}
	return nil
}

// said returns an answer that is no task.
func said(got sdk.SendMessageResult) (*a2a.Reply, error) {
	m, ok := got.(*sdk.Message)
	if !ok {
		return nil, fault.New(fault.Upstream, "", "The peer answered with neither a message nor a task.")
	}
	return reply(&a2a.Reply{ContextID: m.ContextID, TaskID: string(m.TaskID), State: string(a2a.Completed), Text: textOf(m.Parts)})
}

func another() error {
	return fault.New(fault.Upstream, "", "The peer answered for another task than it was asked for.")
}

func badIDs() error {
	return fault.New(fault.Upstream, "", "The peer answered with an id that is empty or too long.")
}

// await asks for a task until it is over or waits for the other side.
func (c Client) await(ctx context.Context, peer *a2aclient.Client, t *sdk.Task) (*a2a.Reply, error) {
	first := c.Poll
	if first == 0 {
		first = time.Second
	}
	for wait := first; t.Status.State == sdk.TaskStateSubmitted || t.Status.State == sdk.TaskStateWorking; wait = min(2*wait, 10*first) {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, failure(ctx, ctx.Err())
		case <-timer.C:
		}
		next, err := peer.GetTask(ctx, &sdk.GetTaskRequest{ID: t.ID})
		if err != nil {
			return nil, failure(ctx, err)
		}
		if next.ID != t.ID {
			return nil, another()
		}
		t = next
	}
	return replyOf(t)
}

// replyOf returns how far a task is.
func replyOf(t *sdk.Task) (*a2a.Reply, error) {
	state := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(string(t.Status.State), "TASK_STATE_")), "_", "-")
	r := &a2a.Reply{TaskID: string(t.ID), ContextID: t.ContextID, State: state}
	for _, one := range t.Artifacts {
		r.Text = joined(r.Text, textOf(one.Parts))
	}
	if m := t.Status.Message; m != nil && (r.Text == "" || t.Status.State != sdk.TaskStateCompleted) {
		r.Text = joined(r.Text, textOf(m.Parts))
	}
	return reply(r)
}

// reply returns an answer, unless it has ids that are no ids.
func reply(r *a2a.Reply) (*a2a.Reply, error) {
	if len(r.TaskID) > maxIDs || len(r.ContextID) > maxIDs || len(r.State) > maxIDs {
		return nil, badIDs()
	}
	r.Text = text.Truncate(r.Text, maxText)
	return r, nil
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

func textOf(parts sdk.ContentParts) (all string) {
	for _, p := range parts {
		switch {
		case p == nil:
		case p.Text() != "":
			all = joined(all, p.Text())
		case p.URL() != "":
			all = joined(all, string(p.URL()))
		}
	}
	return all
}

// card reads the card of an agent: at the URL itself where that is one of a document, and
// else at the well-known path below it.
func (c Client) card(ctx context.Context, to a2a.Target) (*sdk.AgentCard, error) {
	base, query, _ := strings.Cut(to.URL, "?")
	if !strings.HasSuffix(base, ".json") {
		base = strings.TrimSuffix(base, "/") + "/.well-known/agent-card.json"
	}
	if query != "" {
		base += "?" + query
	}
	if err := outbound.CheckURL(base); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base, nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "The url is not an address.").Because(err)
	}
	if a := to.Auth; a != nil && a.Origin == mcp.Origin(base) {
		req.Header.Set(a.Header, a.Value.Reveal())
	}
	resp, err := c.Guarded.Do(req, outbound.Limits{Time: cardTime, Bytes: cardBytes, Hops: 3})
	if err != nil {
		return nil, failure(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fault.New(fault.Upstream, "", "There is no card of an agent at that url: the answer has the status %d.", resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, failure(ctx, err)
	}
	card, err := a2av0.NewAgentCardParser()(body)
	if err != nil || len(card.SupportedInterfaces) == 0 {
		return nil, fault.New(fault.Upstream, "", "What is at that url is no card of an agent.").Because(err)
	}
	return card, nil
}

// failure returns why a call failed, in words for the model.
func failure(ctx context.Context, err error) error {
	var own *fault.Error
	switch {
	case errors.As(err, &own):
		return own
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.UpstreamTimeout, "", "The peer did not answer in time.").Because(err)
	}
	if _, answered := errors.AsType[*sdk.Error](err); answered {
		err = errors.Join(a2a.ErrRefused, err)
	}
	return fault.New(fault.Upstream, "", "The peer could not be reached, or sent what is no answer of the protocol.").Because(err)
}

// bounded bounds the answers that it reads, and sends a credential to the origin that it
// is for.
type bounded struct {
	base http.RoundTripper
	auth *a2a.Authorization // nil: none
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	if a := b.auth; a != nil && a.Origin == mcp.Origin(req.URL.String()) {
		req = req.Clone(req.Context())
		req.Header.Set(a.Header, a.Value.Reveal())
	}
	resp, err := b.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if code := resp.StatusCode; code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests {
		resp.Body.Close()
		return nil, fault.New(fault.Upstream, "", "The peer refused the message with the status %d.", code).Because(a2a.ErrRefused)
	}
	resp.Body = &limited{resp.Body, maxBytes}
	return resp, nil
}

// limited is a body that ends with an error where it is too large.
type limited struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, outbound.ErrTooLarge
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
