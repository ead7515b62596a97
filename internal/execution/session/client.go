package session

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// MaxExternalID is the most characters of a front end's id of a conversation.
const MaxExternalID = 128

// ClientMessage is a message that a front end sent, as it is recognized when it is sent
// again.
type ClientMessage struct {
	ID   string `json:"id"`
	Hash string `json:"hash,omitzero"` // of what it says
}

// ClientTurn is a turn with what a front end sent for it.
type ClientTurn struct {
	Turn

	Messages []ClientMessage // nil: no front end sent the turn
	Reply    string          // id, or beginning of the ids, of the messages that it got as the answer
}

// ClientStore is the port to what front ends hold of sessions. Every method takes the
// tenant.
type ClientStore interface {
	// GetExternal returns the session of an agent that has a front end's id. Errors: NotFound.
	GetExternal(ctx context.Context, tenant, agent, externalID string) (*Record, error)
	// ListClientTurns returns the turns of a session in order.
	ListClientTurns(ctx context.Context, tenant, session string) ([]ClientTurn, error)
	// CreateClientTurnTx stores what a front end sent for the turn of a run.
	CreateClientTurnTx(tx txn.Tx, tenant, runID string, messages []ClientMessage, reply string) error
	// GetStateTx returns the state that pages share with a session, and the step that
	// changed it last; nil if there is none.
	GetStateTx(tx txn.Tx, tenant, session string) (state jsontext.Value, step string, err error)
	// GetState is GetStateTx without a transaction.
	GetState(ctx context.Context, tenant, session string) (jsontext.Value, error)
	PutStateTx(tx txn.Tx, tenant, session string, state jsontext.Value, step string) error
}

// Chat is a conversation as the front end knows it that holds it.
type Chat struct {
	Session *Record // nil: the first message makes it

	tenant, agent, externalID string
	turns                     []ClientTurn // of the active branch, in order
}

// Chat returns the conversation of an agent that has a front end's id. Errors: Invalid for
// an id that none can have.
func (s *Service) Chat(ctx context.Context, tenant, agent, externalID string) (*Chat, error) {
	if message := CheckExternalID(externalID); message != "" {
		return nil, fault.BadFields(fault.Field{Field: "external_id", Message: message})
	}
	c := &Chat{tenant: tenant, agent: agent, externalID: externalID}
	rec, err := s.Clients.GetExternal(ctx, tenant, agent, externalID)
	if fault.Is(err, fault.NotFound) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	c.Session = rec
	all, err := s.Clients.ListClientTurns(ctx, tenant, rec.SessionID)
	if err != nil {
		return nil, err
	}
	if c.turns = all; rec.ActiveBranch != Root {
		c.turns, err = s.onBranch(ctx, rec, all)
	}
	return c, err
}

// CheckExternalID returns what is wrong with a front end's id; "": nothing.
func CheckExternalID(id string) string {
	switch n := len([]rune(id)); {
	case strings.TrimSpace(id) == "":
		return "it is blank; send an id of your own for the conversation"
	case n > MaxExternalID:
		return "it is longer than 128 characters"
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
		return "it has characters that cannot be shown"
	}
	return ""
}

// onBranch returns the turns that the active branch of a session has.
func (s *Service) onBranch(ctx context.Context, rec *Record, all []ClientTurn) ([]ClientTurn, error) {
	branches, err := s.Store.ListBranches(ctx, rec.TenantID, rec.SessionID)
	if err != nil {
		return nil, err
	}
	pieces, err := piecesOf(branches, rec.ActiveBranch, func(run string) (Turn, error) {
		for i := range all {
			if all[i].RunID == run {
				return all[i].Turn, nil
			}
		}
		return Turn{}, fault.NewNotFound("turn")
	})
	if err != nil {
		return nil, err
	}
	var on []ClientTurn
	for i := range all {
		if pieceOf(pieces, all[i].Turn) >= 0 {
			on = append(on, all[i])
		}
	}
	return on, nil
}

// UnderWay returns the run of the first turn that has not ended; "" if there is none.
func (c *Chat) UnderWay() string {
	for i := range c.turns {
		if !c.turns[i].Finished {
			return c.turns[i].RunID
		}
	}
	return ""
}

// Turns returns the turns of the conversation, in order.
func (c *Chat) Turns() []ClientTurn { return c.turns }

