package live

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/resource"
)

// committed is a transaction that commits at once.
type committed struct{}

func (committed) Context() context.Context { return context.Background() }
func (committed) AfterCommit(hint func())  { hint() }

// bench is a service over things in memory.
type bench struct {
	*Service
	t     *testing.T
	hub   *event.Hub
	mu    sync.Mutex
	rows  map[string]int // the thing's number, by its id
	reads int
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, hub: event.NewHub(), rows: map[string]int{}}
	thing := Source{Kind: "thing", Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}}, Row: b.row}
	secret := Source{Kind: "secret", Readers: resource.Access{Scopes: []authz.Scope{"admin"}, Role: authz.Admin}, Row: b.row}
	b.Service = New(Deps{
		Hub: b.hub, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), Sources: []Source{thing, secret, {Kind: "run", Readers: thing.Readers, Row: b.row}},
		Counters: []Counter{{Name: "things", Kinds: []string{"thing"}, Count: func(context.Context, string, string) (any, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.rows), nil
		}}},
		Runs: b, Sessions: nobody{},
	})
	return b
}

func (b *bench) row(_ context.Context, tenant, id string) (jsontext.Value, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	n, ok := b.rows[tenant+"/"+id]
	if !ok {
		return nil, 0, fault.NewNotFound("thing")
	}
	return jsontext.Value(fmt.Sprintf(`{"n":%d}`, n)), int64(n), nil
}

// set changes a thing and announces it.
func (b *bench) set(id string, n int) { b.setOf("acme", "thing", id, n) }

func (b *bench) setOf(tenant, kind, id string, n int) {
	b.mu.Lock()
	b.rows[tenant+"/"+id] = n
	b.mu.Unlock()
	Announcer{b.hub}.Tx(committed{}, tenant, Change{Kind: kind, ID: id, Op: Updated})
}

// Stream is a run whose only event is said at once.
func (b *bench) Stream(_ context.Context, _, id, after string) (iter.Seq2[route.Frame, error], error) {
	return func(yield func(route.Frame, error) bool) {
		if yield(route.Frame{ID: "1", Name: "run.started", Data: []byte(`{"run_id":"` + id + `","after":"` + after + `"}`)}, nil) {
			yield(route.Frame{Data: []byte("[DONE]")}, nil)
		}
	}, nil
}

func (b *bench) Children(context.Context, string, string) ([]string, error) { return nil, nil }

func (b *bench) PendingApprovals(context.Context, string, string) ([]string, error) { return nil, nil }

type nobody struct{}

func (nobody) Stream(context.Context, string, string, string) (iter.Seq2[route.Frame, error], error) {
	return nil, fault.NewNotFound("session")
}

var developer = authz.Caller{TenantID: "acme", UserID: "ann", Role: authz.Developer, Scopes: []authz.Scope{"agents:read", "runs:read"}}

// read opens a stream and collects its frames until stop.
func (b *bench) read(who authz.Caller, in streamIn) (frames func() []string, stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	seq, err := b.open(ctx, who, &in)
	if err != nil {
		b.t.Fatal(err)
	}
	var mu sync.Mutex
	var all []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for f := range seq {
			mu.Lock()
			all = append(all, f.ID+" "+f.Name+" "+string(f.Data))
			mu.Unlock()
		}
	}()
	synctest.Wait()
	return func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}, func() {
			cancel()
			<-done
		}
}

// named returns the data of the frames of a name.
func named(frames []string, name string) (out []map[string]any) {
	for _, f := range frames {
		if _, rest, _ := strings.Cut(f, " "); strings.HasPrefix(rest, name+" ") {
			var data map[string]any
			_ = json.Unmarshal([]byte(strings.TrimPrefix(rest, name+" ")), &data)
			out = append(out, data)
		}
	}
	return out
}

func bubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.Stop()
		test(t, b)
	})
}

