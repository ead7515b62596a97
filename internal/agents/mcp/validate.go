package mcp

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentd/internal/base/fault"
)

// Limits of a server's configuration.
const (
	maxArgs     = 64
	maxArgBytes = 4096
	maxEnv      = 64
	maxEnvBytes = 32 << 10
	maxAssigned = 200
	maxEgress   = 50
)

var (
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	keyRef     = regexp.MustCompile(`^MCP_[A-Za-z0-9_]{1,124}$`)
	headerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	hostRule   = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9._:-]*[A-Za-z0-9_])?$`)
)

// fieldErrors collects invalid fields.
type fieldErrors []fault.Field

func (c *fieldErrors) add(field, format string, args ...any) {
	*c = append(*c, fault.Field{Field: field, Message: fmt.Sprintf(format, args...)})
}

// validator checks the configuration of servers.
type validator struct {
	commands map[string]Command
	checkURL func(url string) error
}

// validate returns the invalid fields of a server.
func (r *validator) validate(v *Server) []fault.Field {
	var c fieldErrors
	if strings.TrimSpace(v.Name) == "" {
		c.add("name", "must not be blank")
	}
	if v.Transport == STDIO {
		r.checkCommand(&c, v)
	} else {
		r.checkHTTP(&c, v)
	}
	checkEnv(&c, v.env())
	checkKeyRef(&c, v.APIKeyRef)
	checkAuth(&c, v)
	if len(v.Assigned) > maxAssigned {
		c.add("assigned_agent_ids", "at most %d agents", maxAssigned)
	}
	return c
}

func (r *validator) checkCommand(c *fieldErrors, v *Server) {
	command, ok := r.commands[v.Command]
	switch {
	case len(r.commands) == 0:
		c.add("transport", "stdio servers are not allowed on this deployment; the operator can allow commands with AGENTD_MCP_STDIO")
	case v.Command == "":
		c.add("command", "required for the transport stdio")
	case !ok:
		c.add("command", "the operator does not allow this command; AGENTD_MCP_STDIO and AGENTD_MCP_STDIO_COMMANDS list the allowed ones")
	}
	if v.URL != "" {
		c.add("url", "not allowed for a stdio server")
	}
	if len(v.Args) > maxArgs {
		c.add("args", "at most %d arguments", maxArgs)
	}
	for i, arg := range v.Args {
		switch at := "args[" + strconv.Itoa(i) + "]"; {
		case len(arg) > maxArgBytes || strings.Contains(arg, "\x00"):
			c.add(at, "at most %d bytes, without NUL", maxArgBytes)
		case ok && !command.AllowsArg(arg):
			c.add(at, "the operator does not let tenants pass this argument to the command (tenant_args of AGENTD_MCP_STDIO_COMMANDS)")
		}
	}
	if len(v.Egress) > 0 {
		c.add("egress_allowlist", "not supported for a stdio server: the network access of a process cannot be limited here")
	}
	if ok {
		checkVariables(c, command, v)
	}
}

// checkVariables refuses the variables that the operator did not name, because a
// variable can make a program run other code: shells, loaders and interpreters
// read many, and no list of them is complete.
func checkVariables(c *fieldErrors, command Command, v *Server) {
	const refused = "%s: the operator does not let tenants set this variable of the command (tenant_env of AGENTD_MCP_STDIO_COMMANDS)"
	for _, name := range slices.Sorted(maps.Keys(v.env())) {
		if envName.MatchString(name) && !command.AllowsVariable(name) {
			c.add("env", refused, name)
		}
	}
	if name := v.Auth.EnvKey; name != "" && !command.AllowsVariable(name) {
		c.add("auth.env_key", refused, name)
	}
}

func (r *validator) checkHTTP(c *fieldErrors, v *Server) {
	if v.Command != "" || len(v.Args) > 0 {
		c.add("command", "command and args are only for a stdio server")
	}
	if v.URL == "" {
		c.add("url", "required for the transport %s", v.Transport)
		return
	}
	if err := r.checkURL(v.URL); err != nil {
		c.add("url", "%s", fault.From(err).Detail)
		return
	}
	checkEgress(c, v.URL, v.Egress)
}

func checkEgress(c *fieldErrors, target string, rules []Egress) {
	if len(rules) > maxEgress {
		c.add("egress_allowlist", "at most %d rules", maxEgress)
		return
	}
	valid := true
	for i, rule := range rules {
		if !hostRule.MatchString(rule.HostPattern) {
			c.add(fmt.Sprintf("egress_allowlist[%d].host_pattern", i), "expected a host, or *. and a domain")
			valid = false
		}
	}
	if len(rules) > 0 && valid && !allowed(target, rules) {
		c.add("url", "no rule in egress_allowlist allows it")
	}
}

// allowed reports whether a rule matches a URL.
func allowed(target string, rules []Egress) bool {
	u, err := url.Parse(target)
	if err != nil {
		return false
	}
	host, port := strings.ToLower(u.Hostname()), portOf(u)
	return slices.ContainsFunc(rules, func(r Egress) bool {
		scheme, ports := r.Protocol, r.Ports
		if scheme == "" {
			scheme = "https"
		}
		if len(ports) == 0 {
			ports = []int{443}
		}
		pattern := strings.ToLower(r.HostPattern)
		below, wild := strings.CutPrefix(pattern, "*")
		match := host == pattern || wild && strings.HasSuffix(host, below)
		return match && scheme == u.Scheme && slices.Contains(ports, port)
	})
}

func portOf(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

// origin returns what a secret is bound to: scheme, host and port.
func origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || raw == "" {
		return raw
	}
	return fmt.Sprintf("%s://%s:%d", u.Scheme, strings.ToLower(u.Hostname()), portOf(u))
}

func checkEnv(c *fieldErrors, env map[string]string) {
	if len(env) > maxEnv {
		c.add("env", "at most %d variables", maxEnv)
		return
	}
	for name, value := range env {
		switch {
		case !envName.MatchString(name):
			c.add("env", "a variable name must consist of letters, digits and _, and not begin with a digit")
		case len(value) > maxEnvBytes || strings.Contains(value, "\x00"):
			c.add("env", "the value of %s: at most %d bytes, without NUL", name, maxEnvBytes)
		}
	}
}

func checkKeyRef(c *fieldErrors, ref string) {
	if ref != "" && !keyRef.MatchString(ref) {
		c.add("api_key_ref", "expected the name of a variable, not the secret: MCP_ followed by letters, digits and _")
	}
}

// reservedHeaders are headers that HTTP and MCP use themselves.
var reservedHeaders = []string{
	"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host", "keep-alive", "last-event-id",
	"mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
}

func checkAuth(c *fieldErrors, v *Server) {
	if v.Transport == STDIO {
		checkStdioAuth(c, &v.Auth)
	}
	checkAuthHeader(c, &v.Auth)
	checkSecrets(c, v)
	checkClient(c, v)
}

func checkStdioAuth(c *fieldErrors, a *Auth) {
	if a.Type == authBearer || a.Type == authOAuth {
		c.add("auth.type", "a stdio server gets its secret in a variable: use api_key with env_key")
	}
	if a.Type == authAPIKey && !envName.MatchString(a.EnvKey) {
		c.add("auth.env_key", "required for the api_key of a stdio server: the name of a variable")
	}
}

func checkAuthHeader(c *fieldErrors, a *Auth) {
	if a.Header != "" && (!headerName.MatchString(a.Header) || slices.Contains(reservedHeaders, strings.ToLower(a.Header))) {
		c.add("auth.header", "not a header that can carry a secret")
	}
	if len(a.Prefix) > 64 || !printable(a.Prefix) {
		c.add("auth.prefix", "at most 64 printable characters")
	}
}

func checkSecrets(c *fieldErrors, v *Server) {
	if !printable(v.Secret) {
		c.add("auth.secret", "only printable ASCII characters can be sent in a header")
	}
	if !printable(v.Auth.ClientID) {
		c.add("auth.client_id", "only printable ASCII characters")
	}
	if (v.Auth.Type == authNone || v.Auth.Type == authOAuth) && v.Secret != "" {
		c.add("auth.secret", "only allowed with the types api_key and bearer")
	}
}

// checkClient checks the OAuth client that the tenant registered by hand.
func checkClient(c *fieldErrors, v *Server) {
	if v.ClientSecret != "" && v.Auth.ClientID == "" {
		c.add("auth.client_id", "required with client_secret")
	}
	if v.Auth.Type != authOAuth && v.Auth.ClientID != "" {
		c.add("auth.client_id", "only allowed with the type oauth")
	}
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
