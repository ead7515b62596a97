package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// conn is one keep-alive connection that speaks as much HTTP/1.1 as the
// measured servers answer. It exists because net/http's client takes more CPU
// than some of the servers, on the same two cores.
type conn struct {
	addr string
	tcp  net.Conn
	in   *bufio.Reader
	body []byte // of the last answer; valid until the next exchange
}

// answer is one exchange. Marked is when the mark was first seen in the body,
// counted from sending; zero if it was not.
type answer struct {
	status        int
	marked, total time.Duration
}

// limit is the longest that one exchange may take.
const limit = 60 * time.Second

// exchange sends a request and reads the whole answer. After an error the next
// exchange opens a new connection.
func (c *conn) exchange(request, mark []byte) (a answer, err error) {
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.tcp == nil {
		if c.tcp, err = net.Dial("tcp", c.addr); err != nil {
			return a, err
		}
		c.in = bufio.NewReaderSize(c.tcp, 16<<10)
	}
	start := time.Now()
	if err := c.tcp.SetDeadline(start.Add(limit)); err != nil {
		return a, err
	}
	if _, err := c.tcp.Write(request); err != nil {
		return a, err
	}
	length, chunked, err := c.head(&a)
	if err != nil {
		return a, err
	}
	c.body = c.body[:0]
	for more := true; more; {
		n := length
		if chunked {
			if n, err = c.chunkSize(); err != nil {
				return a, err
			}
		}
		more = chunked && n > 0
		if err := c.take(n); err != nil {
			return a, err
		}
		if a.marked == 0 && len(mark) > 0 && bytes.Contains(c.body, mark) {
			a.marked = time.Since(start)
		}
		if chunked {
			if _, err := c.in.Discard(len("\r\n")); err != nil {
				return a, err
			}
		}
	}
	a.total = time.Since(start)
	return a, nil
}

func (c *conn) close() {
	if c.tcp != nil {
		c.tcp.Close()
		c.tcp = nil
	}
}

// head reads the status line and the headers.
func (c *conn) head(a *answer) (length int, chunked bool, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, false, err
	}
	if len(line) < len("HTTP/1.1 200\r\n") {
		return 0, false, fmt.Errorf("status line %q", line)
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, false, err
	}
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, false, err
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			return length, chunked, nil
		}
		switch value = bytes.TrimSpace(value); {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, false, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		case bytes.EqualFold(name, []byte("Connection")) && bytes.EqualFold(value, []byte("close")):
			return 0, false, errors.New("the server does not keep connections alive")
		}
	}
}

func (c *conn) chunkSize() (int, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
	return int(n), err
}

// take appends the next n bytes to the body.
func (c *conn) take(n int) error {
	from := len(c.body)
	if cap(c.body) < from+n {
		c.body = append(make([]byte, 0, 2*(from+n)), c.body...)
	}
	c.body = c.body[:from+n]
	_, err := io.ReadFull(c.in, c.body[from:])
	return err
}
