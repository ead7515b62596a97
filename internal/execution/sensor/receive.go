package sensor

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/model"
)

// Source is metadata.source of the runs that sensors start.
const Source = "sensor"

type receiveIn struct {
	WebhookID string `path:"webhookId"`
	Signature string `header:"X-Sensor-Signature" doc:"sha256= and the hex HMAC-SHA256 of the raw body, keyed with the sensor's secret. Required if the sensor has a secret."`
	Body      route.Message
}

type received struct {
	_ struct{} `json:"-" name:"SensorReceived"`

	Received bool   `json:"received" required:"true"`
	Accepted bool   `json:"accepted" required:"true" doc:"The same as received."`
	RunID    string `json:"run_id" format:"uuid" required:"true"`
}

var (
	errNoSensor  = fault.New(fault.NotFound, "", "There is no sensor at this URL.")
	errSignature = fault.New(fault.Unauthenticated, "", "This sensor takes signed calls only: send the header X-Sensor-Signature "+
		"with 'sha256=' and the hex HMAC-SHA256 of the raw body, keyed with the sensor's secret.")
	errUnlimited = fault.New(fault.Forbidden, "",
		"This sensor has neither a secret nor a limit of calls, so it takes none. Create another one.")
	errSuspended = fault.New(fault.Forbidden, "TENANT_SUSPENDED", "The company of this sensor is suspended; its operator can lift that.")

	// errLost is returned if a concurrent call used the last trigger, or was the
	// same call.
	errLost = errors.New("sensor: a concurrent call was first")
)

// gone is the 410 of a sensor that takes no more calls.
func gone(status Status) error {
	reason := map[Status]string{
		Spent: "its maximum number of calls was reached", Expired: "it has expired", Ended: "its agent was deleted",
	}[status]
	return fault.New(fault.Gone, "", "This sensor takes no more calls: %s.", cmp.Or(reason, "it has ended"))
}

// receive handles a call. The signature is checked first, so that a caller without
// the secret learns nothing about the sensor.
func (s *Service) receive(ctx context.Context, _ authz.Caller, in *receiveIn) (received, error) {
	of, err := s.Store.GetByID(ctx, in.WebhookID)
	if err != nil {
		return received{}, err
	}
	if of == nil {
		return received{}, errNoSensor
	}
	key, err := s.secretOf(of)
	switch {
	case err != nil:
		return received{}, err
	case of.unlimited():
		return received{}, of.refusal(errUnlimited)
	case of.signed() && !Verify(key, in.Body.Data, in.Signature):
		return received{}, of.refusal(errSignature)
	}
	if suspended, err := s.Suspended(ctx, of.TenantID); err != nil || suspended {
		return received{}, cmp.Or(err, of.refusal(errSuspended))
	}
	c := s.call(of, &in.Body)
	if earlier, err := s.earlier(ctx, c); err != nil || earlier != "" {
		return received{Received: true, Accepted: true, RunID: earlier}, err
	}
	if now := of.status(s.Clock.Now()); now != Active {
		return received{}, gone(now)
	}
	return s.start(ctx, of, c, &in.Body)
}

// refusal returns a refusal for the audit log of the sensor's company.
func (s *Sensor) refusal(e *fault.Error) error {
	public := *e
	return public.Because(&audit.Refusal{TenantID: s.TenantID, TargetID: s.ID})
}

// Sign returns the X-Sensor-Signature of a body.
func Sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// Verify reports whether a signature is valid for a body.
func Verify(secret string, body []byte, signature string) bool {
	return hmac.Equal([]byte(Sign(secret, body)), []byte(strings.ToLower(signature)))
}

// callIDs are the headers with the id of a call, by precedence. Idempotency-Key is not one of
// them: it belongs to a credential, and an inbound call has none.
var callIDs = []string{"Webhook-Id", "X-Svc-Event-Id", "X-Github-Delivery"}

