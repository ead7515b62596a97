// Package costs counts what requests cost the database, so that a change that makes
// every run dearer shows in its diff.
package costs

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/goldentest"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb"
)

// repeats is how often in a row a request must have cost no less than the least before.
// What counts is the least of each line, so that work in the background is not counted by
// chance.
const repeats = 40

// background are the functions whose statements are not counted: they are sent when
// their time has come, or as often as a client waits. Those of kernel/work are left out
// by sender, since it also runs what is a request's.
var background = []string{
	"execution/run.(*Service).wait", "content/search.", "delivery/webhook.", "delivery/notification.", "kernel/resource.(*Subscribers).Deliver",
}

type object = apptest.Object

// costs are what requests cost: how often, by who sent what to which table.
type costs map[string]int

// recorder collects what is sent to a database.
type recorder struct {
	mu           sync.Mutex
	statements   costs
	transactions map[*sqldb.Tx]bool
	bytes        int
}

func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements, r.transactions, r.bytes = costs{}, map[*sqldb.Tx]bool{}, 0
}

// sent is called with every statement, by whoever sends it.
func (r *recorder) sent(s sqldb.Sent) {
	from, ok := sender()
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	verb, table := verbAndTable(s.Text)
	r.statements[fmt.Sprintf("%s: %s %s", from, verb, table)]++
	if s.Tx != nil {
		r.transactions[s.Tx] = true
	}
	if verb != "SELECT" {
		r.bytes += size(s.Args)
	}
}

// counted returns the costs since the last reset, and the bytes that were written.
func (r *recorder) counted() (costs, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := maps.Clone(r.statements)
	c["transactions"] = len(r.transactions)
	return c, r.bytes
}

// sender returns the package that a statement is sent for, the nearest that is not part
// of the storage, and false for what is sent in the background.
func sender() (from string, ok bool) {
	var pcs [100]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		name, ours := strings.CutPrefix(frame.Function, "agentd/internal/")
		if !ours {
			continue
		}
		if slices.ContainsFunc(background, func(p string) bool { return strings.HasPrefix(name, p) }) {
			return "", false
		}
		pkg := name[:strings.IndexAny(name+".", ".[")]
		if from == "" && !strings.HasPrefix(pkg, "store/") && !strings.HasPrefix(pkg, "base/") && !strings.HasSuffix(pkg, "sql") {
			from = pkg
		}
	}
	return from, from != "" && from != "kernel/work" && from != "app"
}

var tableOf = regexp.MustCompile(`(?is)\b(?:INTO|FROM|UPDATE)\s+(\w+)`)

// inner matches what is in parentheses, such as another query.
var inner = regexp.MustCompile(`\([^()]*\)`)

func verbAndTable(text string) (verb, table string) {
	verb = strings.ToUpper(strings.Fields(text)[0])
	for inner.MatchString(text) {
		text = inner.ReplaceAllString(text, "")
	}
	if m := tableOf.FindStringSubmatch(text); m != nil {
		table = m[1]
	}
	return verb, table
}

// size returns about how many bytes arguments are.
func size(args []any) (n int) {
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		case nil:
		default:
			n += 8
		}
	}
	return n
}

// tolerated is how much bytes and allocations may differ from the ledger, in percent:
// times have more or fewer digits, and allocations depend on what is at hand.
const tolerated = 30

// TestCosts compares what one run, one chat, one creation and one list cost with the
// ledger. Whoever changes it looks at the difference: is it worth that for each of them?
func TestCosts(t *testing.T) { // not parallel: allocations are the process's
	apptest.SkipUnderRace(t) // which allocates, too
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			var r recorder
			r.reset()
			sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "A short answer."}))
			n := apptest.StartRecording(t, r.sent, sim, apptest.OnEngine(t, engine))
			agent := n.Expect(http.StatusCreated, http.MethodPost, "/api/v1/agents", object{"name": "Ledger agent"})["agent_id"].(string)
			var out bytes.Buffer
			for _, c := range []struct {
				name string
				ask  func()
			}{
				{"a run", func() {
					made := n.Expect(http.StatusAccepted, http.MethodPost, "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "Hello."}})
					n.Expect(http.StatusOK, http.MethodGet, "/api/v1/runs/"+made["run_id"].(string)+"/wait", nil)
				}},
				{"a chat completion", func() {
					n.Expect(http.StatusOK, http.MethodPost, "/v1/chat/completions",
						object{"model": agent, "messages": []object{{"role": "user", "content": "Hello."}}})
				}},
				{"a creation of an agent", func() {
					n.Expect(http.StatusCreated, http.MethodPost, "/api/v1/agents", object{"name": "Ledger agent"})
				}},
				{"a list of 20 runs", func() { n.Expect(http.StatusOK, http.MethodGet, "/api/v1/runs?limit=20", nil) }},
			} {
				least, written, allocated := r.least(c.ask)
				fmt.Fprintf(&out, "# %s\n", c.name)
				for _, line := range slices.Sorted(maps.Keys(least)) {
					fmt.Fprintf(&out, "%s: %d\n", line, least[line])
				}
				fmt.Fprintf(&out, "bytes sent to be written, about: %d\nallocations, about: %d\n\n", written, allocated)
			}
			goldentest.Check(t, "testdata/"+string(engine)+".txt", near(t, "testdata/"+string(engine)+".txt", out.Bytes()))
		})
	}
}

// settle waits until what the last request left to the background is done, as far as
// allocations show it.
func settle() {
	var before, after runtime.MemStats
	for range 50 {
		runtime.ReadMemStats(&before)
		time.Sleep(2 * time.Millisecond)
		runtime.ReadMemStats(&after)
		if after.Mallocs-before.Mallocs < 50 {
			return
		}
	}
}

// least repeats a request and returns the least that it cost.
func (r *recorder) least(request func()) (least costs, written, allocated int) {
	var before, after runtime.MemStats
	for since := -1; since < repeats; since++ {
		settle()
		r.reset()
		runtime.ReadMemStats(&before)
		request()
		runtime.ReadMemStats(&after)
		c, b := r.counted()
		a := int(after.Mallocs - before.Mallocs)
		if since < 0 {
			continue // what is prepared once
		}
		if least == nil {
			least, written, allocated = c, b, a
			continue
		}
		maps.DeleteFunc(least, func(line string, _ int) bool { return c[line] == 0 })
		for line := range least {
			least[line] = min(least[line], c[line])
		}
		if a < allocated {
			since = 0
		}
		written, allocated = min(written, b), min(allocated, a)
	}
	return least, written, allocated
}

var about = regexp.MustCompile(`(?m)^(.*, about): (\d+)$`)

// near returns a ledger with the figures of the one that is stored where they are within
// what is tolerated.
func near(t *testing.T, path string, got []byte) []byte {
	t.Helper()
	stored, err := os.ReadFile(path)
	if err != nil {
		return got
	}
	old := about.FindAllSubmatch(stored, -1)
	i := -1
	return about.ReplaceAllFunc(got, func(line []byte) []byte {
		i++
		if i >= len(old) {
			return line
		}
		was, _ := strconv.Atoi(string(old[i][2]))
		is, _ := strconv.Atoi(string(about.FindSubmatch(line)[2]))
		if 100*max(was-is, is-was) > tolerated*was {
			return line
		}
		return old[i][0]
	})
}
