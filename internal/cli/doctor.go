package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/config"
	"agentd/internal/base/diskspace"
	"agentd/internal/client"
)

type doctorCommand struct {
	remote
	Ready   bool   `help:"Ask only whether the server is ready, without a key: for the health check of a container."`
	DataDir string `env:"AGENTD_DATA_DIR" default:"./agentd-data" placeholder:"DIR" help:"Data directory of the server, if it runs on this machine."`
}

// finding is what a check found.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warning, failed or skipped
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitzero"`
}

const (
	ok      = "ok"
	warning = "warning"
	failed  = "failed"
	skipped = "skipped"
)

// Run implements the command. It fails if a check failed.
func (cmd *doctorCommand) Run(inv *invocation) error {
	found := cmd.examine(inv)
	bad := 0
	for _, f := range found {
		if f.Status == failed {
			bad++
		}
	}
	if cmd.JSON {
		if err := inv.printAny(items[finding]{Items: found}); err != nil {
			return err
		}
	} else {
		for _, f := range found {
			inv.say("%-8s %-12s %s", f.Status, f.Check, f.Detail)
			if f.Fix != "" {
				inv.say("%21s %s", "", strings.ReplaceAll(f.Fix, "\n", "\n"+strings.Repeat(" ", 22)))
			}
		}
	}
	if bad > 0 {
		return fmt.Errorf("%s failed; what to do about each stands above", plural(bad, "check"))
	}
	return nil
}

// examine makes all checks. Those of the server need one that answers.
func (cmd *doctorCommand) examine(inv *invocation) []finding {
	c, err := client.New(cmd.Server.URL, cmd.Server.Key)
	if err != nil {
		return append([]finding{{"server", failed, fmt.Sprintf("AGENTD_URL %q is no address of a server.", cmd.Server.URL),
			"Set AGENTD_URL, as http://127.0.0.1:8080."}}, cmd.local()...)
	}
	health, clock, err := checkHealth(inv, c, inv.now)
	found := []finding{health}
	if cmd.Ready {
		if err == nil {
			found = append(found, checkReady(inv, c))
		}
		return found
	}
	if err == nil {
		found = append(found, clock)
		found = append(found, cmd.checkServer(inv, c)...)
	}
	return append(found, cmd.local()...)
}

// checkHealth asks the server how it is, and compares the clocks.
func checkHealth(inv *invocation, c *client.Client, now func() time.Time) (health, clock finding, err error) {
	ctx, cancel := context.WithTimeout(inv, 10*time.Second)
	defer cancel()
	began := now()
	res, err := c.Send(ctx, http.MethodGet, "/api/v1/health", nil, nil)
	if err != nil {
		fix := "Start it with agentd serve, or say with AGENTD_URL where it is."
		if p, refused := errors.AsType[*client.Problem](err); refused && p.Status != http.StatusServiceUnavailable {
			fix = "Another program may answer there; AGENTD_URL says where to look."
		}
		return finding{"server", failed, clean(err.Error()), fix}, clock, err
	}
	defer res.Body.Close()
	raw, err := bounded(res.Body, "the server's answer")
	if err != nil {
		return finding{"server", failed, err.Error(), "See the server's log."}, clock, err
	}
	took := now().Sub(began)
	health = finding{"server", ok, "answers in " + formatDuration(took) + ".", ""}
	if version := jsonMember(raw, "build"); version != "" {
		health.Detail = fmt.Sprintf("version %s answers in %s; this program is %s.", version, formatDuration(took), inv.deps.Version)
		if version != inv.deps.Version {
			health.Status, health.Fix = warning, "Use the same version of the program on both sides, where something does not work."
		}
	}
	clock = finding{"clock", skipped, "the server does not say what time it is.", ""}
	if there, dateErr := http.ParseTime(res.Header.Get("Date")); dateErr == nil {
		if off := now().Sub(there).Abs(); off > 30*time.Second {
			clock = finding{"clock", warning, "the clocks of this machine and of the server differ by " + formatDuration(off) + ".",
				"Synchronize both by NTP: signatures and schedules depend on them."}
		} else {
			clock = finding{"clock", ok, "agrees with that of the server.", ""}
		}
	}
	return health, clock, nil
}

// checkReady asks whether the server reads and writes. It needs no key.
func checkReady(inv *invocation, c *client.Client) finding {
	var ready struct {
		Status string `json:"status"`
	}
	if err := c.Do(inv, http.MethodGet, "/health/ready", nil, &ready); err != nil {
		return finding{"database", failed, clean(err.Error()), "See the server's log: it names what cannot be reached."}
	}
	return finding{"database", ok, "the server reads and writes.", ""}
}

