package app

import (
	"context"

	"agentd/internal/app/kinds"
)

// build builds the areas, each from those before it, and returns their parts in
// order. Where two areas need each other, the one that is built first gets the
// other by its Connect.
func build(ctx context.Context, p *platform) (*program, error) {
	out, err := newEgress(p)
	if err != nil {
		return nil, err
	}
	accounts, err := newAccounts(ctx, p, out)
	if err != nil {
		return nil, err
	}
	governing := newGovernance(p)
	models, err := newModels(p, out)
	if err != nil {
		return nil, err
	}
	delivery, err := newDelivery(p, out, accounts)
	if err != nil {
		return nil, err
	}
	content := newContent(p, models, accounts)
	tools, err := newTools(p, out, delivery, content)
	if err != nil {
		return nil, err
	}
	agents, err := newAgents(p, out, models, accounts, content, tools, governing)
	if err != nil {
		return nil, err
	}
	permitted := newPermissions(p, governing, agents)
	connected, machines := newIntegrations(p, out, tools, agents), newMachines(p, agents)
	execution := newExecution(p, models, accounts, delivery, content, tools, agents, permitted, connected, machines)
	members, err := newMembers(ctx, p, out, accounts, delivery, agents)
	if err != nil {
		return nil, err
	}

	content.connect(agents.agents)
	decided := newDecisions(p, governing, agents, permitted, delivery, execution.runs)
	governing.connect(agents.agents, permitted, decided.votes)
	peered, err := newPeers(p, out, agents, execution)
	if err != nil {
		return nil, err
	}
	grouped := newTeams(p, accounts, content, tools, agents, execution, permitted)
	governing.constitution.ConnectRuns(execution.past().Acts)
	measured := newInsight(p, out, models, accounts, delivery, agents, execution)
	tools.connect(p, execution.runs, agents, permitted, grouped)
	agents.connect(execution.runs)
	machines.connect(execution)
	members.connect(accounts)

	kept := newRetention(p, content)
	shown := newLive(p, delivery, execution, newWaiting(p, tools.registry, execution, decided))
	watched, err := newAuditPart(ctx, p)
	if err != nil {
		return nil, err
	}
	parts := []part{
		p.part(), p.configPart(), watched, out.part(p), accounts.part(p), members.part(p, accounts), agents.part(),
		{name: "kinds", routes: kinds.Routes(p.kernel)}, commercePart(p, agents, content), models.part(p), delivery.part(p, accounts),
		content.part(p), tools.part(), execution.part(p), governing.part(p), permitted.part(), decided.part(p, governing),
		grouped.part(p), peered.part(p), machines.part(p), shown, compatPart(p, models, agents, execution, content, grouped),
		billingPart(p, accounts, delivery), publicPart(p, out, accounts, content, agents, execution), connected.part(p),
		privacyPart(p, content, execution), {name: "skills", routes: newSkills(content, tools, agents).Routes()},
		marketPart(p, agents, execution), measured.part(p), retentionPart(p, kept), reconciliationPart(p, accounts),
	}
	parts = append(parts, pursuits(p, delivery, content, agents, execution, permitted, grouped, kept)...)
	if err := subscribe(p, execution, parts); err != nil {
		return nil, err
	}
	if err := p.settings.Load(ctx); err != nil {
		return nil, err
	}
	server, edge, err := newServer(p, accounts, members, parts)
	if err != nil {
		return nil, err
	}
	return &program{accounts: accounts, models: models, signIn: members.signIn, parts: append(parts, edge), server: server}, nil
}

// subscribe has the parts called for what they watch.
func subscribe(p *platform, execution *execution, parts []part) error {
	watchers, err := orderWatchers(parts)
	if err != nil {
		return err
	}
	for _, w := range watchers {
		execution.watchers.Add(w)
	}
	for _, part := range parts {
		for _, s := range part.subscribers {
			p.changes.Subscribe(s.name, s.kind, s.actions, s.handle)
		}
	}
	return nil
}
