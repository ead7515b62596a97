package mail_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/work"
	"agentd/internal/kernel/work/worktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// office is a post with its runner in a bubble, whose server answers as the test sets it.
type office struct {
	*mail.Post
	*worktest.Queue
	t      *testing.T
	start  time.Time
	runner *work.Runner
	log    bytes.Buffer

	mu       sync.Mutex
	tries    []string // when and which
	letters  []mail.Letter
	sending  int
	answer   func(try int) error
	outcomes map[mail.Outcome]int
}

func bubble(t *testing.T, test func(o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &office{t: t, start: time.Now(), outcomes: map[mail.Outcome]int{}, answer: func(int) error { return nil }}
		o.Queue = worktest.NewQueue(clock.System{}, func(string) { o.runner.Wake() })
		o.Post = mail.NewPost(o.config(t, server{o}))
		o.runner = work.NewRunner(work.Config{
			Kind: mail.WorkKind, Owner: "n1", Queue: o.Queue, Handler: o.Handle, Backoff: mail.Backoff, Logger: slog.New(slog.DiscardHandler),
		})
		if err := o.runner.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := o.runner.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		test(o)
	})
}

func (o *office) config(t *testing.T, sender mail.Sender) mail.Config {
	t.Helper()
	box, err := secret.NewBox(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	return mail.Config{
		Queue: o.Queue, Writer: o.Queue, Box: box, Sender: sender, Logger: slog.New(slog.NewTextHandler(&o.log, nil)),
		Observe: func(outcome mail.Outcome) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.outcomes[outcome]++
		},
	}
}

// send is the server: it takes a second.
func (o *office) send(ctx context.Context, l mail.Letter) error {
	o.mu.Lock()
	o.tries = append(o.tries, fmt.Sprint(l.Subject, " ", time.Since(o.start)))
	o.sending++
	if o.sending > 1 {
		o.t.Error("a letter is sent twice at once")
	}
	answer := o.answer(len(o.tries))
	o.mu.Unlock()
	<-time.After(time.Second)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending--
	if answer == nil {
		o.letters = append(o.letters, l)
	}
	return answer
}

type server struct{ *office }

func (s server) Send(ctx context.Context, l mail.Letter) error { return s.send(ctx, l) }

func (o *office) post(m mail.Message) {
	o.t.Helper()
	if err := o.Write(o.t.Context(), func(tx txn.Tx) error { return o.Post.Send(tx, "acme", m) }); err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (o *office) left() bool {
	due, err := o.GetNextDue(o.t.Context(), mail.WorkKind)
	if err != nil {
		o.t.Error(err)
	}
	return !due.IsZero()
}

var hello = mail.Message{To: "ann@example.com", Subject: "Hello", Text: "secret"}

func TestSent(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *office) {
		o.post(hello)
		o.pass(10 * time.Second)
		if len(o.letters) != 1 || o.letters[0].ID == "" || o.letters[0].Message != hello || o.left() || o.outcomes[mail.Sent] != 1 {
			t.Errorf("letters %v, left %t, %v", o.letters, o.left(), o.outcomes)
		}
	})
}

func TestTriedAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *office) {
		ids := map[string]bool{}
		o.answer = func(try int) error {
			if try < 4 {
				return errors.New("busy")
			}
			return nil
		}
		o.post(hello)
		o.pass(time.Hour)
		for _, l := range o.letters {
			ids[l.ID] = true
		}
		want := []string{"Hello 0s", "Hello 11s", "Hello 1m12s", "Hello 6m13s"}
		if diff := cmp.Diff(want, o.tries); diff != "" || len(ids) != 1 || o.left() {
			t.Errorf("%s ids %v, left %t", diff, ids, o.left())
		}
		if want := (map[mail.Outcome]int{mail.Delayed: 3, mail.Sent: 1}); !cmp.Equal(want, o.outcomes) {
			t.Errorf("outcomes %v", o.outcomes)
		}
	})
}

func TestDropped(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		until  time.Duration
		answer error
		tries  int
		log    string
	}{
		"refused":      {0, fmt.Errorf("%w: no such mailbox", mail.ErrRefused), 1, "no such mailbox"},
		"never works":  {0, errors.New("busy"), 7, "tried often enough"},
		"of no use":    {10 * time.Minute, errors.New("busy"), 4, "of no use any more"},
		"late already": {-time.Second, nil, 0, "of no use any more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(o *office) {
				o.answer = func(int) error { return tt.answer }
				m := hello
				if tt.until != 0 {
					m.Until = time.Now().Add(tt.until)
				}
				o.post(m)
				o.pass(24 * time.Hour)
				if len(o.tries) != tt.tries || o.left() || o.outcomes[mail.Dropped] != 1 || len(o.letters) > 0 {
					t.Errorf("tries %v, left %t, outcomes %v", o.tries, o.left(), o.outcomes)
				}
				if log := o.log.String(); !strings.Contains(log, tt.log) || strings.Contains(log, "secret") {
					t.Errorf("log %s", log)
				}
			})
		})
	}
}

