package contract

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

// noise returns n bytes, the same for the same seed.
func noise(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b) // it never fails
	return b
}

// shot is a request that a tape made, and what the caller said in it.
type shot struct {
	method, target, body string
	headers              []string
}

// shotFrom makes a request to an operation from a tape: a body by its schema or
// beside it, and path, query and headers alike.
func shotFrom(c *contracttest.Company, op *contracttest.Operation, s *tape) shot {
	k := callWithUnknownIDs(c, op)
	base, _ := k.Body.(object)
	made := shot{method: op.Method}
	if op.BodySchema != nil || op.Uploads != nil || s.choose(16) == 1 {
		made.headers = append(made.headers, "Content-Type", "application/json")
	}
	if op.BodySchema != nil {
		made.body = bodyFrom(c, op, s, base, s.choose(4) != 0)
	}
	if s.choose(4) == 1 {
		mutateParameters(c, op, s, k)
	}
	if slices.Contains(op.QueryParams, "timeout_sec") {
		k.Query.Set("timeout_sec", "1")
	}
	made.target = k.Target()
	for _, name := range append(slices.Clone(op.HeaderParams), "Idempotency-Key", "X-Request-Id", "Accept", "X-Active-Tenant", "Mcp-Protocol-Version", "Range", "If-Modified-Since") {
		if s.choose(12) == 1 {
			if v := headerValue(pick(s, append(slices.Clone(nasty), "0", "*", `"x"`, "bytes=0-0", "bytes=5-1", ident.New()+":1"))); v != "" {
				made.headers = append(made.headers, name, v)
			}
		}
	}
	if s.choose(6) == 1 {
		made.spoil(s)
	}
	return made
}

// callWithUnknownIDs is the call of an operation with things of the company that may be
// spoilt; of one for people, which needs more than things, with whatever.
func callWithUnknownIDs(c *contracttest.Company, op *contracttest.Operation) *contracttest.Call {
	if !op.NeedsPerson {
		return spareCall(c.OwnCall(op), c)
	}
	k := &contracttest.Call{Operation: op, Path: map[string]string{}, Query: url.Values{}}
	for _, p := range op.PathParams {
		k.Path[p] = ident.New()
	}
	return k
}

// expendableCompany returns the company with an additional key, for operations
// that end the key they are called with.
func expendableCompany(c *contracttest.Company, op *contracttest.Operation) *contracttest.Company {
	if !endsKeys[op.ID] {
		return c
	}
	other := *c
	other.Server = c.WithScopes("*")
	other.T = c.T
	return &other
}

// endsKeys are operations that end the key that they are called with.
var endsKeys = map[string]bool{"logout": true}

// mutateParameters mutates the path and the query.
func mutateParameters(c *contracttest.Company, op *contracttest.Operation, s *tape, k *contracttest.Call) {
	hostile := append(slices.Clone(nasty), raw...)
	for _, p := range op.PathParams {
		if s.choose(3) == 1 {
			if text := pick(s, hostile); text != "" { // another path
				k.Path[p] = text
			}
		}
	}
	for _, q := range op.QueryParams {
		switch schema := op.Resolve(op.QuerySchemas[q]); s.choose(4) {
		case 1:
			k.Query.Set(q, pick(s, hostile))
		case 2:
			w := &writer{tape: s, op: op, c: c, mutate: -1}
			w.value(schema, q, 1)
			k.Query.Set(q, strings.Trim(w.out.String(), `"`))
		case 3:
			k.Query[q] = []string{pick(s, hostile), pick(s, hostile)}
		}
	}
	if s.choose(8) == 1 {
		k.Query.Set(pick(s, hostile), pick(s, hostile))
	}
}

// headerValue is a text as a header can carry it.
func headerValue(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text[:min(len(text), 2000)]))
}

// spoil harms the bytes of a body, or what the headers say of it.
func (m *shot) spoil(s *tape) {
	b := []byte(m.body)
	switch s.choose(8) {
	case 0:
		b = b[:s.choose(len(b)+1)]
	case 1:
		if len(b) > 0 {
			b[s.choose(len(b))] ^= byte(1 << s.choose(8))
		}
	case 2:
		b = append(b, pick(s, raw)...)
	case 3:
		b = append([]byte("\xef\xbb\xbf"), b...)
	case 4:
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(b) // a buffer takes everything
		_ = w.Close()
		b = packed.Bytes()
		m.headers = append(m.headers, "Content-Encoding", "gzip")
	case 5:
		b = nil
	case 6:
		b = s.data
	default:
		m.headers = append(m.headers, "Content-Type", pick(s, []string{
			"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data", "application/json; charset=utf-16",
			"application/merge-patch+json", "application/octet-stream", "*/*", ";", "application/json, text/html",
		}))
	}
	m.body = string(b)
}

