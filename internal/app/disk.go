package app

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/base/diskspace"
	"agentd/internal/base/fault"
	"agentd/internal/base/lasting"
)

// diskEvery is how often the room on the disk is looked at.
const diskEvery = 5 * time.Second

// disk keeps room for the runs under way: new ones are refused before SQLite cannot
// write any more.
type disk struct {
	free    func() (bytes uint64, known bool)
	reserve uint64
	low     *lasting.State
	closed  atomic.Bool
	left    atomic.Uint64
}

// newDisk returns the watch of the disk with the database; nil where there is none.
func newDisk(p *platform) *disk {
	reserve := p.cfg.Server.DiskReserveMiB
	if p.db.Postgres() || reserve <= 0 {
		return nil
	}
	d := &disk{
		free: func() (uint64, bool) { return diskspace.Free(p.cfg.Storage.DataDir) }, reserve: uint64(reserve) << 20,
		low: lasting.New(p.log, "the disk is nearly full: new runs are refused"),
	}
	d.look()
	p.metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "agentd_disk_free_bytes", Help: "Room on the disk with the SQLite database.",
		}, func() float64 { return float64(d.left.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "agentd_disk_low", Help: "1 while new runs are refused because the disk is nearly full.",
		}, func() float64 {
			if d.closed.Load() {
				return 1
			}
			return 0
		}))
	return d
}

// serve looks at the disk until ctx ends.
func (d *disk) serve(ctx context.Context) {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.look()
		}
	}
}

// look closes below the reserve, and opens again with a quarter more, so that it does
// not change its mind with every log file.
func (d *disk) look() {
	free, known := d.free()
	if !known {
		return
	}
	d.left.Store(free)
	switch {
	case free < d.reserve:
		d.closed.Store(true)
		d.low.Notice(slog.Uint64("free_mib", free>>20), slog.Uint64("reserve_mib", d.reserve>>20))
	case free >= d.reserve+d.reserve/4:
		if d.closed.Swap(false) {
			d.low.End()
		}
	}
}

// refuse returns the error of a run that begins while there is no room; nil otherwise.
func (d *disk) refuse() error {
	if d == nil || !d.closed.Load() {
		return nil
	}
	f := fault.New(fault.Unavailable, "DISK_LOW",
		"The server's disk is nearly full, and the rest is kept for runs that are under way. Retry later; the operator has to make room.")
	f.RetryAfter = time.Minute
	return f
}

// degraded returns what does not work, for the health of the service.
func (d *disk) degraded() []string {
	if d == nil || !d.closed.Load() {
		return nil
	}
	return []string{"disk_low"}
}
