package connectorclient_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/delivery/integration"
	"agentd/internal/wire/connectorclient"
	"agentd/internal/wire/outbound"
)

// huge announces a message of 1,000,000,000 bytes, none of which comes.
func huge(kind byte) []byte { return binary.BigEndian.AppendUint32([]byte{kind}, 1_000_000_004) }

// fakePostgres answers the start of one connection, if it welcomes it, and then sends
// what it is given.
func fakePostgres(t *testing.T, welcomes bool, then []byte) *integration.Database {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		server := pgproto3.NewBackend(conn, conn)
		if _, err := server.ReceiveStartupMessage(); err != nil {
			return
		}
		if welcomes {
			server.Send(&pgproto3.AuthenticationOk{})
			server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			if server.Flush() != nil {
				return
			}
			if _, err := server.Receive(); err != nil { // the beginning of the transaction
				return
			}
		}
		if _, err := conn.Write(then); err != nil {
			return
		}
		_, _ = conn.Read(make([]byte, 1)) // until the client goes
	}()
	return &integration.Database{
		Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Name: "shop", User: "u", Password: secret.New("p"), TLS: integration.TLSOff,
	}
}

// A server that a tenant names cannot make this process keep, or wait for, a message of
// any size.
func TestMessagesOfPostgresAreBounded(t *testing.T) {
	allow, err := outbound.ParseAllow("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	guarded := outbound.New(outbound.Config{Allow: allow})
	t.Cleanup(guarded.Close)
	for name, d := range map[string]*integration.Database{
		"before the welcome": fakePostgres(t, false, huge('N')),
		"a notice":           fakePostgres(t, true, huge('N')),
		"a row":              fakePostgres(t, true, huge('D')),
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := connectorclient.Databases{Guarded: guarded}.Query(t.Context(), d, "SELECT 1", nil, 10)
			runtime.ReadMemStats(&after)
			if err == nil || after.TotalAlloc-before.TotalAlloc > 200<<20 {
				t.Errorf("%v, with %d bytes", err, after.TotalAlloc-before.TotalAlloc)
			}
			if f := fault.From(err); f.Kind != fault.Unavailable || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the error is %v", f)
			}
		})
	}
}
