package load

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// stamp stands before and after the time of sending in a text that streams carry.
var stamp = []byte("@@")

// Stamp returns a text with the time at which it is sent, to be published.
func Stamp() string {
	return string(stamp) + strconv.FormatInt(time.Now().UnixNano(), 10) + string(stamp)
}

// Readers are open event streams, each over a connection of its own, that
// note how long every stamped text was under way.
type Readers struct {
	open []*streamReader
	done sync.WaitGroup
}

type streamReader struct {
	tcp   net.Conn
	mu    sync.Mutex
	waits []time.Duration
	last  int64 // the latest stamp: what comes again is not counted again
	lost  error // why it ended; nil: it has not
}

// handshakes is how many streams are opened at once.
const handshakes = 32

// OpenStreams opens n streams of a server; path returns the path of the i-th.
func OpenStreams(addr, key string, n int, path func(i int) string) (*Readers, error) {
	return OpenEach(addr, n, func(i int) Request { return Request{Method: "GET", Path: path(i), Key: key} })
}

// OpenEach is OpenStreams with other requests.
func OpenEach(addr string, n int, request func(i int) Request) (*Readers, error) {
	r := &Readers{open: make([]*streamReader, n)}
	failed := make([]error, n)
	slots := make(chan struct{}, handshakes)
	var opening sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		opening.Go(func() {
			defer func() { <-slots }()
			r.open[i], failed[i] = r.connect(addr, request(i).bytes(addr, 0))
		})
	}
	opening.Wait()
	if err := errors.Join(failed...); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// connect returns once the head of the answer is there.
func (r *Readers) connect(addr string, request []byte) (*streamReader, error) {
	tcp, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &streamReader{tcp: tcp}
	if err := tcp.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	if _, err := tcp.Write(request); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	buf, have := make([]byte, 2048), 0
	for {
		n, err := tcp.Read(buf[have:])
		if err != nil {
			return nil, errors.Join(err, tcp.Close())
		}
		have += n
		head, rest, found := bytes.Cut(buf[:have], []byte("\r\n\r\n"))
		if !found {
			continue
		}
		if !bytes.Contains(head, []byte(" 200 ")) {
			return nil, errors.Join(fmt.Errorf("a stream was refused: %.300s", buf[:have]), tcp.Close())
		}
		if err := tcp.SetReadDeadline(time.Time{}); err != nil {
			return nil, errors.Join(err, tcp.Close())
		}
		have = copy(buf, rest)
		r.done.Go(func() { s.follow(buf, have) })
		return s, nil
	}
}

// follow reads until the stream ends. buf holds what was read already.
func (s *streamReader) follow(buf []byte, have int) {
	for {
		from := 0
		s.mu.Lock()
		for {
			at := bytes.Index(buf[from:have], stamp)
			if at < 0 {
				from = max(from, have-1) // half a stamp may stand there
				break
			}
			from += at
			text, _, whole := bytes.Cut(buf[from+len(stamp):have], stamp)
			if !whole {
				break
			}
			from += 2*len(stamp) + len(text)
			if sent, err := strconv.ParseInt(string(text), 10, 64); err == nil && sent > s.last {
				s.last = sent
				s.waits = append(s.waits, time.Duration(time.Now().UnixNano()-sent))
			}
		}
		s.mu.Unlock()
		have = copy(buf, buf[from:have])
		if have == len(buf) {
			have = 0 // no stamp is that long
		}
		n, err := s.tcp.Read(buf[have:])
		have += n
		if err != nil {
			s.mu.Lock()
			s.lost = err
			s.mu.Unlock()
			return
		}
	}
}

// Waits returns the delays of the stamped texts that arrived since the last
// call, and the number of streams that have ended.
func (r *Readers) Waits() (all []time.Duration, ended int) {
	for _, s := range r.open {
		s.mu.Lock()
		all = append(all, s.waits...)
		s.waits = nil
		if s.lost != nil {
			ended++
		}
		s.mu.Unlock()
	}
	return all, ended
}

// Close leaves.
func (r *Readers) Close() {
	for _, s := range r.open {
		if s != nil {
			s.tcp.Close()
		}
	}
	r.done.Wait()
}

// Quantile returns a quantile of durations, which it sorts.
func Quantile(of []time.Duration, q float64) time.Duration { return quantile(of, q) }