// A letter is part of what happened, or it is not.
func TestPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *office) {
		sorry := errors.New("sorry")
		err := o.Write(o.t.Context(), func(tx txn.Tx) error {
			if err := o.Post.Send(tx, "acme", hello); err != nil {
				return err
			}
			return sorry
		})
		o.pass(time.Minute)
		if !errors.Is(err, sorry) || len(o.tries) > 0 {
			t.Errorf("%v, tries %v", err, o.tries)
		}
	})
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *office) {
		none := mail.NewPost(o.config(t, nil))
		if none.Configured() || !o.Configured() {
			t.Error("configured or not, it says otherwise")
		}
		if err := o.Write(o.t.Context(), func(tx txn.Tx) error { return none.Send(tx, "", hello) }); err != nil {
			t.Error(err)
		}
		o.pass(time.Minute)
		if len(o.tries) > 0 {
			t.Errorf("tries %v", o.tries)
		}
		// A letter from when there was one.
		held := o.sealed(hello)
		if err := none.Handle(o.t.Context(), held); err != nil || o.outcomes[mail.Dropped] != 1 {
			t.Errorf("%v, %v", err, o.outcomes)
		}
	})
}

// sealed is a letter that the runner does not see.
func (o *office) sealed(m mail.Message) work.Lease {
	o.t.Helper()
	if err := o.runner.Stop(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
	o.post(m)
	held, err := o.Claim(o.t.Context(), mail.WorkKind, "n2", 1, time.Minute)
	if err != nil || len(held) != 1 {
		o.t.Fatalf("%v, %v", held, err)
	}
	return held[0]
}

func TestSealed(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *office) {
		held := o.sealed(hello)
		if bytes.Contains(held.Payload, []byte("secret")) || bytes.Contains(held.Payload, []byte("ann@")) {
			t.Errorf("payload %s", held.Payload)
		}
		for name, spoil := range map[string]func(l *work.Lease){
			"another's": func(l *work.Lease) { l.TenantID = "other" },
			"no JSON":   func(l *work.Lease) { l.Payload = []byte("x") },
		} {
			bad := held
			spoil(&bad)
			if err := o.Handle(o.t.Context(), bad); err != nil && !errors.Is(err, work.ErrLost) {
				t.Errorf("%s: %v", name, err)
			}
			if len(o.letters) > 0 {
				t.Errorf("%s: it was sent", name)
			}
			held = o.again(held)
		}
	})
}

// again returns another attempt at an email that a test dropped.
func (o *office) again(held work.Lease) work.Lease {
	o.t.Helper()
	if err := o.Write(o.t.Context(), func(tx txn.Tx) error {
		return errors.Join(o.DeleteTx(tx, held.Kind, held.Key), o.EnqueueTx(tx, work.Item{Kind: held.Kind, Key: held.Key, TenantID: held.TenantID, Payload: held.Payload}))
	}); err != nil {
		o.t.Fatal(err)
	}
	all, err := o.Claim(o.t.Context(), mail.WorkKind, "n2", 1, time.Minute)
	if err != nil || len(all) != 1 {
		o.t.Fatalf("%v, %v", all, err)
	}
	return all[0]
}

func TestBadLetters(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *office) {
		for _, to := range []string{"", "ann", "Ann <ann@example.com>", "ann@example.com\r\nBcc: eve@example.com", "a@example.com, b@example.com"} {
			err := o.Write(o.t.Context(), func(tx txn.Tx) error { return o.Post.Send(tx, "", mail.Message{To: to}) })
			if err == nil {
				t.Errorf("to %q it goes", to)
			}
		}
		o.post(mail.Message{To: "ann@example.com", Subject: "Join Acme\r\nBcc: eve@example.com\u2028now"})
		o.pass(time.Minute)
		if len(o.letters) != 1 || o.letters[0].Subject != "Join Acme Bcc: eve@example.com now" {
			t.Errorf("letters %v", o.letters)
		}
	})
}

// A letter that a stopping node holds is another's at once, and no attempt.
func TestStopped(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *office) {
		o.answer = func(int) error { return context.Canceled }
		o.post(hello)
		o.pass(500 * time.Millisecond) // in the middle of it
		if err := o.runner.Stop(o.t.Context()); err != nil {
			t.Fatal(err)
		}
		held, err := o.Claim(o.t.Context(), mail.WorkKind, "n2", 1, time.Minute)
		if err != nil || len(held) != 1 || held[0].Attempt != 1 {
			t.Errorf("%v, %v", held, err)
		}
		if len(o.outcomes) > 0 {
			t.Errorf("outcomes %v", o.outcomes)
		}
	})
}
