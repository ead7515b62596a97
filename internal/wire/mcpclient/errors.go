package mcpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/fault"
	"agentd/internal/base/text"
)

// codeBusy is the code of failures of agentd, not of the server.
const codeBusy = "SERVICE_UNAVAILABLE"

// Codes of servers' failures.
const (
	codeUnreachable = "MCP_UNREACHABLE"
	codeTimeout     = "MCP_TIMEOUT"
)

var errTooBig = errors.New("mcpclient: the answer is too large")

// sdkCodes are the codes of the SDK's own failures, which look like a server's answer.
var sdkCodes = map[int64]bool{-32003: true, -32004: true, -32005: true}

// isServerError reports whether an error is the server's answer over a working
// connection.
func isServerError(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && !sdkCodes[e.Code] && !errors.Is(err, mcp.ErrUnauthorized) && !errors.Is(err, sdk.ErrConnectionClosed)
}

// serverMessage returns the sentence of a server's error.
func serverMessage(err error) (string, bool) {
	if err == nil || !isServerError(err) {
		return "", false
	}
	e, _ := errors.AsType[*jsonrpc.Error](err)
	return sentence(e.Message, 500) + ".", true
}

func timeoutError(name string, limit time.Duration) error {
	return fault.New(fault.Unavailable, codeTimeout,
		"The MCP server %s did not answer within %v. Whether the request took effect is unknown.", name, limit)
}

func leftAlone(name string, failures int, wait time.Duration) error {
	e := fault.New(fault.Unavailable, "", "The MCP server %s failed %d times in a row; it is tried again in %v.", name, failures,
		wait.Round(time.Second))
	e.RetryAfter = wait
	return e
}

func unusable(name, why string, cause error) error {
	return fault.New(fault.Unavailable, codeUnreachable, "The MCP server %s cannot be used: %s", name, why).Because(cause)
}

// publicError returns an error that can be shown to the tenant: it contains neither
// addresses nor headers.
func publicError(name string, err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return fault.New(fault.Unavailable, mcp.CodeUnresolved, "The host of the MCP server's URL has no address.").Because(err)
	}
	return unusable(name, reason(err), err)
}

func reason(err error) string {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errTooBig):
		return "an answer is larger than a message may be."
	case errors.Is(err, errEndlessList):
		return "its list of tools has no end."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses connections."
	case certificate:
		return "its certificate is not valid."
	case errors.Is(err, context.DeadlineExceeded), isNet && netErr.Timeout():
		return "it does not answer in time."
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, sdk.ErrConnectionClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "it closed the connection. Whether a request in progress took effect is unknown."
	}
	if _, sent := errors.AsType[*url.Error](err); sent {
		return "the request failed in transit."
	}
	return "it does not speak the protocol: " + sentence(err.Error(), 200) + "."
}

// sentence returns what a server wrote as one line of at most limit bytes,
// without the full stop that the caller's sentence adds.
func sentence(s string, limit int) string {
	return text.PrefixBytes(strings.TrimRight(text.OneLine(s), "."), limit)
}
