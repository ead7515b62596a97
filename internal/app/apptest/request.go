package apptest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// Methods are the methods of the API.
var Methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

// Object is a JSON object of a request or an answer.
type Object = map[string]any

// Reply is an answer with its body read.
type Reply struct {
	*http.Response
	Body []byte
	JSON Object
}

// Value is the answer's JSON, where it may be null or an array.
func (r Reply) Value() any {
	if string(r.Body) == "null" {
		return nil
	}
	var list []any
	if len(r.Body) > 0 && r.Body[0] == '[' && json.Unmarshal(r.Body, &list) == nil {
		return list
	}
	return r.JSON
}

// HTTPClient opens a connection for each request.
var HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Do sends a request; body may be nil, a string that is sent as it is, or
// anything that becomes JSON.
func (n *Server) Do(method, path string, body any, headers ...string) Reply {
	n.T.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		enc, err := json.Marshal(b, json.Deterministic(true)) // so that what is sent again is the same
		if err != nil {
			n.T.Fatal(err)
		}
		r = bytes.NewReader(enc)
	}
	req, err := http.NewRequestWithContext(n.T.Context(), method, n.URL+path, r)
	if err != nil {
		n.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.Key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	n.setAddress(req)
	resp, err := HTTPClient.Do(req)
	if err != nil {
		n.T.Fatal(err)
	}
	defer resp.Body.Close()
	out := Reply{Response: resp}
	if out.Body, err = readBody(resp); err != nil {
		n.T.Fatal(err)
	}
	_ = json.Unmarshal(out.Body, &out.JSON) // streams and empty bodies are no JSON
	return out
}

// readBody reads an answer; of a stream that has no end, what comes up to its frame
// "ready" or "connected".
func readBody(resp *http.Response) (all []byte, err error) {
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		return io.ReadAll(resp.Body)
	}
	lines, ready := bufio.NewReader(resp.Body), false
	for {
		line, err := lines.ReadBytes('\n')
		all = append(all, line...)
		switch {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return all, err
		case string(line) == "event: ready\n" || string(line) == "event: connected\n":
			ready = true
		case ready && string(line) == "\n":
			return all, nil
		}
	}
}

// Expect is do that must answer with a status.
func (n *Server) Expect(status int, method, path string, body any, headers ...string) Object {
	n.T.Helper()
	r := n.Do(method, path, body, headers...)
	if r.StatusCode != status {
		n.T.Fatalf("%s %s: %d, want %d: %s", method, path, r.StatusCode, status, r.Body)
	}
	return r.JSON
}

// SendHeaders makes a request with exactly these headers: no key unless one is
// given, and a name may come twice.
func (n *Server) SendHeaders(method, target, body string, headers ...string) Reply {
	n.T.Helper()
	req, err := http.NewRequestWithContext(n.T.Context(), method, n.URL+target, strings.NewReader(body))
	if err != nil {
		n.T.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	n.setAddress(req)
	resp, err := HTTPClient.Do(req)
	if err != nil {
		n.T.Fatal(err)
	}
	defer resp.Body.Close()
	out := Reply{Response: resp}
	if out.Body, err = io.ReadAll(resp.Body); err != nil {
		n.T.Fatal(err)
	}
	_ = json.Unmarshal(out.Body, &out.JSON)
	return out
}

// SendBytes sends a request as it stands and reads the answer.
func (n *Server) SendBytes(method, request string) Reply {
	n.T.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL, "http://"))
	if err != nil {
		n.T.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		n.T.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method, URL: &url.URL{Path: "/"}})
	if err != nil {
		n.T.Fatal(err)
	}
	defer resp.Body.Close()
	out := Reply{Response: resp}
	if out.Body, err = io.ReadAll(resp.Body); err != nil {
		n.T.Fatal(err)
	}
	_ = json.Unmarshal(out.Body, &out.JSON)
	return out
}

// IsProblem fails the test unless the reply is this problem document.
func (r Reply) IsProblem(t testing.TB, status int, code string) {
	t.Helper()
	if r.StatusCode != status || r.JSON["code"] != code {
		t.Errorf("%d %s, want %d %s", r.StatusCode, r.Body, status, code)
	}
}
