package isolation

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"agentd/internal/app"
	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/clock"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/secretsql"
)

// marks are what sealed values of a box begin with, as bytes and in JSON.
func marks(box *secret.Box) [][]byte {
	whole := box.Header()[:6] // a multiple of 3, so that base64 does not mix in what follows
	return [][]byte{whole, []byte(base64.RawStdEncoding.EncodeToString(whole))}
}

// A company with something of everything: each sealed value in its database is in
// a place that a rotation knows, is sealed again while the server serves, and
// opens for the server that has the new key alone.
func TestSecretKeyIsRotated(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	key := func(n byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)) }
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			n := apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.OnEngine(t, engine), apptest.Embedding, apptest.WebSearch(t),
				func(c *config.Config) { c.Security.SecretKey = secret.New(key(1)) })
			id, err := n.Admin().Tenants.Create(t.Context(), "Walrus and Sons", "walrus@example.com")
			if err != nil {
				t.Fatal(err)
			}
			c := contracttest.NewCompany(n, "walrus", id)
			path := "/api/v1/sessions/" + c.IDs["sessionId"][0] + "/share"
			linked := func(method string, body any) string {
				url := n.WithKey(string(c.Grant.RawKey)).Expect(200, method, path, body)["share_url"].(string)
				_, path, _ := strings.Cut(url, "/api") // the address is another one after each start
				return path
			}
			share := linked("POST", apptest.Object{"role": "viewer"})
			before, err := secret.NewBox(bytes.Repeat([]byte{1}, 32))
			if err != nil {
				t.Fatal(err)
			}
			knowsPlaces(t, n.Admin(), marks(before))

			again := func(keys ...string) *apptest.Server {
				n.Stop()
				cfg := n.Config
				cfg.Security.SecretKey = secret.New(strings.Join(keys, ","))
				n = apptest.Restart(t, cfg)
				return n
			}
			again(key(2), key(1))
			box, err := secret.NewBox(bytes.Repeat([]byte{2}, 32), bytes.Repeat([]byte{1}, 32))
			if err != nil {
				t.Fatal(err)
			}
			r, err := secretsql.New(n.Admin().DB, box, clock.System{}).Rotate(t.Context(), nil)
			if err != nil || !r.Done() || r.Resealed < 8 || !slices.Equal(r.Retired, before.KeyIDs()) {
				t.Fatalf("%+v, %v", r, err)
			}
			again(key(2))
			if found := places(n.Admin(), marks(before)); len(found) != 0 {
				t.Errorf("the old key is needed in %v", found)
			}
			if got := linked("GET", nil); got != share {
				t.Errorf("the shared link was %s and is %s", share, got)
			}
			n.Stop()
			cfg := n.Config
			cfg.Security.SecretKey = secret.New(key(1))
			if _, err := app.Start(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "AGENTD_SECRET_KEY lacks the key "+string(box.KeyIDs()[0])) {
				t.Errorf("the server starts without the key that it needs: %v", err)
			}
		})
	}
}

// knowsPlaces fails if a value is sealed where no rotation looks.
func knowsPlaces(t *testing.T, a *apptest.Admin, marks [][]byte) {
	t.Helper()
	found := places(a, marks)
	if len(found) < 8 {
		t.Errorf("sealed values in only %v prove little", found)
	}
	for _, place := range found {
		if !slices.ContainsFunc(secretsql.Columns, func(c secretsql.Column) bool { return c.Table+"."+c.Column == place }) {
			t.Errorf("%s holds a sealed value: add it to Columns (internal/store/secretsql)", place)
		}
	}
}

// places lists the columns that hold one of the marks.
func places(a *apptest.Admin, marks [][]byte) (found []string) {
	for _, table := range a.AllTables() {
		for _, row := range a.Query(`SELECT * FROM ` + table) {
			for column, value := range row {
				text := []byte(fmt.Sprintf("%s", value))
				if slices.ContainsFunc(marks, func(mark []byte) bool { return bytes.Contains(text, mark) }) {
					found = append(found, table+"."+column)
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
