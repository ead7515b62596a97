package integration

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/tool"
)

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 256 << 10

// errUnauthorized means that the service refuses the credential.
var errUnauthorized = errors.New("integration: the service refuses the credential")

// reservedHeaders are headers that HTTP or agentd sets, which no operation may.
var reservedHeaders = []string{
	"accept-encoding", "authorization", "connection", "content-encoding", "content-length", "content-type", "cookie", "expect", "host",
	"idempotency-key", "keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
}

// validHeader reports whether an operation, or a credential, may use a header.
func validHeader(name string) bool {
	if name == "" || len(name) > 100 || slices.Contains(reservedHeaders, strings.ToLower(name)) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// request returns the call of an operation. A failed result is a mistake of the model.
func (c *call) request(base string, args map[string]jsontext.Value) (*Request, *tool.Result) {
	path, bad := c.path(args)
	if bad != nil {
		return nil, bad
	}
	query := url.Values{}
	for name, arg := range c.Query {
		if fixed, is := strings.CutPrefix(arg, "="); is {
			query.Set(name, fixed)
			continue
		}
		for _, value := range scalars(args[arg]) {
			query.Add(name, value)
		}
	}
	r := &Request{Method: c.Method, URL: strings.TrimRight(base, "/") + path, Header: map[string]string{}}
	if len(query) > 0 {
		r.URL += "?" + query.Encode()
	}
	for name, arg := range c.Header {
		value, fixed := strings.CutPrefix(arg, "=")
		if !fixed {
			value = strings.Join(scalars(args[arg]), ",")
		}
		if value != "" && printable(value) {
			r.Header[name] = value
		}
	}
	if len(c.Body) > 0 {
		body, err := fill(c.Body, args)
		if err != nil {
			res := tool.Failure("The arguments cannot be sent: " + err.Error() + ".")
			return nil, &res
		}
		if !body.empty || c.Body.Kind() == '{' {
			r.Body = body.value
		}
	}
	return r, nil
}

// path fills the path's placeholders. An argument never becomes more than one part of
// the path.
func (c *call) path(args map[string]jsontext.Value) (string, *tool.Result) {
	var b strings.Builder
	rest := c.Path
	for {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, remaining, _ := strings.Cut(after, "}")
		arg := name
		if c.Names[name] != "" {
			arg = c.Names[name]
		}
		value := strings.Join(scalars(args[arg]), ",")
		if value == "" || value == "." || value == ".." {
			res := tool.Failure(fmt.Sprintf("The argument %s must be a name or an id: it is a part of the address.", arg))
			return "", &res
		}
		b.WriteString(url.PathEscape(value))
		rest = remaining
	}
}

// scalars returns an argument as texts: none for null and absence, one for each item
// of an array. An object is its JSON.
func scalars(v jsontext.Value) []string {
	switch v.Kind() {
	case 0, 'n':
		return nil
	case '"':
		var s string
		if json.Unmarshal(v, &s) != nil {
			return nil
		}
		return []string{s}
	case '[':
		var items []jsontext.Value
		if json.Unmarshal(v, &items) != nil {
			return nil
		}
		var all []string
		for _, item := range items {
			all = append(all, scalars(item)...)
		}
		return all
	}
	return []string{string(v)}
}

// filled is a part of a template with its arguments.
type filled struct {
	value jsontext.Value
	holds bool // it has a place for an argument
	empty bool // and none of these arguments was given: the part is left out
}

// fill replaces each text "{name}" of a template by the argument. A part whose
// arguments are all absent is left out.
func fill(template jsontext.Value, args map[string]jsontext.Value) (filled, error) {
	switch template.Kind() {
	case '"':
		return fillText(template, args)
	case '{':
		return fillObject(template, args)
	case '[':
		return fillArray(template, args)
	}
	return filled{value: template}, nil
}

func fillText(template jsontext.Value, args map[string]jsontext.Value) (filled, error) {
	var text string
	if err := json.Unmarshal(template, &text); err != nil {
		return filled{}, err
	}
	if text == mailTemplate {
		email, err := rawMail(args)
		if err != nil {
			return filled{}, err
		}
		value, err := json.Marshal(email)
		return filled{value: value, holds: true}, err
	}
	name, opened := strings.CutPrefix(text, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !opened || !closed {
		return filled{value: template}, nil
	}
	value, has := args[name]
	return filled{value: value, holds: true, empty: !has || value.Kind() == 'n'}, nil
}

func fillObject(template jsontext.Value, args map[string]jsontext.Value) (filled, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(template, &members); err != nil {
		return filled{}, err
	}
	out, all := filled{empty: true}, map[string]jsontext.Value{}
	for name, member := range members {
		f, err := fill(member, args)
		if err != nil {
			return filled{}, err
		}
		out.holds = out.holds || f.holds
		if f.empty {
			continue
		}
		all[name] = f.value
		out.empty = out.empty && !f.holds
	}
	out.empty = out.empty && out.holds
	var err error
	out.value, err = json.Marshal(all, json.Deterministic(true))
	return out, err
}

func fillArray(template jsontext.Value, args map[string]jsontext.Value) (filled, error) {
	var items []jsontext.Value
	if err := json.Unmarshal(template, &items); err != nil {
		return filled{}, err
	}
	out, all := filled{empty: true}, []jsontext.Value{}
	for _, item := range items {
		f, err := fill(item, args)
		if err != nil {
			return filled{}, err
		}
		out.holds = out.holds || f.holds
		if f.empty {
			continue
		}
		all = append(all, f.value)
		out.empty = out.empty && !f.holds
	}
	out.empty = out.empty && out.holds
	var err error
	out.value, err = json.Marshal(all)
	return out, err
}

// mailTemplate stands for an email of the arguments to, subject and body, as the API of
// Gmail takes it.
const mailTemplate = "{!email}"

func rawMail(args map[string]jsontext.Value) (string, error) {
	field := func(name string) string { return strings.Join(scalars(args[name]), ", ") }
	for _, name := range []string{"to", "cc", "subject"} {
		if strings.ContainsAny(field(name), "\r\n") {
			return "", fmt.Errorf("%s must be one line", name)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "To: %s\r\n", field("to"))
	if cc := field("cc"); cc != "" {
		fmt.Fprintf(&b, "Cc: %s\r\n", cc)
	}
	fmt.Fprintf(&b, "Subject: =?utf-8?B?%s?=\r\n", base64.StdEncoding.EncodeToString([]byte(field("subject"))))
	b.WriteString("MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n")
	encoded := base64.StdEncoding.EncodeToString([]byte(field("body")))
	for len(encoded) > 76 {
		b.WriteString(encoded[:76] + "\r\n")
		encoded = encoded[76:]
	}
	b.WriteString(encoded + "\r\n")
	return base64.URLEncoding.EncodeToString([]byte(b.String())), nil
}

// do makes a call with the integration's credential. Errors: errUnauthorized; those of
// HTTP.
func (s *core) do(ctx context.Context, v *Integration, c *Connector, r *Request) (*Response, error) {
	ctx = authz.WithTenant(ctx, v.TenantID)
	header := map[string]string{"Accept": "application/json, text/*;q=0.9, */*;q=0.1", "User-Agent": "agentd"}
	maps.Copy(header, c.api.Header)
	maps.Copy(header, r.Header) // the operation's own
	r.Header = header
	if len(r.Body) > 0 {
		r.Header["Content-Type"] = "application/json"
	}
	if v.Account == "" {
		c.authorize(v.values(), r)
		resp, err := s.HTTP.Do(ctx, r, maxAnswer)
		if err == nil && resp.Status == 401 {
			return resp, errUnauthorized
		}
		return resp, err
	}
	rejected := ""
	for {
		token, err := s.vault.Token(ctx, v.TenantID, v.ID, mcp.Origin(r.URL), rejected)
		if errors.Is(err, mcp.ErrUnauthorized) || err == nil && token == "" {
			return nil, errUnauthorized
		}
		if err != nil {
			return nil, err
		}
		r.Header["Authorization"] = "Bearer " + token
		resp, err := s.HTTP.Do(ctx, r, maxAnswer)
		if err != nil || resp.Status != 401 {
			return resp, err
		}
		if rejected != "" {
			return resp, errUnauthorized
		}
		rejected = token
	}
}

// authorize adds the credential that the tenant stored.
func (c *Connector) authorize(values map[string]any, r *Request) {
	if c.ID == connectorHTTP {
		authorizeHTTP(values, r)
		return
	}
	if c.api.Basic != nil {
		r.Header["Authorization"] = basic(text(values[c.api.Basic[0]]), text(values[c.api.Basic[1]]))
		return
	}
	if key := text(values[c.api.Credential.Field]); key != "" {
		r.Header[c.api.Credential.Header] = c.api.Credential.Prefix + key
	}
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func authorizeHTTP(values map[string]any, r *Request) {
	key := text(values["api_key"])
	switch text(values["auth"]) {
	case "bearer":
		r.Header["Authorization"] = "Bearer " + key
	case "header":
		r.Header[text(values["auth_name"])] = key
	case "basic":
		r.Header["Authorization"] = basic(text(values["username"]), key)
	case "query":
		separator := "?"
		if strings.Contains(r.URL, "?") {
			separator = "&"
		}
		r.URL += separator + url.Values{text(values["auth_name"]): {key}}.Encode()
	}
}

// result returns an answer as the model receives it.
func (c *Connector) result(resp *Response) tool.Result {
	isJSON := resp.Type == "application/json" || strings.HasSuffix(resp.Type, "+json")
	body := resp.Body
	switch {
	case len(body) == 0:
		body = []byte("(The answer has no body.)")
	case !isJSON && !strings.HasPrefix(resp.Type, "text/") && !strings.HasSuffix(resp.Type, "+xml") && resp.Type != "application/xml":
		body = fmt.Appendf(nil, "(The answer is %d bytes of %.100q, which cannot be shown.)", len(body), resp.Type)
	}
	shown := strings.ToValidUTF8(string(body), "\ufffd")
	if resp.Status >= 400 {
		return tool.Failure(fmt.Sprintf("The service answered %d: %s", resp.Status, shown))
	}
	if isJSON && !resp.Cut {
		if failed, why := c.failed(resp.Body); failed {
			return tool.Failure("The service answered with a failure: " + why)
		}
	}
	if resp.Cut {
		shown += "\n(The answer is longer and was cut. Ask for less, such as a smaller page.)"
	}
	if next := nextPage(resp.Link); next != "" {
		shown += "\n(There are more. The next page: " + next + ")"
	}
	return tool.Result{Output: shown}
}

// failed reports whether an answer with a status of success is a failure, as some
// services have it.
func (c *Connector) failed(body []byte) (bool, string) {
	if c.api.OK == "" && c.api.Errors == "" {
		return false, ""
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(body, &members, lenient) != nil {
		return false, ""
	}
	if failure := members[c.api.Errors]; c.api.Errors != "" && failure != nil && failure.Kind() != 'n' {
		return true, string(failure)
	}
	if c.api.OK != "" && string(members[c.api.OK]) == "false" {
		return true, strings.Join(scalars(members[c.api.Message]), "")
	}
	return false, ""
}

// nextPage returns the query of the next page that a header Link names.
func nextPage(link string) string {
	for part := range strings.SplitSeq(link, ",") {
		address, params, _ := strings.Cut(part, ";")
		if !strings.Contains(params, `rel="next"`) && !strings.Contains(params, "rel=next") {
			continue
		}
		if u, err := url.Parse(strings.Trim(strings.TrimSpace(address), "<>")); err == nil && len(u.RawQuery) < 1000 {
			return u.RawQuery
		}
	}
	return ""
}

// retryable reports whether an operation may be called again after a crash.
func (o *Operation) retryable(v *Integration) bool {
	return o.Call.Idempotent || v.values()["honours_idempotency_keys"] == true
}

// callOperation calls an operation of an HTTP API.
func (s *Toolsets) callOperation(ctx context.Context, v *Integration, c *Connector, o *Operation, made *tool.Call) (tool.Result, error) {
	args := map[string]jsontext.Value{}
	if made.Arguments != "" {
		if err := json.Unmarshal([]byte(made.Arguments), &args); err != nil {
			return tool.Failure("The arguments are no JSON object."), nil
		}
	}
	r, bad := o.Call.request(c.baseURL(v), args)
	if bad != nil {
		return *bad, nil
	}
	if !o.ReadOnly && made.StepID != "" {
		r.Header["Idempotency-Key"] = made.StepID
	}
	resp, err := s.do(ctx, v, c, r)
	if err != nil {
		return tool.Result{}, err
	}
	res := c.result(resp)
	res.Sources = o.Call.Sources
	return res, nil
}

// baseURL returns where an integration's API is.
func (c *Connector) baseURL(v *Integration) string {
	base := text(v.values()["base_url"])
	if base == "" && c.api != nil {
		base = c.api.BaseURL
	}
	return base
}

// explain returns the sentence for people about a failed call.
func explain(v *Integration, err error) string {
	if errors.Is(err, errUnauthorized) {
		if v.Account != "" {
			return "The service no longer accepts the authorization: a person must authorize the integration again."
		}
		return "The service refuses the stored credential."
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "The service did not answer within " + strconv.Itoa(int(connectTimeout.Seconds())) + " seconds."
	}
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind != fault.Internal {
		return e.Detail
	}
	return "The service cannot be reached."
}
