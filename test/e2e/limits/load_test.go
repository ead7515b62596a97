package limits

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

const (
	mebi    = 1 << 20
	maxBody = 10 * mebi
	// mostMemory is what agentd may take at its peak, whatever is sent to it.
	mostMemory = 1024 * mebi
)

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most memory that the process ever had.
func peakMemory(p *apptest.Process) int {
	p.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Command.Process.Pid))
	if err != nil {
		p.T.Fatal(err)
	}
	match := highWater.FindSubmatch(status)
	if match == nil {
		p.T.Fatalf("no VmHWM in\n%s", status)
	}
	kilo, err := strconv.Atoi(string(match[1]))
	if err != nil {
		p.T.Fatal(err)
	}
	return kilo << 10
}

// checkResponsive fails if the process took more memory than it may.
func checkResponsive(p *apptest.Process, after string) {
	p.T.Helper()
	got := peakMemory(p)
	p.T.Logf("%d MiB at the peak, after %s", got/mebi, after)
	if got > mostMemory {
		p.T.Errorf("%d MiB at the peak, after %s", got/mebi, after)
	}
	if r := p.Do("GET", "/api/v1/me", nil); r.StatusCode != 200 {
		p.T.Errorf("after %s: %d %s", after, r.StatusCode, r.Body)
	}
}

// filled is a body of exactly 10 MiB: a beginning, many times an item, an end.
func filled(begin, item, end string) string {
	room := maxBody - len(begin) - len(end)
	n := room / len(item)
	body := begin + strings.Repeat(item, n-1) + strings.TrimSuffix(item, ",") + end
	return strings.Repeat(" ", maxBody-len(body)) + body
}

// numbered is the same with members k0 and so on.
func numbered(begin, end string) string {
	var b strings.Builder
	b.WriteString(begin)
	for i := 0; b.Len() < maxBody-40-len(end); i++ {
		fmt.Fprintf(&b, `"%d":0,`, i)
	}
	b.WriteString(`"k":0` + end)
	return b.String()
}

// sized is a request that is expected to be answered with one of some statuses.
type sized struct {
	path, body string
	statuses   []int
	headers    []string
}

// postAll sends many requests at once and checks every answer.
func postAll(p *apptest.Process, all []sized) {
	p.T.Helper()
	var wg sync.WaitGroup
	for _, one := range all {
		wg.Go(func() {
			r := postBody(p, one.path, strings.NewReader(one.body), one.headers...)
			switch {
			case r.Response == nil:
			case r.StatusCode == 503 && r.Header.Get("Retry-After") != "":
			case !slices.Contains(one.statuses, r.StatusCode):
				p.T.Errorf("%s %.60q: %d %.300s, want %v", one.path, one.body, r.StatusCode, r.Body, one.statuses)
			}
		})
	}
	wg.Wait()
}

