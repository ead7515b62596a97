package cli

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

type apiCommand struct {
	remote
	Method string   `arg:"" help:"Method: GET, POST, PUT, PATCH or DELETE."`
	Path   string   `arg:"" help:"Path, as /api/v1/agents?limit=5; agents?limit=5 is the same."`
	Data   string   `short:"d" xor:"body" placeholder:"JSON" help:"Body of the request; - is the standard input."`
	File   string   `xor:"body" placeholder:"FILE" help:"File with the body; - is the standard input."`
	Header []string `short:"H" sep:"none" placeholder:"NAME:VALUE" help:"Further header; repeat the flag for more."`
}

// Run implements the command. It prints what the server answers, also a refusal.
func (cmd *apiCommand) Run(s *server) error {
	method := strings.ToUpper(cmd.Method)
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return usageError("<method> is %q and must be GET, POST, PUT, PATCH or DELETE", cmd.Method)
	}
	path := cmd.Path
	if !strings.HasPrefix(path, "/") {
		path = "/api/v1/" + path
	}
	header := http.Header{}
	for _, h := range cmd.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return usageError("--header is %q and must be as 'Name: value'", h)
		}
		header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	body, err := cmd.body(s.invocation)
	if err != nil {
		return err
	}
	res, err := s.Send(s, method, path, body, header)
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Raw != nil {
		if printed := s.printJSON(p.Raw); printed != nil {
			return printed
		}
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		_, err := io.Copy(s.stdout, res.Body) // a stream, as it comes
		if s.Err() != nil {
			return nil
		}
		return err
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil || len(raw) == 0 {
		return err
	}
	return s.printJSON(jsontext.Value(raw))
}

// body returns what to send; nil: nothing.
func (cmd *apiCommand) body(inv *invocation) (io.Reader, error) {
	file := cmd.File
	if cmd.Data == "-" {
		file = "-"
	}
	switch {
	case file != "":
		raw, err := inv.readFile(file)
		return bytes.NewReader(raw), err
	case cmd.Data != "":
		return strings.NewReader(cmd.Data), nil
	}
	return nil, nil
}
