package sensor_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/execution/sensor"
)

func TestSensors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		agentID := r.agent()
		v := r.sensor(agentID, `,"instructions":"Look at it.","max_triggers":5,"expires_at":"2026-10-01T02:00:00.123456789+02:00"`)
		if v.URL != "https://agents.example.com/api/v1/webhooks/sensor/"+v.WebhookID || v.AgentID != agentID || v.Instructions != "Look at it." ||
			*v.MaxTriggers != 5 || v.Triggers != 0 || v.Status != sensor.Active || v.Unsigned || v.LastTriggeredAt != nil {
			t.Errorf("created: %+v", v)
		}
		key, found := strings.CutPrefix(v.Secret, "whsec_")
		if raw, err := base64.StdEncoding.DecodeString(key); !found || err != nil || len(raw) != 32 {
			t.Errorf("the secret is %q", v.Secret)
		}
		got := r.read(v.WebhookID)
		shown := *v
		shown.Secret = secret.Redacted
		if diff := cmp.Diff(&shown, got, cmp.AllowUnexported(sensor.View{})); diff != "" {
			t.Errorf("read again (-created +read):\n%s", diff)
		}
		stored, err := r.store.GetByID(t.Context(), v.WebhookID)
		r.fatal(err)
		if text := fmt.Sprintf("%+v %s", stored, stored.Sealed); strings.Contains(text, key) {
			t.Errorf("the secret is stored in plain text: %s", text)
		}

		other := r.who
		r.who = authz.Caller{TenantID: ident.New()}
		_, err = r.do("getSensor", map[string]string{"sensorId": v.WebhookID}, nil)
		is(t, err, fault.NotFound, "NOT_FOUND")
		_, err = r.do("createSensor", nil, `{"agent_id":"`+agentID+`"}`)
		is(t, err, fault.NotFound, "NOT_FOUND")
		remove := func() {
			t.Helper()
			_, err := r.do("deleteSensor", map[string]string{"sensorId": v.WebhookID}, nil)
			r.fatal(err)
		}
		remove() // of what is another's: nothing
		r.who = other
		r.read(v.WebhookID)
		remove()
		_, err = r.do("getSensor", map[string]string{"sensorId": v.WebhookID}, nil)
		is(t, err, fault.NotFound, "NOT_FOUND")
		_, err = r.post(v, "{}")
		is(t, err, fault.NotFound, "NOT_FOUND")
		remove()

		var log []string
		for _, e := range r.log {
			log = append(log, e.Action+" "+e.TargetID+" "+string(e.Details))
		}
		want := []string{
			"sensor.created " + v.WebhookID + ` {"agent_id":"` + agentID + `","unsigned":false,"max_triggers":5}`,
			"sensor.deleted " + v.WebhookID + " ",
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Errorf("audit (-want +got):\n%s", diff)
		}
	})
}

func TestInvalidSensors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		agentID := r.agent()
		for more, fields := range map[string][]string{
			`,"unsigned":true`: {"max_triggers"},
			`,"unsigned":true,"max_triggers":null,"expires_at":"2026-09-10T12:00:00Z"`: {"max_triggers", "expires_at"},
			`,"expires_at":"2036-09-11T12:00:00Z"`:                                     {"expires_at"},
			`,"expires_at":"9999-12-31T23:59:59-12:00"`:                                {"expires_at"},
			`,"expires_at":"soon"`:                                                     {"expires_at"},
			`,"max_triggers":0`:                                                        {"max_triggers"},
			`,"instructions":"` + strings.Repeat("x", 20_001) + `"`:                    {"instructions"},
		} {
			_, err := r.do("createSensor", nil, `{"agent_id":"`+agentID+`"`+more+`}`)
			f := is(t, err, fault.Invalid, "VALIDATION_ERROR")
			var got []string
			for _, wrong := range f.Fields {
				got = append(got, wrong.Field)
			}
			if diff := cmp.Diff(fields, got); diff != "" {
				t.Errorf("%.80s (-want +got):\n%s", more, diff)
			}
		}
		if n, err := r.store.Count(t.Context(), r.who.TenantID); n != 0 || err != nil {
			t.Errorf("%d were created (%v)", n, err)
		}
	})
}

func TestListSensors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		agentID := r.agent()
		var want []string
		for range 5 {
			want = append([]string{r.sensor(agentID, `,"unsigned":true,"max_triggers":1`).WebhookID}, want...)
		}
		var got []string
		cursor, pages := "", 0
		for more := true; more; pages++ {
			out, err := r.do("listSensors", map[string]string{"limit": "2", "cursor": cursor}, nil)
			r.fatal(err)
			p := out.(*sensor.Page)
			for _, v := range p.Sensors {
				got = append(got, v.WebhookID)
				if v.Secret != "" || !v.Unsigned {
					t.Errorf("without a secret: %+v", v)
				}
			}
			if p.Total != 5 {
				t.Errorf("total %d", p.Total)
			}
			if more = p.HasMore; more {
				cursor = *p.Cursor
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || pages != 3 {
			t.Errorf("%d pages (-want +got):\n%s", pages, diff)
		}
		_, err := r.do("listSensors", map[string]string{"cursor": "garbage"}, nil)
		is(t, err, fault.Invalid, "INVALID_CURSOR")
	})
}

func TestSensorLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		first := r.agent()
		r.fill(first, sensor.MaxActivePerAgent-1)
		// Of several that ask for the last place one gets it.
		var wait sync.WaitGroup
		var mu sync.Mutex
		var refused []error
		for range 4 {
			wait.Go(func() {
				if _, err := r.do("createSensor", nil, `{"agent_id":"`+first+`","expires_at":"2026-09-10T13:00:00Z"}`); err != nil {
					mu.Lock()
					defer mu.Unlock()
					refused = append(refused, err)
				}
			})
		}
		wait.Wait()
		if len(refused) != 3 {
			t.Fatalf("%d of 4 were refused for the last place", len(refused))
		}
		is(t, refused[0], fault.Invalid, "limit_reached")

		// What ended has given its place back.
		r.advance(2 * time.Hour)
		spent := r.sensor(first, `,"max_triggers":1`)
		_, err := r.post(spent, "{}")
		r.fatal(err)
		r.sensor(first, "")
		for range sensor.MaxActive/sensor.MaxActivePerAgent - 1 {
			r.fill(r.agent(), sensor.MaxActivePerAgent)
		}
		_, err = r.do("createSensor", nil, `{"agent_id":"`+r.agent()+`"}`)
		is(t, err, fault.Invalid, "limit_reached")

		// A month later what ended is forgotten.
		r.advance(31 * 24 * time.Hour)
		r.fatal(r.db.Write(t.Context(), func(tx txn.Tx) error { return r.store.EndTx(tx, r.who.TenantID, first, r.clock.Now()) }))
		r.sensor(r.agent(), "")
		if n, err := r.store.Count(t.Context(), r.who.TenantID); n != sensor.MaxActive+1 || err != nil {
			t.Errorf("%d are kept (%v)", n, err)
		}
		_, err = r.post(spent, "{}")
		is(t, err, fault.NotFound, "NOT_FOUND")
	})
}