// postBody sends a body as JSON, or as the headers say, and reads a little of the
// answer.
func postBody(p *apptest.Process, path string, body io.Reader, headers ...string) apptest.Reply {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(p.T.Context(), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", p.URL+path, body)
	if err != nil {
		p.T.Error(err)
		return apptest.Reply{}
	}
	req.Header.Set("Authorization", "Bearer "+p.Key)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := apptest.HTTPClient.Do(req)
	if err != nil {
		p.T.Errorf("%s was not answered: %v", path, err)
		return apptest.Reply{}
	}
	defer resp.Body.Close()
	out := apptest.Reply{Response: resp}
	if out.Body, err = io.ReadAll(io.LimitReader(resp.Body, mebi)); err != nil {
		p.T.Errorf("%s: %v", path, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // what was answered is looked at
	_ = json.Unmarshal(out.Body, &out.JSON)
	return out
}

// Twenty bodies at once, as large as they may be and of millions of tiny
// values, do not make agentd large, and each is answered.
func TestManyLargeBodies(t *testing.T) {
	t.Parallel()
	if os.Getenv("AGENTD_TEST_BURDEN") == "" {
		t.Skip("takes half a minute of a whole machine: set AGENTD_TEST_BURDEN")
	}
	p := apptest.BuildProcess(t, modeltest.New(t))
	p.Start()
	agent := p.CreateAgent(object{"model": apptest.EchoModel})
	run := `{"agent_id":"` + agent + `","input":{"message":"x","v":`
	chat := `{"model":"` + agent + `","messages":[`
	numbers, objects := filled(`{"name":"x","metadata":{"v":[`, "0,", `]}}`), numbered(`{"name":"x","metadata":{`, `}}`)
	nested := filled(`{"name":"x","metadata":{"v":[`, `[{}],`, `]}}`)
	inputs, deepInputs := filled(run+"[", "0,", `]}}`), filled(run+"[", `{"":[]},`, `]}}`)
	messages := filled(chat, `{"role":"user","content":"a"},`, `]}`)
	parts := filled(chat+`{"role":"user","content":[`, `{"type":"text","text":""},`, `]}]}`)
	history := filled(`{"agent_id":"`+agent+`","input":{"message":"x","history":[`, `{"role":"user","content":"a"},`, `]}}`)
	wrong := filled(chat, `0,`, `]}`)
	rpc := filled(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"message":"x","v":[`, `[],`, `]}}}`)
	taken, refused := []int{200, 201, 202}, []int{422}
	rounds := map[string][]sized{
		"agents": {{"/api/v1/agents", numbers, taken, nil}, {"/api/v1/agents", objects, taken, nil}, {"/api/v1/agents", nested, taken, nil}, {"/api/v1/commerce/customers", objects, taken, nil}},
		"runs":   {{"/api/v1/runs", inputs, taken, nil}, {"/api/v1/runs", deepInputs, taken, nil}, {"/api/v1/runs", history, refused, nil}},
		"chat": {
			{"/v1/chat/completions", messages, refused, nil}, {"/v1/chat/completions", parts, refused, nil}, {"/api/v1/mcp", rpc, taken, nil},
			{"/v1/chat/completions", wrong, refused, nil},
		},
	}
	for name, round := range rounds {
		var all []sized
		for len(all) < 20 {
			all = append(all, round[len(all)%len(round)])
		}
		begin := time.Now()
		postAll(p, all)
		checkResponsive(p, fmt.Sprintf("twenty bodies for %s, in %v", name, time.Since(begin).Round(time.Millisecond)))
	}
	// What was taken can be read again, by several at once.
	var wg sync.WaitGroup
	for _, path := range slices.Repeat([]string{"/api/v1/agents?limit=100", "/api/v1/runs?limit=100", "/api/v1/commerce/customers?limit=100"}, 4) {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), "GET", p.URL+path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+p.Key)
			resp, err := apptest.HTTPClient.Do(req)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return
			}
			defer resp.Body.Close()
			if n, err := io.Copy(io.Discard, resp.Body); resp.StatusCode != 200 || err != nil {
				t.Errorf("%s: %d, %d bytes, %v", path, resp.StatusCode, n, err)
			}
		})
	}
	wg.Wait()
	checkResponsive(p, "twelve lists of what was taken")
}

// What is small on the wire and large inside is refused before it is unpacked.
func TestBombs(t *testing.T) { // alone: what is still read of a refused body has five seconds
	if os.Getenv("AGENTD_TEST_BURDEN") == "" {
		t.Skip("burdens the whole machine: set AGENTD_TEST_BURDEN")
	}
	p := apptest.BuildProcess(t, modeltest.New(t))
	p.Start()
	agent := p.CreateAgent(object{"model": apptest.EchoModel})
	workspace := p.Expect(201, "POST", "/api/v1/workspaces", object{"name": "w"})["workspace_id"].(string)

	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.CopyN(w, zeros{}, 256*mebi); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	bomb := packed.String()
	var all []sized
	for _, path := range []string{"/api/v1/agents", "/api/v1/runs", "/v1/chat/completions", "/api/v1/mcp", "/api/v1/files"} {
		for _, encoding := range []string{"gzip", "deflate", "br", "gzip, gzip"} {
			all = append(all, sized{path, bomb, []int{415}, []string{"Content-Encoding", encoding}})
		}
	}
	all = append(all, sized{"/api/v1/files", bomb, []int{415}, []string{"Content-Encoding", "gzip", "Content-Type", "multipart/form-data; boundary=x"}})
	postAll(p, all)
	checkResponsive(p, "bodies that are packed")

	all = nil
	for _, nest := range []string{"[", `{"a":`, `[{"a":`} {
		for _, path := range []string{"/api/v1/agents", "/api/v1/runs", "/v1/chat/completions", "/api/v1/mcp"} {
			deep := `{"name":"x","metadata":` + strings.Repeat(nest, 100_000)
			deepest := filled(`{"agent_id":"`+agent+`","input":`, nest, "")
			all = append(all, sized{path, deep, []int{400}, nil}, sized{path, deepest, []int{400}, nil})
		}
	}
	postAll(p, all)
	checkResponsive(p, "bodies that are deep")

	form := []string{"Content-Type", "multipart/form-data; boundary=x"}
	part := "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n"
	file := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"
	refused := []int{400, 413, 415, 422}
	taken := []int{200, 201, 400, 413, 422}
	put := "/api/v1/workspaces/" + workspace + "/files?path=a"
	all = nil
	for _, body := range []string{
		strings.Repeat(part, 900_000) + "--x--\r\n",
		strings.Repeat("--x\r\n\r\n\r\n", 900_000) + "--x--\r\n",
		"--x\r\n" + strings.Repeat("A: b\r\n", mebi) + "\r\n",
		"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + strings.Repeat("a", 8*mebi) + "\"\r\n\r\nx\r\n--x--\r\n",
		"--x\r\n" + strings.Repeat("A", 8*mebi),
		strings.Repeat("\r\n", 4*mebi),
	} {
		all = append(all, slices.Repeat([]sized{{"/api/v1/files", body, refused, form}}, 3)...)
	}
	all = append(all, sized{"/api/v1/files", file + "x\r\n" + strings.Repeat(part, 800_000) + "--x--\r\n", taken, form})
	postAll(p, all)
	if r := p.Do("PUT", put, file+"x\r\n"+strings.Repeat(part, 800_000)+"--x--\r\n", form...); !slices.Contains(taken, r.StatusCode) {
		t.Errorf("a file among many parts: %d %s", r.StatusCode, r.Body)
	}
	checkResponsive(p, "forms of many parts")

	for name, header := range map[string]string{
		"long":  "X-Long: " + strings.Repeat("a", 80<<10) + "\r\n",
		"many":  strings.Repeat("X-A: b\r\n", 20_000),
		"names": strings.Repeat("A", 80<<10) + ": b\r\n",
		"line":  "",
	} {
		request := "GET /api/v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + p.Key + "\r\n" + header + "\r\n"
		if name == "line" {
			request = "GET /api/v1/me?" + strings.Repeat("a", 80<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n"
		}
		if status := sendOnWire(p, request); status != 431 {
			t.Errorf("%s: the answer to headers of more than 64 KiB is %d", name, status)
		}
	}
	checkResponsive(p, "large headers")
}

// zeros are endless.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// sendOnWire sends a request as it stands, and gives the status of the answer; 0:
// there was none.
func sendOnWire(p *apptest.Process, request string) int {
	p.T.Helper()
	conn, err := net.Dial("tcp", p.Address)
	if err != nil {
		p.T.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, request) // it may be refused before its end
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