// call returns the record of a call. Without an id it has no hash.
func (s *Service) call(of *Sensor, m *route.Message) *Call {
	c := &Call{TenantID: of.TenantID, SensorID: of.ID, RunID: ident.New(), At: s.Clock.Now()}
	for _, name := range callIDs {
		if id := strings.Join(m.Header[name], ","); id != "" {
			// The header is not signed, so the body is part of the call's identity.
			body := sha256.Sum256(m.Data)
			whole := sha256.Sum256(fmt.Appendf(body[:], "%s: %s", name, id))
			c.Hash = hex.EncodeToString(whole[:])
			break
		}
	}
	return c
}

// earlier returns the run that the same call started before, or "".
func (s *Service) earlier(ctx context.Context, c *Call) (string, error) {
	if c.Hash == "" {
		return "", nil
	}
	return s.Store.GetCallRun(ctx, c.TenantID, c.SensorID, c.Hash, c.At.Add(-repeatWindow))
}

// start starts the run of a call and uses a trigger for it.
func (s *Service) start(ctx context.Context, of *Sensor, c *Call, m *route.Message) (received, error) {
	in, parsed, err := inputOf(of, c.RunID, m)
	if err != nil {
		return received{}, err
	}
	claimed := false
	_, err = s.runs.Create(ctx, authz.Caller{TenantID: of.TenantID}, run.Request{
		RunID: c.RunID, AgentID: of.AgentID, Input: in, Parsed: parsed,
		Metadata:  schema.Object(fmt.Sprintf(`{"source":%q,"webhook_id":%q}`, Source, of.ID)),
		StartedBy: run.Initiator{Type: run.BySensor, ID: of.ID},
		Options:   run.Options{Sources: []string{model.SourceSensor}},
		Admit: func(tx txn.Tx, _ *run.Record) (bool, error) {
			claimed = true
			return true, s.claim(tx, c)
		},
	})
	switch {
	case err == nil && !claimed:
		return received{}, fault.New(fault.Internal, "", "sensor: the run %s was created without using a trigger", c.RunID)
	case err == nil:
		return received{Received: true, Accepted: true, RunID: c.RunID}, nil
	case errors.Is(err, errLost):
		return s.lost(ctx, c)
	case fault.Is(err, fault.NotFound):
		return received{}, gone(Ended)
	}
	return received{}, refused(err)
}

// claim uses a trigger, in the transaction that stores the run.
func (s *Service) claim(tx txn.Tx, c *Call) error {
	ok, err := s.Store.ClaimTx(tx, c.TenantID, c.SensorID, c.At)
	if err == nil && ok && c.Hash != "" {
		ok, err = s.Store.CreateCallTx(tx, c, c.At.Add(-repeatWindow))
	}
	if err == nil && !ok {
		err = errLost
	}
	return err
}

// lost answers a call that found the sensor active, but lost to a concurrent one.
func (s *Service) lost(ctx context.Context, c *Call) (received, error) {
	if earlier, err := s.earlier(ctx, c); err != nil || earlier != "" {
		return received{Received: true, Accepted: true, RunID: earlier}, err
	}
	of, err := s.Store.Get(ctx, c.TenantID, c.SensorID)
	switch {
	case err != nil:
		return received{}, err
	case of == nil:
		return received{}, errNoSensor
	}
	return received{}, gone(of.status(s.Clock.Now()))
}

// refused hides the details of an error from a caller outside the tenant: its
// plan, its budget and its usage.
func refused(err error) error {
	f := fault.From(err)
	switch f.Kind {
	case fault.Limited, fault.Forbidden:
		public := fault.New(f.Kind, f.Code, "The company of this sensor may start no more runs at this time.").Because(err)
		public.RetryAfter = f.RetryAfter
		return public
	case fault.Payment:
		return fault.New(fault.Forbidden, "", "The company of this sensor may start no more runs at this time.").Because(err)
	case fault.Conflict:
		return fault.New(f.Kind, f.Code, "The agent of this sensor takes no runs at this time.").Because(err)
	}
	return err
}
