package app

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"agentd/internal/base/clock"
	"agentd/internal/base/config"
	"agentd/internal/base/page"
	"agentd/internal/base/secret"
	"agentd/internal/delivery/live"
	"agentd/internal/delivery/webhook"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/ratelimit"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
	"agentd/internal/operation/opconfig"
	"agentd/internal/operation/setting"
	"agentd/internal/operation/setting/settingsql"
	"agentd/internal/store/auditsql"
	"agentd/internal/store/natsbus"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/secretsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/worksql"
)

// lease is how long a node holds a piece of work without renewing it.
const lease = 15 * time.Second

// signalWork wakes the runners of every node; the key is the kind of work.
const signalWork = "work"

// signalSettings has every node read a section of the operator's settings again.
const signalSettings = "settings"

// platform is what every part stands on: the configuration, the database, the
// bus between nodes, and the kernel on them.
type platform struct {
	lifecycle
	cfg     config.Config
	log     *slog.Logger
	clock   clock.Clock
	metrics *prometheus.Registry

	version  string // of the program
	node     string // names this data directory, whose leases are free again after a crash
	db       *sqldb.DB
	box      *secret.Box
	secrets  *secretsql.Keys // which secret keys the database needs
	hub      *event.Hub
	queue    work.Queue
	shares   shares                 // of the limits of providers
	gate     *work.Gate             // keeps workers from asking a database that is away
	lost     *prometheus.CounterVec // leases, by kind of work
	cursors  *page.Cursors
	limiter  *ratelimit.Limiter // of requests, and of strangers
	audit    *audit.Log
	watch    *audit.Watch          // of what is recorded beside the requests
	changes  *resource.Subscribers // of resources, for other parts
	announce live.Announcer        // of what changes, to pages that look
	kernel   resource.Deps
	models   *model.Catalogue        // nil until the models are built
	config   *opconfig.Config        // other settings of the operator
	level    *levelHandler           // of the log
	settings *setting.Service        // of the operator, which act while the program runs
	events   *webhook.ResourceEvents // of resources, for the webhooks of tenants
	// observeQueue exports the backlog of these workers' kinds.
	observeQueue func([]worker)
	running      atomic.Pointer[func() int] // the runs that this node carries; nil before it does
	disk         *disk                      // nil: nobody looks at it
	lone         *node                      // on SQLite
	address      atomic.Pointer[string]     // that the server listens on; nil before it does
}

// openPlatform opens the database and the bus. On an error the caller stops what
// is open already.
func openPlatform(ctx context.Context, p *platform) error {
	if err := p.openStorage(ctx); err != nil {
		return err
	}
	synced := &clock.Synced{}
	p.clock = synced
	if p.disk = newDisk(p); p.disk != nil {
		if err := p.start(background(p.disk.serve)); err != nil {
			return err
		}
	}
	queue := worksql.New(p.db, p.clock, func(kind string) { p.hub.Signal(signalWork, kind) })
	p.queue, p.gate, p.lost = queue, newGate(p, queue), newLostLeases(p.metrics)
	p.observeQueue = func(all []worker) { observeQueue(p.metrics, queue, all) }
	if err := p.start(background(p.gate.Serve)); err != nil {
		return err
	}
	if err := p.openNode(ctx, queue, synced); err != nil {
		return err
	}
	if err := p.openSecrets(ctx); err != nil {
		return err
	}
	if err := p.openBus(); err != nil {
		return err
	}
	limiter, err := newLimiter(p)
	if err != nil {
		return err
	}
	p.limiter = limiter
	p.cursors = page.NewCursors(p.box.DeriveAll("cursors")...)
	p.audit = &audit.Log{Store: auditsql.New(p.db), Writer: p.db, Cursors: p.cursors, Clock: p.clock}
	p.watch = audit.NewWatch(p.audit, p.log)
	p.settings = setting.New(setting.Deps{
		Store: settingsql.New(p.db), Writer: p.db, Clock: p.clock, Box: p.box, Audit: p.audit, Logger: p.log,
		OnChange: func(section string) { p.hub.Signal(signalSettings, section) },
	})
	p.changes = resource.NewSubscribers(p.queue, p.db, p.clock)
	p.announce = live.Announcer{Hub: p.hub}
	p.events = webhook.NewResourceEvents()
	p.kernel = resource.Deps{
		Backend: resourcesql.New(p.db), Writer: p.db, Outbox: live.Outbox{Outbox: p.changes, Announcer: p.announce},
		Kinds:   resource.NewRegistry(),
		Cursors: p.cursors, Clock: p.clock, Box: p.box, Audit: p.audit, Events: p.events,
		Counters: resourcesql.NewCounters(p.db),
	}
	return nil
}

// part is the kernel's own: the delivery of changes.
func (p *platform) part() part {
	return part{
		name:     "kernel",
		workers:  []worker{p.worker(resource.WorkKind, 8, p.changes.Deliver)},
		services: []service{background(p.reportKeys), p.onSignal(signalSettings, p.settings.Reload), background(p.settings.Serve)},
	}
}