// checkServer checks the key, the model and the database by asking the server.
func (cmd *doctorCommand) checkServer(inv *invocation, c *client.Client) []finding {
	found := []finding{checkReady(inv, c)}
	if cmd.Server.Key.Empty() {
		return append(found, finding{"key", failed, "no key is given.", "Set AGENTD_KEY to the one that the server printed first.\n" +
			"A lost one is replaced on the server's machine:  " + inv.deps.Program + " admin key create --role owner --scopes '*' --name NAME"})
	}
	var me caller
	if err := c.Do(inv, http.MethodGet, "/api/v1/me", nil, &me); err != nil {
		return append(found, finding{"key", failed, clean(err.Error()), "AGENTD_KEY must be a key of this server."})
	}
	found = append(found, finding{"key", ok, fmt.Sprintf("role %s in %s.", me.Role, oneLine(me.Tenant.Name)), ""})
	return append(found, checkModel(inv, c), checkEmbeddings(inv, c))
}

// checkEmbeddings embeds a word. How a server without an embedding model searches is no
// failure.
func checkEmbeddings(inv *invocation, c *client.Client) finding {
	var made struct {
		Model string `json:"model"`
		Data  []struct {
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
	}
	began := inv.now()
	err := c.Do(inv, http.MethodPost, "/v1/embeddings", map[string]string{"input": "agentd"}, &made)
	if p, refused := errors.AsType[*client.Problem](err); refused && p.Status == http.StatusNotImplemented {
		return finding{"embeddings", skipped, "the server has no embedding model; knowledge and memory are found by their words.",
			"To find by meaning too, start it with AGENTD_EMBEDDING_MODEL; AGENTD_EMBEDDING_BASE_URL says where it is."}
	}
	switch {
	case err != nil:
		return finding{"embeddings", warning, clean(err.Error()),
			"See the server's log: knowledge and memory are found by their words meanwhile."}
	case len(made.Data) == 0 || len(made.Data[0].Embedding) == 0:
		return finding{"embeddings", warning, "the server's embedding model answers nothing.",
			"AGENTD_EMBEDDING_MODEL must be a model of embeddings."}
	}
	took, numbers := formatDuration(inv.now().Sub(began)), len(made.Data[0].Embedding)
	return finding{"embeddings", ok, fmt.Sprintf("%s answers in %s with %d numbers.", oneLine(made.Model), took, numbers), ""}
}

func checkModel(inv *invocation, c *client.Client) finding {
	var models struct {
		Default string `json:"default_model"`
	}
	err := c.Do(inv, http.MethodGet, "/api/v1/llm/models", nil, &models)
	switch {
	case err != nil:
		return finding{"model", warning, clean(err.Error()), "The key needs a scope that may list models."}
	case models.Default == "" || strings.HasPrefix(models.Default, "builtin/"):
		return finding{"model", warning, "the server has no language model; agents use builtin/echo.",
			"Start it with AGENTD_MODEL_BASE_URL and AGENTD_MODEL."}
	}
	return finding{"model", ok, "new agents use " + oneLine(models.Default) + ".", ""}
}

// local checks what is on this machine: the data directory and who can read it.
func (cmd *doctorCommand) local() []finding {
	info, err := os.Stat(cmd.DataDir)
	if err != nil || !info.IsDir() {
		return []finding{{"disk", skipped, "there is no data directory " + cmd.DataDir + " here.", ""}}
	}
	found := []finding{{"disk", ok, "the data directory " + cmd.DataDir + " is here.", ""}}
	if free, known := diskspace.Free(cmd.DataDir); known {
		found[0].Detail = fmt.Sprintf("%d MiB are free below %s.", free>>20, cmd.DataDir)
		if free < 1<<30 {
			found[0].Status, found[0].Fix = warning, "Make room: below 1 GiB a busy server soon stops writing."
		}
	}
	if wide := config.ReadableByOthers(cmd.DataDir); len(wide) > 0 {
		return append(found, finding{"secrets", warning, "others on this machine can read " + strings.Join(wide, ", ") + ".",
			"chmod go-rwx " + strings.Join(quoted(wide), " ")})
	}
	return append(found, finding{"secrets", ok, "only their owner can read " + filepath.Base(cmd.DataDir) + " and the key in it.", ""})
}

// jsonMember returns a string member of a JSON object, "" if there is none.
func jsonMember(object []byte, name string) string {
	var members map[string]jsontext.Value
	var text string
	if json.Unmarshal(object, &members) != nil || json.Unmarshal(members[name], &text) != nil {
		return ""
	}
	return text
}

func quoted(words []string) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = quote(w)
	}
	return all
}
