package httpapi

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateCheck is how often the files of a certificate are looked at, at most.
const certificateCheck = time.Second

// Certificate is a TLS certificate that is read again when its files change. It
// is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	read    [2]fileVersion // of the files of current, or of the last attempt
	checked time.Time
}

// fileVersion tells two contents of a file apart.
type fileVersion struct {
	changed time.Time
	size    int64
}

// LoadCertificate reads a certificate and its key.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	read, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("the certificate cannot be read: %w", err)
	}
	c.current, c.read, c.checked = &read, c.versions(), time.Now()
	return c, nil
}

func (c *Certificate) versions() (v [2]fileVersion) {
	for i, path := range []string{c.certFile, c.keyFile} {
		if info, err := os.Stat(path); err == nil {
			v[i] = fileVersion{info.ModTime(), info.Size()}
		}
	}
	return v
}

// Config returns the configuration of a listener: TLS 1.2 or newer, and HTTP/1.1,
// because a stream takes over its connection (docs/adr/0028).
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: c.get}
}

// get implements tls.Config.GetCertificate. Where the changed files cannot be
// used, the certificate of before stays.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.checked) < certificateCheck {
		return c.current, nil
	}
	c.checked = now
	versions := c.versions()
	if versions == c.read {
		return c.current, nil
	}
	c.read = versions
	read, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		c.log.Warn("the changed TLS certificate cannot be used; the one of before stays", "err", err)
		return c.current, nil
	}
	c.current = &read
	c.log.Info("the TLS certificate was read again")
	return c.current, nil
}
