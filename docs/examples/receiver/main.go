// Command receiver takes the webhook deliveries of agentd: it verifies who sent
// them, takes each event once, and answers before it works on it.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	window  = 300 * time.Second // how far a signature's time may be from ours
	maxBody = 1<<20 + 64<<10    // an event has at most 1 MiB
)

type event struct {
	ID        string          `json:"event_id"`
	Type      string          `json:"event_type"`
	TenantID  string          `json:"tenant_id"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// verify checks X-SVC-Signature-V2, which is "t=<milliseconds>,v1=sha256=<hex>":
// the HMAC-SHA256 of "<milliseconds>.<body>", keyed with the secret as it was
// shown, whsec_ included.
func verify(secret, header string, body []byte, now time.Time) error {
	stamp, signature, ok := strings.Cut(header, ",v1=sha256=")
	stamp, found := strings.CutPrefix(stamp, "t=")
	if !ok || !found {
		return errors.New("there is no signature")
	}
	ms, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errors.New("the signature has no time")
	}
	if age := now.Sub(time.UnixMilli(ms)); age > window || age < -window {
		return errors.New("the signature is too old, or of the future")
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	given, err := hex.DecodeString(signature)
	if err != nil || !hmac.Equal(given, mac.Sum(nil)) { // in constant time
		return errors.New("the signature is wrong")
	}
	return nil
}

// receiver is an http.Handler.
type receiver struct {
	secret string
	now    func() time.Time
	work   func(event) // called once for each event

	mu    sync.Mutex
	seen  map[string]time.Time // keep it in your database, if you have several processes
	swept time.Time
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	// The bytes as they came: JSON that was decoded and encoded again is signed
	// by nobody.
	if err := verify(r.secret, req.Header.Get("X-SVC-Signature-V2"), body, r.now()); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var e event
	if err := json.Unmarshal(body, &e); err != nil || e.ID == "" {
		http.Error(w, "this is no event", http.StatusBadRequest)
		return
	}
	// The id in the body: headers are not signed.
	if r.first(e.ID) {
		go r.work(e) // in your queue, if it must survive a restart
	}
	w.WriteHeader(http.StatusNoContent) // within 10 seconds, or the event comes again
}

// first reports whether an event is new. Retries end after less than three hours;
// redelivery by hand can come later.
func (r *receiver) first(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if now.Sub(r.swept) > time.Hour {
		r.swept = now
		maps.DeleteFunc(r.seen, func(_ string, at time.Time) bool { return now.Sub(at) > 24*time.Hour })
	}
	if _, known := r.seen[id]; known {
		return false
	}
	r.seen[id] = now
	return true
}

func newReceiver(secret string, work func(event)) *receiver {
	return &receiver{secret: secret, now: time.Now, work: work, seen: map[string]time.Time{}}
}

func main() {
	secret := os.Getenv("WEBHOOK_SECRET") // whsec_…, from the answer that made the subscription
	if secret == "" {
		log.Fatal("set WEBHOOK_SECRET")
	}
	server := &http.Server{
		Addr: ":9000", ReadTimeout: 10 * time.Second,
		Handler: newReceiver(secret, func(e event) { log.Println(e.Type, e.ID) }),
	}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}
