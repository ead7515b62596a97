//go:build unix

package sqldb

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// quiet reports whether a connection that is not in use is open and has nothing to
// read. A server that ends a connection sends why.
func quiet(link net.Conn) bool {
	if t, ok := link.(*tls.Conn); ok {
		link = t.NetConn()
	}
	sc, ok := link.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	var peeked error
	// Not Read: pgx may have left a reader in the background, after a write that took
	// long, and Read would wait for it.
	err = raw.Control(func(fd uintptr) {
		_, _, peeked = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && errors.Is(peeked, syscall.EAGAIN)
}
