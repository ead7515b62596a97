package connectorclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"agentd/internal/base/fault"
	"agentd/internal/delivery/integration"
	"agentd/internal/wire/outbound"
)

const (
	// queryTime bounds a query with its connection.
	queryTime = 30 * time.Second
	// maxResult is how many bytes of a result are kept.
	maxResult = 48 << 10
	// maxMessage is how many bytes a message of the server may have. A row is a message, which
	// is in memory as a whole.
	maxMessage = 8 << 20
	// maxConversation is how many bytes are read of a connection, which serves one query.
	maxConversation = 64 << 20
)

// Databases implements integration.Databases with PostgreSQL.
type Databases struct {
	Guarded *outbound.Client
}

var _ integration.Databases = Databases{}

// Query implements integration.Databases. The statement runs alone in a transaction
// that can only read, and that is rolled back: PostgreSQL refuses to make it writable
// once a statement has run in it.
func (p Databases) Query(ctx context.Context, d *integration.Database, sql string, args []any, maxRows int) (*integration.Rows, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	conn, err := p.connect(ctx, d)
	if err != nil {
		return nil, unavailable(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, unavailable(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	timeout := strconv.FormatInt(queryTime.Milliseconds(), 10)
	if _, err := tx.Exec(ctx, "SELECT set_config('statement_timeout', $1, true)", timeout); err != nil {
		return nil, unavailable(err)
	}
	rows, err := tx.Query(ctx, sql, append([]any{pgx.QueryExecModeExec, pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)...)
	if err != nil {
		return nil, refused(err)
	}
	defer rows.Close()
	out, err := read(rows, maxRows)
	if err != nil {
		return nil, refused(err)
	}
	if out.More {
		cancel() // so that the rest is not read
	}
	return out, nil
}

// connect opens a connection. Nothing of it comes from this process's environment or
// files, which are the operator's.
func (p Databases) connect(ctx context.Context, d *integration.Database) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("host=localhost port=5432 user=nobody password=none dbname=none sslmode=disable passfile='' servicefile=''")
	if err != nil {
		return nil, err
	}
	config.Host, config.Port, config.Database = d.Host, uint16(d.Port), d.Name
	config.User, config.Password, config.Fallbacks = d.User, d.Password.Reveal(), nil
	config.RuntimeParams = map[string]string{"application_name": "agentd", "default_transaction_read_only": "on"}
	config.ConnectTimeout = 10 * time.Second
	config.DialFunc = p.Guarded.Dial
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		frontend := pgproto3.NewFrontend(io.LimitReader(r, maxConversation), w)
		frontend.SetMaxBodyLen(maxMessage)
		return frontend
	}
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) {
		return []string{host}, nil // Dial looks it up, and checks what it resolves to
	}
	switch d.TLS {
	case integration.TLSOff:
	case integration.TLSOn:
		//nolint:gosec // the tenant chose not to check the certificate
		config.TLSConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	default:
		config.TLSConfig = &tls.Config{ServerName: d.Host, MinVersion: tls.VersionTLS12}
	}
	return pgx.ConnectConfig(ctx, config)
}

func read(rows pgx.Rows, maxRows int) (*integration.Rows, error) {
	out := &integration.Rows{Columns: []string{}, Rows: [][]any{}}
	size := 0
	for _, f := range rows.FieldDescriptions() {
		if size += len(f.Name) + 1; size > maxResult {
			out.More = true
			return out, nil
		}
		out.Columns = append(out.Columns, f.Name)
	}
	for rows.Next() {
		if len(out.Rows) == maxRows || size > maxResult {
			out.More = true
			break
		}
		row := make([]any, 0, len(out.Columns))
		for _, value := range rows.RawValues() {
			size += len(value) + 1
			if value == nil {
				row = append(row, nil)
				continue
			}
			text := string(value[:min(len(value), maxResult)])
			row = append(row, strings.ToValidUTF8(text, "\ufffd"))
		}
		out.Rows = append(out.Rows, row)
	}
	return out, rows.Err()
}

// refused returns the error of a statement: the model can fix most of them.
func refused(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fault.New(fault.Invalid, "", "PostgreSQL refuses the query (%.500s).", e.Message).Because(err)
	}
	if e, ok := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); ok {
		return fault.New(fault.Invalid, "", "A row of the result has %d bytes, and at most %d are read. "+
			"Select fewer columns, or only the beginning of long ones with left(column, 1000).", e.ActualBodyLen, maxMessage).Because(err)
	}
	return unavailable(err)
}

func unavailable(err error) error {
	if outbound.IsDenied(err) {
		if e, ok := errors.AsType[*fault.Error](err); ok {
			return e
		}
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fault.New(fault.Unavailable, "EXTERNAL_SERVICE_ERROR", "PostgreSQL refuses the connection (%.300s).", e.Message).Because(err)
	}
	if e, ok := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); ok {
		return fault.New(fault.Unavailable, "EXTERNAL_SERVICE_ERROR",
			"The database sends a message of %d bytes, and at most %d are read.", e.ActualBodyLen, maxMessage).Because(err)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fault.New(fault.Unavailable, "EXTERNAL_SERVICE_ERROR",
			"The certificate of the database is not valid for its name; set config.tls to on to encrypt without checking it.").Because(err)
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return fault.New(fault.Unavailable, "HOST_UNKNOWN", "The host name of the database does not exist.").Because(err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.New(fault.Unavailable, "EXTERNAL_SERVICE_ERROR", "The database did not answer in time.").Because(err)
	}
	return fault.New(fault.Unavailable, "EXTERNAL_SERVICE_ERROR",
		"The database cannot be reached, or does not support the encryption that config.tls asks for.").
		Because(fmt.Errorf("postgres: %w", err))
}
