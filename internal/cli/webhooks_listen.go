package cli

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

type webhooksListenCommand struct {
	remote
	Events  []string `default:"run.completed,run.failed,run.cancelled" placeholder:"EVENT" help:"Events to receive; several by commas."`
	Address string   `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Where to receive deliveries; port 0 is any free one."`
	URL     string   `name:"callback" placeholder:"URL" help:"Address by which the server reaches this machine. Left out: that of --address."`
	Webhook string   `placeholder:"ID" help:"Receive nothing here: show the deliveries of this subscription from the server's log, which works with any server."`
	Count   int      `placeholder:"N" help:"End after so many deliveries. Left out: with Ctrl-C."`
}

const maxDelivery = 2 << 20 // bytes; an event has at most 1 MiB

// Run implements the command.
func (cmd *webhooksListenCommand) Run(s *server) error {
	if cmd.Webhook != "" {
		return cmd.poll(s)
	}
	l, err := new(net.ListenConfig).Listen(s, "tcp", cmd.Address)
	if err != nil {
		return fmt.Errorf("--address %s cannot be listened on: %w", cmd.Address, err)
	}
	callback := cmd.URL
	if callback == "" {
		callback = "http://" + l.Addr().String() + "/"
	}
	made, err := call[subscription](s, http.MethodPost, webhooksPath, map[string]any{"url": callback, "events": cmd.Events})
	if err != nil {
		return errors.Join(cmd.unreachable(s, callback, err), l.Close())
	}
	defer func() {
		if err := s.Do(uninterrupted(s), http.MethodDelete, client.Path(webhooksPath, made.Value.WebhookID), nil, nil); err != nil {
			s.note("The temporary subscription %s could not be deleted: %v", made.Value.WebhookID, err)
		}
	}()
	s.note("Receiving %s at %s; subscription %s lasts until Ctrl-C.", strings.Join(cmd.Events, ", "), callback, made.Value.WebhookID)
	return cmd.receive(s, l, made.Value.Secret)
}

// unreachable explains why the server does not take this machine as a receiver.
func (cmd *webhooksListenCommand) unreachable(s *server, callback string, err error) error {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || !strings.Contains(strings.ToLower(fmt.Sprint(p.Code, p.Detail, p.Errors)), "egress") && !strings.Contains(p.Detail, "public") {
		return err
	}
	host := strings.TrimSuffix(strings.TrimPrefix(callback, "http://"), "/")
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return fmt.Errorf("%w\nThe server may not call %s. Choose one of these:\n"+
		"  a server of your own: start it with AGENTD_EGRESS_ALLOW=%s/32\n"+
		"  a tunnel to this machine: --callback URL with its public address, and --address with the port that it leads to\n"+
		"  no call at all: --webhook ID shows the deliveries of an existing subscription from the server's log (%s webhooks list)",
		err, callback, host, s.deps.Program)
}

// receive serves deliveries until the person interrupts.
func (cmd *webhooksListenCommand) receive(s *server, l net.Listener, secret string) error {
	ctx, stop := context.WithCancel(s)
	defer stop()
	received := make(chan arrival)
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDelivery))
			if err != nil || r.Method != http.MethodPost {
				http.Error(w, "agentd webhooks listen takes deliveries only", http.StatusBadRequest)
				return
			}
			a := arrival{Event: r.Header.Get("X-SVC-Event-Type"), EventID: r.Header.Get("X-SVC-Event-Id"),
				DeliveryID: r.Header.Get("X-SVC-Delivery-Id"), ReceivedAt: s.now().UTC(), Body: body,
				Signature: verifySignature(secret, r.Header.Get("X-SVC-Signature-V2"), body, s.now())}
			select {
			case received <- a:
			case <-ctx.Done():
			}
		})}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	defer srv.Close()
	for n := 0; ; {
		select {
		case a := <-received:
			if err := s.showArrival(a); err != nil {
				return err
			}
			if n++; n == cmd.Count {
				return nil
			}
		case err := <-failed:
			return fmt.Errorf("--address %s: %w", cmd.Address, err)
		case <-ctx.Done():
			return nil
		}
	}
}

// arrival is a delivery that was received here, or found in the log.
type arrival struct {
	Event      string         `json:"event"`
	EventID    string         `json:"event_id"`
	DeliveryID string         `json:"delivery_id"`
	ReceivedAt time.Time      `json:"received_at,omitzero"`
	Signature  string         `json:"signature,omitzero"` // valid, or what is wrong
	Status     string         `json:"status,omitzero"`    // of an attempt in the log
	Body       jsontext.Value `json:"body"`
}

func (s *server) showArrival(a arrival) error {
	if !a.Body.IsValid() {
		a.Body, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(string(a.Body), ""))
	}
	if s.json {
		line, err := json.Marshal(a)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.stdout, "%s\n", line)
		return err
	}
	how := "signature " + a.Signature
	if a.Signature == "" {
		how = a.Status
	}
	s.note("%s  %s  %s, %s", a.ReceivedAt.Local().Format("15:04:05 MST"), oneLine(a.Event), oneLine(a.EventID), how)
	return s.printJSON(a.Body)
}

// verifySignature checks the header X-SVC-Signature-V2, and returns "valid" or
// what is wrong.
func verifySignature(secret, header string, body []byte, now time.Time) string {
	stamp, signature, ok := strings.Cut(header, ",v1=sha256=")
	stamp, hasTime := strings.CutPrefix(stamp, "t=")
	ms, err := strconv.ParseInt(stamp, 10, 64)
	sent, hexErr := hex.DecodeString(signature)
	if !ok || !hasTime || err != nil || hexErr != nil {
		return "missing"
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), sent) {
		return "wrong"
	}
	if age := now.Sub(time.UnixMilli(ms)).Abs(); age > 5*time.Minute {
		return "too old, or the clocks differ by " + formatDuration(age)
	}
	return "valid"
}

// pollEvery is how often the log is read.
const pollEvery = time.Second

// poll shows the attempts of a subscription as the server's log gets them.
func (cmd *webhooksListenCommand) poll(s *server) error {
	log := list[delivery]{path: client.Path(webhooksPath, cmd.Webhook, "deliveries"), limit: 100}
	seen := map[string]bool{}
	first := true
	for n := 0; ; {
		attempts, _, err := log.read(s)
		if err != nil {
			return err
		}
		for _, a := range slices.Backward(attempts) {
			if seen[a.Value.DeliveryID] {
				continue
			}
			seen[a.Value.DeliveryID] = true
			if first {
				continue // it was there before
			}
			full, err := get[delivery](s, client.Path(log.path, a.Value.DeliveryID))
			if err != nil {
				return err
			}
			d := full.Value
			if err := s.showArrival(arrival{Event: d.EventType, EventID: d.EventID, DeliveryID: d.DeliveryID, ReceivedAt: d.CreatedAt,
				Status: strings.TrimSpace(d.Status + " " + d.Error), Body: requestBody(d.Body)}); err != nil {
				return err
			}
			if n++; n == cmd.Count {
				return nil
			}
		}
		if first {
			s.note("Watching the deliveries of subscription %s, until Ctrl-C.", cmd.Webhook)
			first = false
		}
		select {
		case <-s.Done():
			return nil
		case <-time.After(pollEvery):
		}
	}
}

// requestBody is the body that was sent, which the log keeps as a text.
func requestBody(v jsontext.Value) jsontext.Value {
	var text string
	if json.Unmarshal(v, &text) == nil && jsontext.Value(text).IsValid() {
		return jsontext.Value(text)
	}
	return v
}