// TestChangesAreShown sends each change once, with its row and for all readers with one
// read, and not to other companies.
func TestChangesAreShown(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.set("before", 1)
		one, stopOne := b.read(developer, streamIn{})
		two, stopTwo := b.read(developer, streamIn{Kinds: "thing"})
		other, stopOther := b.read(authz.Caller{TenantID: "other", Scopes: developer.Scopes}, streamIn{})
		b.set("a", 7)
		time.Sleep(time.Second)
		Announcer{b.hub}.Tx(committed{}, "acme", Change{Kind: "thing", ID: "a", Op: Deleted})
		b.setOf("acme", "secret", "s", 1)
		b.setOf("acme", "unheard of", "u", 1)
		time.Sleep(2 * time.Second)
		for _, frames := range [][]string{one(), two()} {
			got := named(frames, "changed")
			if len(got) != 2 || got[0]["id"] != "a" || got[0]["version"] != 7.0 || got[0]["row"].(map[string]any)["n"] != 7.0 ||
				got[1]["op"] != "deleted" || got[1]["row"] != nil {
				t.Error(got)
			}
		}
		if got := named(other(), "changed"); got != nil {
			t.Errorf("another company is sent %v", got)
		}
		if b.reads != 2 { // a, and the secret, which nobody saw
			t.Errorf("%d reads", b.reads)
		}
		stopOne()
		stopTwo()
		stopOther()
	})
}

// TestFramesOfOneThingAreBounded sends at most four frames a second of one thing, and its
// last state.
func TestFramesOfOneThingAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		frames, stop := b.read(developer, streamIn{})
		defer stop()
		for n := range 1000 {
			b.set("busy", n+1)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		got := named(frames(), "changed")
		if len(got) < 4 || len(got) > 6 || got[len(got)-1]["version"] != 1000.0 {
			t.Errorf("%d frames, the last one %v", len(got), got[len(got)-1])
		}
		counts := named(frames(), "counts")
		if len(counts) != 2 || counts[0]["things"] != 0.0 || counts[1]["things"] != 1.0 {
			t.Error(counts)
		}
	})
}

// TestResume goes on where a page was, on this node and after another one, for a minute.
func TestResume(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		first, stop := b.read(developer, streamIn{})
		time.Sleep(2 * skew)
		b.set("a", 1)
		time.Sleep(time.Second)
		last, _, _ := strings.Cut(first()[len(first())-1], " ")
		if last == "" { // counts have no id
			last, _, _ = strings.Cut(first()[len(first())-2], " ")
		}
		stop()
		b.set("b", 2)
		time.Sleep(time.Second)
		for _, id := range []string{last, strings.Split(last, "-")[0]} {
			frames, stop := b.read(developer, streamIn{LastEventID: id})
			got := named(frames(), "changed")
			if len(got) == 0 || got[len(got)-1]["id"] != "b" || named(frames(), "gap") != nil {
				t.Errorf("after %s: %v", id, frames())
			}
			if strings.Contains(id, "-") && len(got) != 1 {
				t.Errorf("repeated: %v", got)
			}
			stop()
		}
		for _, id := range []string{"1", "nonsense", "-", "99999999999999999999", strings.Repeat("1", 100)} {
			frames, stop := b.read(developer, streamIn{LastEventID: id})
			if got := named(frames(), "gap"); len(got) != 1 {
				t.Errorf("after %q: %v", id, frames())
			}
			stop()
		}
		time.Sleep(2 * lingers)
		synctest.Wait()
		if len(b.rooms) != 0 {
			t.Error("the room of a company without readers stays")
		}
		frames, stop := b.read(developer, streamIn{LastEventID: last})
		if got := named(frames(), "gap"); len(got) != 1 {
			t.Errorf("after the room is gone: %v", frames())
		}
		stop()
	})
}

// TestLossesAreGaps says where changes are missing: after a loss between nodes, and for
// a reader who is too slow.
func TestLossesAreGaps(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		frames, stop := b.read(developer, streamIn{})
		defer stop()
		b.hub.Resync()
		if got := named(frames(), "gap"); len(got) != 1 {
			t.Error(frames())
		}
		r := b.rooms["acme"]
		at := r.last()
		for n := range maxEntries + 1 {
			r.append(entry{kind: "thing", id: fmt.Sprint(n)})
		}
		if _, _, known := r.after(at); known || len(r.entries) != maxEntries {
			t.Errorf("a reader misses entries without a gap, of %d", len(r.entries))
		}
		b.hub.Publish(event.Batch{Stream: StreamName("acme"), Events: make([]event.Event, 2000)}) // more than its queue holds
		if got := named(frames(), "gap"); len(got) < 2 {
			t.Error("a flood left no gap")
		}
		b.set("later", 1)
		if got := named(frames(), "changed"); len(got) != 1 || got[0]["id"] != "later" {
			t.Errorf("after a flood: %v", got)
		}
	})
}