// SentMessage is a message in the history that a front end sends.
type SentMessage struct {
	ClientMessage

	// Reply is the id of the agent's message that it is, or is part of; "": the front end
	// wrote it.
	Reply string
}

// Place is where a history that a front end sends goes on from what the session knows.
type Place struct {
	Turns int // that both have, from the first
	New   int // index of the first message that the agent does not have
}

// Align compares a history that a front end sends with the conversation. Messages that the
// session knows are not told again. Where one of them is missing or was changed, the place
// is behind the last turn that both have. A history without any message that the session
// knows goes on at the end.
func (c *Chat) Align(sent []SentMessage) Place {
	if !c.knowsAny(sent) {
		return Place{Turns: len(c.turns)}
	}
	at := 0
	for i := range c.turns {
		end, same := c.matchTurn(i, sent, at)
		if !same {
			return Place{Turns: i, New: at}
		}
		at = end
	}
	return Place{Turns: len(c.turns), New: at}
}

// knowsAny reports whether the session knows any message of a history.
func (c *Chat) knowsAny(sent []SentMessage) bool {
	ids := map[string]bool{}
	for i := range c.turns {
		for _, m := range c.turns[i].Messages {
			ids[m.ID] = true
		}
		ids[c.turns[i].RunID], ids[runOfReply(c.turns[i].Reply)] = true, true
	}
	delete(ids, "")
	return slices.ContainsFunc(sent, func(m SentMessage) bool { return ids[m.ID] || ids[runOfReply(m.Reply)] })
}

// runOfReply returns the run that the id of an answer begins with; "" if it is too short.
func runOfReply(reply string) string {
	const length = len("00000000-0000-0000-0000-000000000000")
	if len(reply) < length {
		return ""
	}
	return reply[:length]
}

// matchTurn returns the index behind the messages of a turn, and reports whether the
// history has the turn unchanged.
func (c *Chat) matchTurn(i int, sent []SentMessage, at int) (end int, same bool) {
	t := &c.turns[i]
	switch {
	case at < len(sent) && sent[at].ID == t.RunID: // as agentd's own lists call the message
		at++
	case at < len(sent) && t.onlyResults() && t.wrote(&sent[at]): // such lists have no results of a page's tools
	default:
		for _, m := range t.Messages {
			if at == len(sent) || sent[at].ClientMessage != m {
				return at, false
			}
			at++
		}
	}
	answered := false
	for at < len(sent) && t.wrote(&sent[at]) && !c.begins(i+1, &sent[at]) {
		at++
		answered = true
	}
	return at, answered || !t.answered()
}

// begins reports whether a turn begins with a message.
func (c *Chat) begins(i int, m *SentMessage) bool {
	return i < len(c.turns) && len(c.turns[i].Messages) > 0 && c.turns[i].Messages[0].ID == m.ID
}

// onlyResults reports whether a front end sent nothing for a turn but results of its tools.
func (t *ClientTurn) onlyResults() bool {
	return len(t.Messages) > 0 && !slices.ContainsFunc(t.Messages, func(m ClientMessage) bool { return !strings.HasPrefix(m.ID, resultMark) })
}

// wrote reports whether a message is the answer of a turn, or part of it.
func (t *ClientTurn) wrote(m *SentMessage) bool {
	if m.Reply == "" {
		return false
	}
	return t.Reply != "" && (m.Reply == t.Reply || strings.HasPrefix(m.Reply, t.Reply+"-")) || strings.HasPrefix(m.Reply, t.RunID+"-")
}

// answered reports whether a front end that sent the turn has got an answer that it can
// send back.
func (t *ClientTurn) answered() bool {
	own := int64(1) // entries that are not the agent's
	if t.onlyResults() {
		own = 0
	}
	return len(t.Messages) > 0 && t.Finished && t.Entries > own
}

// resultMark begins the ids of messages that are results of a front end's own tools.
const resultMark = "call:"

// ResultID returns the id of the message that has the result of a call.
func ResultID(call string) string { return resultMark + call }

// ExternalIDTaken is the refusal of a session whose external id another one of the agent has.
func ExternalIDTaken() error {
	return fault.New(fault.Conflict, CodeExternalIDTaken,
		"Another session of the agent has this external_id already; GET /api/v1/sessions?external_id= finds it.")
}

// CodeExternalIDTaken is the code of ExternalIDTaken.
const CodeExternalIDTaken = "EXTERNAL_ID_TAKEN"
