package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/lasting"
	"agentd/internal/store/worksql"
)

// maxSkew is by how much this machine's clock may differ from the database's before
// it is logged.
const maxSkew = 2 * time.Second

// node is this process among those that run over a PostgreSQL database. On SQLite
// it is the only one.
type node struct {
	worksql.Node
	nodes  *worksql.Nodes
	clock  *clock.Synced
	skew   atomic.Int64   // nanoseconds by which this machine's clock is ahead of the database's
	skewed *lasting.State // the skew is too big
	lost   *lasting.State // another process holds the name
	shares *shares
	opened time.Time // when this process took the name
	seen   time.Time // when it last sent a heartbeat
	load   func() int
}

// openNode takes this node's name, follows the database's clock, and makes due what
// the node held when it died.
func (p *platform) openNode(ctx context.Context, queue *worksql.Queue, synced *clock.Synced) error {
	if !p.db.Postgres() {
		if err := p.openLone(ctx, synced); err != nil {
			return err
		}
		return queue.ReclaimAll(ctx)
	}
	n := &node{
		nodes: worksql.NewNodes(p.db, synced), clock: synced, shares: &p.shares, opened: time.Now(), load: p.load,
		skewed: lasting.New(p.log, "the clock differs from the database's, which decides"),
		lost:   lasting.New(p.log, "node name in use"),
	}
	p.metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agentd_clock_skew_seconds", Help: "Seconds by which this machine's clock is ahead of the database's.",
	}, func() float64 { return time.Duration(n.skew.Load()).Seconds() }))
	place, err := placeOf(p.cfg.Storage.DataDir)
	if err != nil {
		return err
	}
	n.Node = worksql.Node{Name: p.node, BootID: ident.New(), Place: place, Version: p.version, Role: cmp.Or(p.cfg.Server.Role, "all")}
	name, holder, err := n.nodes.Take(ctx, n.Node, ident.New())
	if err != nil {
		return err
	}
	if holder != nil {
		p.log.Warn("node name in use", "name", p.node, "fresh_name", name, "host", holder.Host, "path", holder.Path,
			"hint", "this data directory is a copy of a running node's, and gets a name of its own")
		if err := writeNodeName(p.cfg.Storage.DataDir, name); err != nil {
			return err
		}
		n.Name, p.node = name, name
	}
	p.onStop(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := n.nodes.Leave(ctx, n.Node); err != nil {
			p.log.Info("the node's name is free in half a minute only", "err", err)
		}
	})
	if err := n.beat(ctx); err != nil {
		return err
	}
	n.updateShare(ctx)
	if err := p.start(background(n.serve)); err != nil {
		return err
	}
	queue.LeaveHeld(lease)
	_, err = queue.Reclaim(ctx, p.node)
	return err
}

// openLone records the node of a SQLite database, for those who list nodes. It holds no
// name by that: the lock of the data directory does.
func (p *platform) openLone(ctx context.Context, clk clock.Clock) error {
	place, err := placeOf(p.cfg.Storage.DataDir)
	if err != nil {
		return err
	}
	n := &node{nodes: worksql.NewNodes(p.db, clk)}
	n.Node = worksql.Node{Name: p.node, BootID: ident.New(), Place: place, Version: p.version, Role: cmp.Or(p.cfg.Server.Role, "all")}
	if n.Name, _, err = n.nodes.Take(ctx, n.Node, ident.New()); err != nil {
		return err
	}
	p.lone = n
	p.onStop(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := n.nodes.Leave(ctx, n.Node); err != nil {
			p.log.Info("the end of this node could not be recorded", "err", err)
		}
	})
	return nil
}

// slowBeat is the heartbeat of the node of a SQLite database.
func (p *platform) slowBeat(ctx context.Context) {
	if p.lone == nil {
		return
	}
	p.lone.Runs = p.load()
	if _, _, err := p.lone.nodes.Beat(ctx, p.lone.Node); err != nil && ctx.Err() == nil {
		p.log.Warn("the heartbeat of this node could not be recorded", "err", err)
	}
}

// load returns how many runs this node carries.
func (p *platform) load() int {
	if running := p.running.Load(); running != nil {
		return (*running)()
	}
	return 0
}

// serve sends heartbeats until ctx ends. One that fails is not logged: whoever
// waits for the database does that.
func (n *node) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(worksql.HeartbeatEvery):
			_ = n.beat(ctx)
			n.updateShare(ctx)
		}
	}
}

// beat shows that this node runs, and reads the database's clock.
func (n *node) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, worksql.HeartbeatEvery)
	defer cancel()
	sent := time.Now()
	n.Runs = n.load()
	now, held, err := n.nodes.Beat(ctx, n.Node)
	if err != nil {
		return err
	}
	if !held {
		n.lost.Notice("name", n.Name, "hint", "restart this node: another process has taken its name")
		return nil
	}
	n.lost.End()
	n.seen = sent
	if time.Since(sent) > time.Second {
		return nil // too slow to know what time it is
	}
	skew := n.clock.Set(now, sent)
	n.skew.Store(int64(skew))
	if skew.Abs() > maxSkew {
		n.skewed.Notice("ahead_seconds", skew.Seconds())
	} else {
		n.skewed.End()
	}
	return nil
}

// placeOf returns where a data directory is. The host is named with the present
// boot of its kernel, which tells clones of one virtual machine apart.
func placeOf(dir string) (worksql.Place, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return worksql.Place{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return worksql.Place{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		return worksql.Place{}, err
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil { // Linux alone has it
		host += " " + strings.TrimSpace(string(boot))
	}
	at := worksql.Place{Host: host, Path: path}
	at.Inode = inode(info)
	return at, nil
}

// nodeName returns the name that is stored in a data directory, or stores one.
func nodeName(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, nodeFile))
	if err == nil && ident.Valid(string(b)) {
		return string(b), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	name := ident.New()
	return name, writeNodeName(dir, name)
}

// nodeFile is where a data directory keeps its node's name.
const nodeFile = "node_id"

func writeNodeName(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, nodeFile), []byte(name), 0o600); err != nil {
		return fmt.Errorf("the node's name: %w", err)
	}
	return nil
}
