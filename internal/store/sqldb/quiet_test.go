//go:build unix

package sqldb

import (
	"net"
	"testing"
	"time"
)

// pair returns the two ends of a connection.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err == nil {
		far, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before func(t *testing.T, near, far net.Conn)
		want   bool
	}{
		"idle": {func(*testing.T, net.Conn, net.Conn) {}, true},
		// pgx leaves such a reader after a write that took more than 15 ms.
		"with a reader": {func(t *testing.T, near, far net.Conn) {
			reading, read := make(chan struct{}), make(chan struct{})
			go func() {
				close(reading)
				_, _ = near.Read(make([]byte, 1)) // until far closes
				close(read)
			}()
			<-reading
			time.Sleep(10 * time.Millisecond) // there is no way to see that it waits
			t.Cleanup(func() { far.Close(); <-read })
		}, true},
		"ended": {func(t *testing.T, near, far net.Conn) { far.Close(); settle(t, near, false) }, false},
		"told": {func(t *testing.T, near, far net.Conn) {
			if _, err := far.Write([]byte("FATAL")); err != nil {
				t.Fatal(err)
			}
			settle(t, near, false)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := pair(t)
			test.before(t, near, far)
			got := make(chan bool, 1)
			go func() { got <- quiet(near) }()
			select {
			case is := <-got:
				if is != test.want {
					t.Errorf("it is %t", is)
				}
			case <-time.After(5 * time.Second):
				t.Error("it waits")
			}
		})
	}
}

// settle waits until what the other end did has arrived.
func settle(t *testing.T, near net.Conn, want bool) {
	t.Helper()
	for range 500 {
		if quiet(near) == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nothing arrives")
}