// asksModel reports whether an operation answers when a model has.
func asksModel(target string) bool {
	if strings.HasPrefix(target, "/api/v1/agents/") && strings.Contains(target, "/ui") {
		return true
	}
	for _, path := range []string{"/v1/chat/", "/v1/responses", "/v1/messages", "/agui/"} {
		if strings.HasPrefix(target, path) {
			return true
		}
	}
	return false
}

// fireAt sends a shot and reads the answer: of a stream that goes on, what comes
// in a moment. Of a chat whose model says nothing there is no answer.
func fireAt(c *contracttest.Company, m shot) apptest.Reply {
	c.T.Helper()
	patience, chat := 20*time.Second, asksModel(m.target)
	if chat {
		patience = 3 * time.Second
	}
	ctx, cancel := context.WithTimeout(c.T.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, m.method, c.URL+m.target, strings.NewReader(m.body))
	if err != nil {
		c.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.Key)
	for i := 0; i+1 < len(m.headers); i += 2 {
		req.Header.Set(m.headers[i], m.headers[i+1])
	}
	resp, err := keeping.Do(req)
	if chat && errors.Is(err, context.DeadlineExceeded) {
		return apptest.Reply{}
	}
	if err != nil {
		c.T.Fatal(err)
	}
	defer resp.Body.Close()
	out := apptest.Reply{Response: resp}
	if resp.StatusCode == 200 && resp.Header.Get("Content-Type") == "text/event-stream" {
		soon := time.AfterFunc(50*time.Millisecond, cancel)
		defer soon.Stop()
	}
	if out.Body, err = io.ReadAll(resp.Body); err != nil && !errors.Is(err, context.Canceled) {
		c.T.Fatal(err)
	}
	_ = json.Unmarshal(out.Body, &out.JSON) // it may be anything
	return out
}

// keeping keeps its connections, unlike client: a fuzzer would run out of ports.
var keeping = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 4, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// said is all that the caller said, as a leak is not what it said itself.
func (m shot) said() string {
	target, _ := url.QueryUnescape(m.target)
	return m.body + m.target + target + strings.Join(m.headers, " ")
}

// tryBytes fires what a tape makes of an operation, checks the answer and gives its
// status.
func tryBytes(c *contracttest.Company, op *contracttest.Operation, data []byte) int {
	c.T.Helper()
	m := shotFrom(c, op, &tape{data: data})
	r := fireAt(expendableCompany(c, op), m)
	if r.Response == nil {
		return 0
	}
	if checkAnswer(op, c.T, r, m.said()); c.T.Failed() {
		c.T.Fatalf("after %s %s\n%q\n%.2000q", m.method, m.target, m.headers, m.body)
	}
	return r.StatusCode
}

// Whatever is made of an operation's schema, the operation takes it or says
// what is wrong, on each database.
func TestMutatedBodies(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		c := contracttest.NewOwnCompany(t, n)
		for _, op := range contracttest.Operations(c.Server) {
			t.Run(op.TestName(), func(t *testing.T) {
				c := c.WithT(t)
				seed := fnv.New64a() // by its id, so that what is tried does not change with the operations before it
				_, _ = seed.Write([]byte(op.ID))
				rounds := 6
				if op.BodySchema != nil {
					rounds = 20
				}
				statuses := map[int]int{}
				alike := func() bool {
					refused := statuses[400] + statuses[413] + statuses[415] + statuses[422]
					return op.BodySchema != nil && (refused == 0 || refused == rounds)
				}
				// Chance may have all of the first bodies be refused, but not of many.
				for round := 0; round < rounds || alike() && rounds < 300; round++ {
					rounds = max(rounds, round+1)
					statuses[tryBytes(c, op, noise(seed.Sum64()+uint64(round), 400))]++
				}
				t.Log(statuses)
				if alike() {
					t.Errorf("all bodies alike were answered: %v", statuses)
				}
			})
		}
		keeping.CloseIdleConnections()
	})
}

// No bytes make an operation fail, or tell of our inside: the index is of the
// operation in the route table, the bytes are the choices of a generator that
// starts from what the operation publishes.
func FuzzOperations(f *testing.F) {
	apptest.SkipUnderRace(f)
	n := apptest.Start(f, modeltest.New(f, apptest.HangingModel), apptest.Embedding, apptest.WebSearch(f))
	c := contracttest.NewOwnCompany(f, n)
	operations := contracttest.Operations(c.Server)
	f.Cleanup(keeping.CloseIdleConnections)
	for i := range operations {
		for seed := range 3 {
			f.Add(uint16(i), noise(uint64(seed), 60*(seed+1)))
		}
	}
	f.Fuzz(func(t *testing.T, index uint16, data []byte) {
		tryBytes(c.WithT(t), operations[int(index)%len(operations)], data)
	})
}

// acceptable reports whether a status is a success that the operation publishes.
func acceptable(o *contracttest.Operation, status int) bool {
	_, published := o.AnswerSchemas[strconv.Itoa(status)]
	return o.Succeeds(status) || published && status < 400
}
