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
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

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

// Send implements a2a.Peers.
func (c Client) Send(ctx context.Context, m a2a.Outgoing) (*a2a.Reply, error) {
	ctx = authz.WithTenant(ctx, m.TenantID)
	card, err := c.card(ctx, m.URL)
	if err != nil {
		return nil, err
	}
	client := new(*c.Guarded.HTTP())
	client.Transport = bounded{client.Transport}
	peer, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithDefaultsDisabled(), a2aclient.WithJSONRPCTransport(client),
		a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: client}))
	if err != nil {
		return nil, fault.New(fault.Upstream, "", "The peer's card has no JSON-RPC interface of the protocol 1.0 or 0.3.").Because(err)
	}
	req := &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(m.Text))}
	req.Message.ContextID, req.Message.TaskID = m.ContextID, sdk.TaskID(m.TaskID)
	got, err := peer.SendMessage(ctx, req)
	if err != nil {
		return nil, failure(ctx, err)
	}
	switch got := got.(type) {
	case *sdk.Message:
		return reply(&a2a.Reply{ContextID: got.ContextID, TaskID: string(got.TaskID), State: string(a2a.Completed), Text: textOf(got.Parts)})
	case *sdk.Task:
		if m.TaskID != "" && string(got.ID) != m.TaskID {
			return nil, fault.New(fault.Upstream, "", "The peer answered for another task than it was asked for.")
		}
		return c.await(ctx, peer, got)
	}
	return nil, fault.New(fault.Upstream, "", "The peer answered with neither a message nor a task.")
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
			return nil, fault.New(fault.Upstream, "", "The peer answered for another task than it was asked for.")
		}
		t = next
	}
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
		return nil, fault.New(fault.Upstream, "", "The peer answered with ids that are too long.")
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
func (c Client) card(ctx context.Context, url string) (*sdk.AgentCard, error) {
	base, query, _ := strings.Cut(url, "?")
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
	return fault.New(fault.Upstream, "", "The peer could not be reached, or sent what is no answer of the protocol.").Because(err)
}

// bounded bounds the answers that it reads.
type bounded struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.base.RoundTrip(req)
	if err == nil {
		resp.Body = &limited{resp.Body, maxBytes}
	}
	return resp, err
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
