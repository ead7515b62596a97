package app

import (
	"context"
	"io"
	"slices"

	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/route"
	"agentd/internal/content/file"
	"agentd/internal/edge/chatwidget"
	"agentd/internal/kernel/resource"
	"agentd/internal/operation/audience"
	"agentd/internal/operation/audience/audiencesql"
	"agentd/internal/public/directory"
	"agentd/internal/public/directory/directorysql"
	"agentd/internal/public/visitor"
	"agentd/internal/public/visitor/visitorsql"
	"agentd/internal/teams/a2a/a2asql"
	"agentd/internal/wire/captcha"
)

// publicPart is what strangers reach without a key.
func publicPart(
	p *platform, out *egress, accounts *accounts, content *content, agents *agents, execution *execution,
) part {
	tenants := identitysql.New(p.db)
	companies := directory.New(&directory.Service{
		Store: directorysql.New(p.db), Agents: agents.agents, Plans: accounts.plans.All, Cursors: p.cursors, Clock: p.clock,
	})
	visitors := visitor.New(visitor.Deps{
		Store: visitorsql.New(p.db), Agents: agents.agents, Sessions: execution.sessions, Runs: execution.runs,
		Records: execution.runs.Runs, Files: publicFiles{content.files}, Reports: resource.NewStore(visitor.ReportKind, p.kernel),
		Writer: p.db, Clock: p.clock, Limiter: p.limiter, Limits: visitor.Section(p.settings),
		Owner: a2asql.New(p.db).GetTenant, Suspended: suspended(p), Shows: companies.Shows,
		Captcha: captcha.Verifier{Client: out.screened}.Verify,
		Company: func(ctx context.Context, tenant string) (visitor.Company, error) {
			t, err := tenants.GetTenant(ctx, tenant)
			return visitor.Company{Name: t.Name, Slug: t.Slug, LogoURL: t.LogoURL, Public: t.Public}, err
		},
		PublicURL: p.publicURL, Origins: p.cfg.Server.Origins(),
	})
	arrivals := &audience.Service{Store: audiencesql.New(p.db), Clock: p.clock, Visits: visits(companies)}
	return part{
		name: "public", routes: slices.Concat(visitors.Routes(), companies.Routes(), arrivals.Routes()), endpoints: chatwidget.Routes(),
		services: []service{background(companies.Serve)},
	}
}

// visits returns what reads the counted events of pages.
func visits(companies *directory.Service) func(context.Context, string) ([]audience.Count, error) {
	return func(ctx context.Context, since string) (all []audience.Count, err error) {
		counted, err := companies.CountedSince(ctx, since)
		for _, c := range counted {
			all = append(all, audience.Count{Day: c.Day, Name: c.Event, Number: c.Number})
		}
		return all, err
	}
}

// publicFiles implements visitor.Files.
type publicFiles struct{ files *file.Service }

// Add implements visitor.Files.
func (f publicFiles) Add(ctx context.Context, tenant, name, mimeType string, from io.Reader) (id string, size int64, err error) {
	st, err := f.files.Blobs.Stage(ctx, tenant, from)
	if err != nil {
		return "", 0, err
	}
	made, err := f.files.Add(ctx, tenant, name, mimeType, st)
	if err != nil {
		return "", 0, err
	}
	return made.FileID, made.SizeBytes, nil
}

// Open implements visitor.Files.
func (f publicFiles) Open(ctx context.Context, tenant, id string) (*route.Content, error) {
	got, opened, err := f.files.Open(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return &route.Content{
		Name: got.Filename, Type: got.MimeType, ETag: got.SHA256, Time: got.CreatedAt, Size: got.SizeBytes, Body: opened,
	}, nil
}
