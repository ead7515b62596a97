package teamrun

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/kernel/model"
	"agentd/internal/teams/team"
)

// The runs of a team are the turns of its chat: a message, and the team's answer. Those
// that are addressed to the same members are a thread.

// threadOf returns the thread of messages to these members; "": the message is to all.
func threadOf(teamID string, addressed []string) string {
	if len(addressed) == 0 {
		return ""
	}
	return ident.Derive(teamID, append([]string{"thread"}, slices.Sorted(slices.Values(addressed))...)...)
}

var mention = regexp.MustCompile(`(?:^|[\s(,;:])@([\pL\pN][\pL\pN_.-]{0,199})`)

// maxMentions bounds the mentions that are looked at in a message.
const maxMentions = 100

// mentioned returns the members that a message mentions, as @ and an agent's id or its
// name with - for spaces. Words after an @ that name no member are plain text.
func (s *Service) mentioned(ctx context.Context, t *team.Team, req request) (ids []string, err error) {
	found := mention.FindAllStringSubmatch(req.message, maxMentions)
	if len(found) == 0 {
		return nil, nil
	}
	var members []string
	for _, w := range t.Members() {
		members = append(members, w.AgentID)
	}
	if req.chat && t.SupervisorAgentID != "" {
		members = append(members, t.SupervisorAgentID)
	}
	names := map[string]string{}
	for _, id := range members {
		if names[id], err = s.AgentName(ctx, t.TenantID, id); err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	for _, f := range found {
		for _, id := range members {
			if called(f[1], id, names[id]) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// called reports whether a mention is that of an agent.
func called(mention, id, name string) bool {
	mention = strings.TrimRight(mention, ".-_") // the end of a sentence
	name = strings.Join(strings.Fields(name), "-")
	return mention == id || name != "" && strings.EqualFold(mention, strings.TrimRight(name, ".-_"))
}

// Bounds of what a message of the chat is shown of those before it.
const (
	maxTurns   = 20
	maxHistory = 64 << 10 // bytes
)

// earlier returns the turns of the thread of a run, oldest first: those that have an
// answer, as far as they fit; and the untrusted sources that they have content of.
func (s *Service) earlier(ctx context.Context, r *Record) (turns []model.Message, sources []string, err error) {
	f := Filter{Thread: &r.Thread, Newest: true}
	before, err := s.Store.List(ctx, r.TenantID, r.TeamID, f, page.Window{Limit: maxTurns})
	if err != nil {
		return nil, nil, err
	}
	left := maxHistory
	for i := range before {
		one := &before[i]
		left -= len(one.Message) + len(one.Output)
		if left < 0 {
			break
		}
		if one.answer() != nil {
			tasks, err := s.Store.ListTasks(ctx, r.TenantID, one.TeamRunID)
			if err != nil {
				return nil, nil, err
			}
			sources = model.JoinSources(sources, one.Spec.Sources)
			for j := range tasks {
				sources = model.JoinSources(sources, tasks[j].Sources)
			}
			turns = append(turns, model.Message{Role: model.Assistant, Text: one.Output}, model.Message{Role: model.User, Text: one.Message})
		}
	}
	slices.Reverse(turns)
	return turns, sources, nil
}