// TestPersonalChanges are sent to their person alone.
func TestPersonalChanges(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ann, stopAnn := b.read(developer, streamIn{})
		bob := developer
		bob.UserID = "bob"
		his, stopBob := b.read(bob, streamIn{})
		Announcer{b.hub}.Tx(committed{}, "acme", Change{Kind: "thing", ID: "p", Op: Created, User: "bob", Row: jsontext.Value(`{"n":1}`)})
		if got := named(ann(), "changed"); got != nil {
			t.Error(got)
		}
		if got := named(his(), "changed"); len(got) != 1 {
			t.Error(got)
		}
		stopAnn()
		stopBob()
	})
}

// TestFollow adds the events of runs, and of the runs that they start.
func TestFollow(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		run, child := ident.New(), ident.New()
		b.rows["acme/"+run] = 1
		frames, stop := b.read(developer, streamIn{Kinds: "none", Follow: "run:" + run + "@latest"})
		b.mu.Lock()
		b.rows["acme/"+child] = 1
		b.mu.Unlock()
		Announcer{b.hub}.Tx(committed{}, "acme", Change{Kind: "run", ID: child, Op: Updated, Parent: run})
		got := named(frames(), "run.started")
		if len(got) != 2 || got[0]["run_id"] != run || got[0]["after"] != "latest" || got[1]["run_id"] != child || named(frames(), "changed") != nil {
			t.Error(frames())
		}
		if strings.Contains(strings.Join(frames(), "\n"), "1 run.started") {
			t.Error("an event has an id of another stream")
		}
		stop()
	})
}

// TestWhatCannotBeStreamed refuses unknown kinds, kinds without the scope, and what is
// followed and does not exist.
func TestWhatCannotBeStreamed(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		id := ident.New()
		many := strings.Repeat("run:"+id+"@x,", 1) + "bridge:" + id
		for name, c := range map[string]struct {
			who  authz.Caller
			in   streamIn
			kind fault.Kind
		}{
			"unknown kind":   {developer, streamIn{Kinds: "thing,gadget"}, fault.Malformed},
			"without scope":  {developer, streamIn{Kinds: "secret"}, fault.Forbidden},
			"nothing at all": {authz.Caller{TenantID: "acme"}, streamIn{}, fault.Forbidden},
			"unknown run":    {developer, streamIn{Follow: "run:" + id}, fault.NotFound},
			"no id":          {developer, streamIn{Follow: "run:x"}, fault.NotFound},
			"session":        {developer, streamIn{Follow: "session:" + id}, fault.Forbidden},
			"not a target":   {developer, streamIn{Follow: many}, fault.Malformed},
		} {
			if _, err := b.open(t.Context(), c.who, &c.in); !fault.Is(err, c.kind) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestQuietWithoutReaders announces nothing where nobody listens.
func TestQuietWithoutReaders(t *testing.T) { //nolint:paralleltest // it counts allocations
	hub := event.NewHub()
	a := Announcer{hub}
	if n := testing.AllocsPerRun(100, func() { a.Tx(refusing{t}, "acme", Change{Kind: "run", ID: "1", Op: Updated}) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	Announcer{}.Tx(refusing{t}, "acme", Change{})
}

// refusing is a transaction that nothing may be hung on.
type refusing struct{ t *testing.T }

func (r refusing) Context() context.Context { return context.Background() }
func (r refusing) AfterCommit(func()) {
	r.t.Error("something is added to a commit that nobody looks at")
}

func FuzzFollow(f *testing.F) {
	f.Add("run:01a208c9-3505-7384-a98b-09054314b31a@42,session:01a208c9-3505-7384-a98b-09054314b31a")
	f.Fuzz(func(t *testing.T, list string) {
		all, err := parseFollow(list)
		if err == nil && len(all) > maxFollowed {
			t.Errorf("%d targets", len(all))
		}
	})
}
