package bridgeserver

import (
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/teams/bridge"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"type":"heartbeat"}`:                  true,
		`{"type":"hello","machine_id":"m"}`:     true,
		`{"type":"new","of":"a newer machine"}`: true,
		`{"type":""}`:                           false,
		`{"machine_id":"m"}`:                    false,
		`{"type":"hello","type":"hello"}`:       false,
		`{"type":"hello","machine_id":7}`:       false,
		`[]`:                                    false,
		`{"type":"hello"} {}`:                   false,
		``:                                      false,
	} {
		if _, ok := decode([]byte(text)); ok != want {
			t.Errorf("%s: %t", text, ok)
		}
	}
}

// A machine may send a burst, and then as many frames as a second brings.
func TestFloods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &connection{left: framesAtOnce, filled: time.Now()}
		burst := func() (n int) {
			for c.mayGo() {
				n++
			}
			return n
		}
		if n := burst(); n != framesAtOnce {
			t.Errorf("a burst has %d frames", n)
		}
		time.Sleep(time.Second)
		if n := burst(); n > framesASecond || n < framesASecond-2 { // the frame that was refused counts too
			t.Errorf("%d frames after a second", n)
		}
		time.Sleep(time.Hour)
		if n := burst(); n != framesAtOnce {
			t.Errorf("%d frames after an hour", n)
		}
	})
}

// Whatever a machine sends is a frame or is refused; events are decoded as in a request.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"type":"auth","token":"svc_x"}`, `{"type":"hello","machine_id":"m"}`, `{"type":"heartbeat"}`,
		`{"type":"events","id":"1","task_id":"t","events":[{"type":"status","timestamp":"2026-11-27T12:00:00Z"}]}`,
		`{"type":"events","events":{"type":"status","timestamp":"2026-11-27T12:00:00Z"}}`, `{"type":"events"}`, `{}`, `null`, "\xff", `{"type":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, ok := decode(data)
		if !ok {
			return
		}
		if frame.Type == "" || len(frame.Type)+len(frame.ID)+len(frame.TaskID)+len(frame.MachineID)+len(frame.Token)+len(frame.Events) > 3*len(data) {
			t.Errorf("%q is decoded as %+v", data, frame)
		}
		if _, err := bridge.DecodeEvents(frame.Events); err != nil && fault.From(err).Kind == fault.Internal {
			t.Errorf("%q is answered as a failure of the service: %v", data, err)
		}
	})
}