// openStorage opens and migrates the database and reads this node's name. A
// data directory serves one node at a time.
func (p *platform) openStorage(ctx context.Context) error {
	dir := p.cfg.Storage.DataDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("the data directory: %w", err)
	}
	unlock, err := sqldb.LockDir(dir)
	if err != nil {
		return err
	}
	p.onStop(func() {
		if err := unlock(); err != nil {
			p.log.Warn("unlocking the data directory", "err", err)
		}
	})
	if p.node, err = nodeName(dir); err != nil {
		return err
	}
	metrics := logSlow(p.log, p.metrics, logRefusals(p.log, observeWrites(p.metrics)))
	c := sqldb.Config{URL: p.cfg.Storage.DatabaseURL.Reveal(), Logger: p.log, Metrics: metrics}
	if c.URL == "" {
		c.Dir = dir
	}
	if sqldb.Unencrypted(c.URL) {
		p.log.Warn("the connection to the database may go over the network in clear; add sslmode=verify-full to AGENTD_DATABASE_URL, " +
			"or keep the connection on a private network")
	}
	if p.db, err = sqldb.Open(ctx, c); err != nil {
		return err
	}
	p.onStop(func() {
		if err := p.db.Close(); err != nil {
			p.log.Error("closing the database", "err", err)
		}
	})
	return p.db.Migrate(ctx)
}

// openSecrets reads the secret keys, and refuses to start without one that stored
// values need.
func (p *platform) openSecrets(ctx context.Context) error {
	masters, err := p.cfg.MasterKeys()
	if err != nil {
		return err
	}
	if p.box, err = secret.NewBox(masters...); err != nil {
		return fmt.Errorf("AGENTD_SECRET_KEY: %w", err)
	}
	p.secrets = secretsql.New(p.db, p.box, p.clock)
	if p.db.Postgres() {
		if err := p.secrets.CheckServers(ctx, p.node); err != nil {
			return err
		}
	}
	return p.secrets.Check(ctx)
}

// reportKeys reports which secret keys this node has, until ctx ends.
func (p *platform) reportKeys(ctx context.Context) {
	tick := time.NewTicker(secretsql.Beat)
	defer tick.Stop()
	for {
		if err := p.secrets.Report(ctx, p.node); err != nil && ctx.Err() == nil {
			p.log.Warn("the secret keys of this node could not be reported", "err", err)
		}
		p.slowBeat(ctx)
		select {
		case <-ctx.Done():
			if err := p.secrets.Stopped(context.WithoutCancel(ctx), p.node); err != nil {
				p.log.Warn("the end of this node could not be reported", "err", err)
			}
			return
		case <-tick.C:
		}
	}
}

func (p *platform) openBus() error {
	p.hub = event.NewHub()
	if p.cfg.Bus.Unencrypted() {
		p.log.Warn("the token of the nodes is sent in clear to AGENTD_NATS_URL; use tls://, or keep the connection on a private network")
	}
	var tokens []string
	for _, key := range p.box.DeriveAll("nats") {
		tokens = append(tokens, hex.EncodeToString(key))
	}
	bus, err := natsbus.Open(natsbus.Config{
		URL: p.cfg.Bus.NATSURL.Reveal(), Listen: p.cfg.Bus.NATSListen,
		Tokens: tokens, Node: p.node, Logger: p.log,
	}, p.hub)
	if err != nil {
		return err
	}
	p.onStop(bus.Close)
	return nil
}

// worker returns the runner of a kind of work on this node.
func (p *platform) worker(kind string, slots int, handle work.Handler) worker {
	return p.workerWithBackoff(kind, slots, handle, nil)
}

// workerOf is worker for a kind whose number of handlers the operator sets.
func (p *platform) workerOf(kind string, slots func() int, handle work.Handler) worker {
	c := p.workConfig(kind, handle)
	c.SlotsNow = slots
	return worker{kind, work.NewRunner(c)}
}

// workerWithBackoff is worker for a kind whose retries have waits of their own.
func (p *platform) workerWithBackoff(kind string, slots int, handle work.Handler, backoff func(int) time.Duration) worker {
	c := p.workConfig(kind, handle)
	c.Slots, c.Backoff = slots, backoff
	return worker{kind, work.NewRunner(c)}
}

func (p *platform) workConfig(kind string, handle work.Handler) work.Config {
	return work.Config{
		Kind: kind, Owner: p.node, Queue: p.queue, Handler: handle, Lease: lease, Clock: p.clock, Logger: p.log, Gate: p.gate,
		OnLost: func(leases int) { p.lost.WithLabelValues(kind).Add(float64(leases)) },
	}
}

// onSignal is the service that calls a function for the signals of a name from
// every node.
func (p *platform) onSignal(name string, f func(key string)) service {
	return func() (func(context.Context), error) {
		stop := p.hub.OnSignal(name, f)
		return func(context.Context) { stop() }, nil
	}
}

// publicURL returns where clients, people and authorization servers reach this
// deployment, without a slash at the end.
func (p *platform) publicURL() string {
	if p.config != nil {
		if url := p.config.PublicURL(); url != "" {
			return url
		}
	}
	if url := p.cfg.Server.PublicURL; url != "" {
		return strings.TrimRight(url, "/")
	}
	scheme := "http://"
	if p.cfg.Server.TLSCert != "" {
		scheme = "https://"
	}
	if address := p.address.Load(); address != nil {
		return scheme + *address
	}
	return scheme + p.cfg.Server.Listen
}

// tracer returns the tracer of a component; nil where no collector is
// configured.
func (p *platform) tracer(component string) trace.Tracer {
	if p.cfg.Observability.OTLPEndpoint == "" {
		return nil
	}
	return otel.Tracer(component)
}
