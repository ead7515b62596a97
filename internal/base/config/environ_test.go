package config

import (
	"strings"
	"testing"
)

func TestCheckEnvironment(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, entry, want string }{
		{"known", "AGENTD_LISTEN=:80", ""},
		{"of clients", "AGENTD_KEY=svc_x", ""},
		{"of others", "AGENTX_LISTN=1", ""},
		{"empty", "AGENTD_LISTN=", ""},
		{"of tests", "AGENTD_TEST_LOG=1", ""},
		{"slip", "AGENTD_MODELL=secret", "AGENTD_MODELL is no setting of agentd; did you mean AGENTD_MODEL?"},
		{"slip in the middle", "AGENTD_DATADIR=/x", "did you mean AGENTD_DATA_DIR?"},
		{"cut", "AGENTD_LISTN=:80", "did you mean AGENTD_LISTEN?"},
		{"port", "AGENTD_PORT=8080", "did you mean AGENTD_LISTEN?"},
		{"key of another program", "AGENTD_API_KEY=secret", "did you mean AGENTD_KEY?"},
		{"like no other", "AGENTD_ZZZZZZZZZZZZ=secret", "AGENTD_ZZZZZZZZZZZZ is no setting of agentd; unset it, or see agentd serve --help"},
		{"control characters", "AGENTD_\x1b[2J=secret", "AGENTD_ [2J is no setting"},
		{"injected port", "AGENTD_PORT=tcp://10.0.0.1:8080", ""},
		{"injected host", "AGENTD_SERVICE_HOST=10.0.0.1", ""},
		{"injected named port", "AGENTD_SERVICE_PORT_HTTP=8080", ""},
		{"injected address", "AGENTD_PORT_8080_TCP_ADDR=10.0.0.1", ""},
		{"injected of a longer name", "AGENTD_WEB_PORT_8080_TCP=tcp://10.0.0.1:8080", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := CheckEnvironment([]string{"PATH=/bin", tt.entry, "HOME"})
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("%s is refused: %v", tt.entry, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%s: %v, want %s", tt.entry, err, tt.want)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the value is quoted: %v", err)
			}
		})
	}
}

func TestCheckEnvironmentListsAll(t *testing.T) {
	t.Parallel()
	var environ []string
	for c := 'A'; c <= 'Z'; c++ {
		environ = append(environ, "AGENTD_QQQQQQ"+string(c)+"=1")
	}
	err := CheckEnvironment(environ)
	if err == nil || strings.Count(err.Error(), "\n") != 10 || !strings.HasSuffix(err.Error(), "and 16 more") {
		t.Errorf("%v", err)
	}
}

// Every setting's own name passes.
func TestCheckEnvironmentKnowsAllSettings(t *testing.T) {
	t.Parallel()
	for _, name := range variables() {
		if err := CheckEnvironment([]string{name + "=x"}); err != nil {
			t.Error(err)
		}
	}
}
