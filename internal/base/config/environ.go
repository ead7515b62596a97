package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"agentd/internal/base/text"
)

// prefix is that of every variable of agentd. Variables of its tests begin with
// testPrefix and are inherited by the servers that tests start.
const (
	prefix     = "AGENTD_"
	testPrefix = "AGENTD_TEST_"
)

// meant are settings under the names that other programs have for them.
var meant = map[string]string{
	"AGENTD_PORT": "AGENTD_LISTEN", "AGENTD_ADDR": "AGENTD_LISTEN", "AGENTD_ADDRESS": "AGENTD_LISTEN",
	"AGENTD_HOST": "AGENTD_LISTEN", "AGENTD_BIND": "AGENTD_LISTEN",
	"AGENTD_DB": "AGENTD_DATABASE_URL", "AGENTD_DATABASE": "AGENTD_DATABASE_URL", "AGENTD_API_KEY": "AGENTD_KEY",
	"AGENTD_BASE_URL": "AGENTD_URL", "AGENTD_DIR": "AGENTD_DATA_DIR", "AGENTD_CORS": "AGENTD_CORS_ORIGINS",
}

// injected matches what an orchestrator sets in every container beside a service
// that is called agentd: AGENTD_SERVICE_HOST, AGENTD_PORT_8080_TCP_ADDR and the like.
// AGENTD_PORT is such a variable if its value is an address.
var injected = regexp.MustCompile(
	`^AGENTD_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)=|` +
		`^AGENTD_(?:\w+_)?PORT=(?:tcp|udp|sctp)://`)

// CheckEnvironment refuses variables, as NAME=value, whose names begin like those of
// agentd and that no setting has. A misspelt setting would have no effect
// otherwise, and no message. The error never quotes a value.
func CheckEnvironment(environ []string) error {
	known := variables()
	var unknown []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, testPrefix) || value == "" ||
			slices.Contains(known, name) || injected.MatchString(entry) {
			continue
		}
		sentence := fmt.Sprintf("the variable %s is no setting of agentd", text.Truncate(text.OneLine(name), 80))
		if other := nearestVariable(name, known); other != "" {
			sentence += "; did you mean " + other + "?"
		} else {
			sentence += "; unset it, or see agentd serve --help for all settings"
		}
		unknown = append(unknown, sentence)
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	if more := len(unknown) - maxUnknown; more > 0 {
		unknown = append(unknown[:maxUnknown], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%s", strings.Join(unknown, "\n"))
}

// maxUnknown is how many unknown variables are listed.
const maxUnknown = 10

// nearestVariable compares without the prefix, which all names share.
func nearestVariable(name string, known []string) string {
	if other := meant[name]; other != "" {
		return other
	}
	bare := make([]string, len(known))
	for i, k := range known {
		bare[i] = strings.TrimPrefix(k, prefix)
	}
	if other := text.Nearest(strings.TrimPrefix(name, prefix), bare); other != "" {
		if strings.HasPrefix(other, "OTEL_") {
			return other
		}
		return prefix + other
	}
	return ""
}

// variables returns the names of all settings' variables: of the server and of the
// commands that talk to one.
func variables() []string {
	var all []string
	for s := range new(Config).Settings() {
		all = append(all, s.Env)
	}
	for s := range settings("", reflect.ValueOf(Client{})) {
		all = append(all, s.Env)
	}
	all = append(all, backupKeyVariable) // a machine that serves may make backups too
	return all
}
