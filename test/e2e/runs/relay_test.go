package runs

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
)

// relay passes connections on to a server, and can refuse and cut them as a server
// that is down does.
type relay struct {
	t        testing.TB
	address  string
	upstream string

	mu       sync.Mutex
	listener net.Listener // nil: down
	open     map[net.Conn]bool
	copying  sync.WaitGroup
}

func newRelay(t testing.TB, upstream string) *relay {
	t.Helper()
	r := &relay{t: t, address: "127.0.0.1:0", upstream: upstream, open: map[net.Conn]bool{}}
	r.up()
	t.Cleanup(func() {
		r.down()
		r.copying.Wait()
	})
	return r
}

func (r *relay) up() {
	l, err := net.Listen("tcp", r.address)
	if err != nil {
		r.t.Errorf("the relay cannot listen: %v", err)
		return
	}
	r.mu.Lock()
	r.listener, r.address = l, l.Addr().String()
	r.mu.Unlock()
	r.copying.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.copying.Go(func() { r.pass(c) })
		}
	})
}

// down refuses new connections, and cuts those that are open.
func (r *relay) down() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener == nil {
		return
	}
	_ = r.listener.Close() // it is a test's
	r.listener = nil
	for c := range r.open {
		_ = c.Close()
	}
}

func (r *relay) pass(c net.Conn) {
	defer c.Close()
	network := "tcp"
	if filepath.IsAbs(r.upstream) {
		network = "unix"
	}
	to, err := net.Dial(network, r.upstream)
	if err != nil {
		return
	}
	defer to.Close()
	r.mu.Lock()
	if r.listener == nil {
		r.mu.Unlock()
		return
	}
	r.open[c] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.open, c)
		r.mu.Unlock()
	}()
	ended := make(chan struct{}, 2)
	for from, into := range map[net.Conn]net.Conn{c: to, to: c} {
		go func() {
			_, _ = io.Copy(into, from) // a connection that was cut
			ended <- struct{}{}
		}()
	}
	<-ended
	_, _ = c.Close(), to.Close()
	<-ended
}

// throughRelay returns the address of a PostgreSQL, which may be a socket, and the
// database's URL with another one in its place.
func throughRelay(t testing.TB, database string) (upstream string, at func(address string) string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	upstream = u.Host
	if dir := query.Get("host"); dir != "" {
		port := query.Get("port")
		if port == "" {
			port = "5432"
		}
		upstream = filepath.Join(dir, ".s.PGSQL."+port)
	}
	query.Del("host")
	query.Del("port")
	return upstream, func(address string) string {
		through := *u
		through.Host, through.RawQuery = address, query.Encode()
		return through.String()
	}
}
