package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"agentd/internal/base/fault"
)

// Reason returns a sentence on why a call had no answer, for the tenant that chose its
// address. It reveals nothing about the operator's network: a name that resolves only
// inside reads like an unknown one, and it contains neither addresses nor the text of
// an error.
func Reason(err error) string {
	if sentence := tlsReason(err); sentence != "" {
		return sentence
	}
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.Invalid { // of the URL itself
		return e.Detail
	}
	dns, lookup := errors.AsType[*net.DNSError](err)
	timeout, timed := errors.AsType[net.Error](err)
	text := err.Error() // net/http names these failures in words only
	switch {
	case errors.Is(err, errRule):
		return "The egress rules of this company do not allow the host; the operator can add it to egress_allowlist."
	case IsDenied(err), lookup && dns.IsNotFound:
		return "The host has no address on the public internet: it is unknown, or private."
	case lookup:
		return "The host's name could not be looked up."
	case errors.Is(err, ErrTooLarge):
		return "The answer is larger than may be read."
	case errors.Is(err, ErrRedirects):
		return "The host redirects too often."
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), timed && timeout.Timeout():
		return "The host did not answer in time."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "The host refused the connection."
	case strings.Contains(text, "response headers exceeded"), strings.Contains(text, "too many 1xx"), strings.Contains(text, "header list"):
		return "The host's answer has more headers than are read."
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		strings.Contains(text, "server closed idle connection"), strings.Contains(text, "http2: server sent GOAWAY"),
		strings.Contains(text, "stream error"):
		return "The host closed the connection before its answer was complete."
	case strings.Contains(text, "malformed"), strings.Contains(text, "transport connection broken"), strings.Contains(text, "protocol error"),
		strings.Contains(text, "readLoopPeekFail"), // it sent data before the request
		errors.Is(err, errSwitched):
		return "The host's answer is not HTTP."
	}
	return "The host could not be reached."
}

// tlsReason returns what is wrong with a connection's TLS, or "".
func tlsReason(err error) string {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &name):
		return "The host's certificate is for another name."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "The host's certificate has expired, or is not valid yet."
	case errors.As(err, &verification), errors.As(err, &invalid):
		return "The host's certificate cannot be trusted: it must be signed by a public authority, and sent with its chain."
	case errors.As(err, &record):
		return "The host does not speak TLS at this port; check https and http in the URL."
	case errors.As(err, &alert), strings.Contains(err.Error(), "tls: ") && !strings.Contains(err.Error(), "tls: use of closed connection"):
		return "The host and agentd did not agree on TLS; TLS 1.2 or newer is spoken."
	}
	return ""
}
