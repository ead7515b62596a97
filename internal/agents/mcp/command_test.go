package mcp

import (
	"slices"
	"strings"
	"testing"

	"agentd/internal/base/fault"
)

// weather is a command of which tenants may set a little.
type weather struct{}

func (weather) AllowsArg(arg string) bool {
	return arg == "--metric" || strings.HasPrefix(arg, "--city=")
}

func (weather) AllowsVariable(name string) bool {
	return slices.Contains([]string{"WEATHER_KEY", "MCP_TOKEN"}, name)
}

func stdioServer(t *testing.T, env map[string]string, args ...string) *Server {
	t.Helper()
	v := &Server{Name: "x", Transport: STDIO, Command: "weather", Args: args, Auth: Auth{Type: authNone}}
	if err := v.setEnv(env); err != nil {
		t.Fatal(err)
	}
	return v
}

func fieldsOf(fields []fault.Field) []string {
	var all []string
	for _, f := range fields {
		all = append(all, f.Field)
	}
	return all
}

// Variables by which shells, loaders, interpreters, package managers and
// libraries run code or call elsewhere. Nothing knows them by name: what the
// operator does not name is refused, in env as in env_key.
func TestVariablesNeedTheOperatorsWord(t *testing.T) {
	t.Parallel()
	r := &validator{commands: map[string]Command{"weather": weather{}}}
	for name := range strings.FieldsSeq(`
		SHELLOPTS PS4 BASHOPTS BASH_ENV ENV PROMPT_COMMAND IFS CDPATH GLOBIGNORE BASH_XTRACEFD BASH_LOADABLES_PATH
		PATH path HOME SHELL TMPDIR LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES GCONV_PATH GLIBC_TUNABLES LOCPATH NLSPATH
		NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS npm_config_registry NPM_CONFIG_PREFIX BUN_CONFIG_REGISTRY DENO_DIR
		UV_INDEX_URL PIP_INDEX_URL PYTHONPATH PYTHONSTARTUP PYTHONHOME RUBYOPT PERL5OPT PERL5DB PHPRC PHP_INI_SCAN_DIR LUA_INIT LUA_PATH
		DOTNET_STARTUP_HOOKS CORECLR_PROFILER JAVA_TOOL_OPTIONS _JAVA_OPTIONS CLASSPATH GOFLAGS ERL_FLAGS R_PROFILE GUILE_LOAD_PATH
		OPENSSL_CONF OPENSSL_MODULES SSL_CERT_FILE SSLKEYLOGFILE CURL_HOME CURL_CA_BUNDLE GIT_SSH_COMMAND GIT_EXEC_PATH EDITOR PAGER LESSOPEN
		XDG_CONFIG_HOME HTTP_PROXY https_proxy ALL_PROXY RES_OPTIONS HOSTALIASES MALLOC_CONF TERMINFO weather_key WEATHER_KEY_ MCP_OTHER
		AGENTD_SECRET_KEY AGENTD_DATA_DIR`) {
		if got := fieldsOf(r.validate(stdioServer(t, map[string]string{name: "x"}))); !slices.Equal(got, []string{"env"}) {
			t.Errorf("%s: invalid fields %v", name, got)
		}
		v := stdioServer(t, nil)
		v.Auth, v.Secret = Auth{Type: authAPIKey, EnvKey: name}, "x"
		if got := fieldsOf(r.validate(v)); !slices.Equal(got, []string{"auth.env_key"}) {
			t.Errorf("env_key %s: invalid fields %v", name, got)
		}
	}
	for _, name := range []string{"BASH_FUNC_ls%%", "A=B", "", "A B", "A\x00"} {
		if got := r.validate(stdioServer(t, map[string]string{name: "() { id; }"})); len(got) == 0 {
			t.Errorf("%q is accepted", name)
		}
	}
	v := stdioServer(t, map[string]string{"MCP_TOKEN": "x"}, "--metric", "--city=Oslo")
	v.Auth, v.Secret = Auth{Type: authAPIKey, EnvKey: "WEATHER_KEY"}, "x"
	if got := r.validate(v); len(got) > 0 {
		t.Errorf("what the operator allows is refused: %v", got)
	}
}

func TestArgumentsNeedTheOperatorsWord(t *testing.T) {
	t.Parallel()
	r := &validator{commands: map[string]Command{"weather": weather{}}}
	for _, arg := range []string{"", "-c", "id", "--metric ", "--metrics", "--city", "--eval=process.exit()", "--require=/tmp/x.js", "-e"} {
		if got := fieldsOf(r.validate(stdioServer(t, nil, "--metric", arg))); !slices.Equal(got, []string{"args[1]"}) {
			t.Errorf("%q: invalid fields %v", arg, got)
		}
	}
}

// A server that was stored when the operator allowed more does not run.
func TestStoredServersKeepToTheRules(t *testing.T) {
	t.Parallel()
	s := &targets{validator: &validator{commands: map[string]Command{"weather": weather{}}}}
	if _, err := s.of(stdioServer(t, map[string]string{"WEATHER_KEY": "x"}, "--metric")); err != nil {
		t.Error(err)
	}
	gone := stdioServer(t, nil)
	gone.Command = "gone"
	for name, v := range map[string]*Server{
		"variable": stdioServer(t, map[string]string{"PS4": "x"}), "argument": stdioServer(t, nil, "-c"), "command": gone,
	} {
		if _, err := s.of(v); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}
