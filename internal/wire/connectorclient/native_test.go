package connectorclient_test

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/wire/smtpmail/smtptest"
)

// Queries of a model can only read: no statement that it finds writes, and results are
// bounded.
func TestPostgres(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	stop, err := sqldbtest.StartDurable(port, "shop")
	if errors.Is(err, sqldbtest.ErrNotInstalled) && os.Getenv("AGENTD_TEST_REQUIRE_POSTGRES") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	conn, err := pgx.Connect(t.Context(), "postgres://postgres@127.0.0.1:"+port+"/shop?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE orders (id bigint PRIMARY KEY, note text); INSERT INTO orders VALUES (1, 'first'), (2, NULL)"); err != nil {
		t.Fatal(err)
	}
	f := onSQLite(t)
	number, _ := strconv.Atoi(port)
	made := f.add("postgres", object{"host": "127.0.0.1", "port": number, "database": "shop", "user": "postgres", "password": "x", "tls": "off"})
	if made["status"] != "active" {
		t.Fatalf("the integration is %v", made)
	}
	for sql, want := range map[string]string{
		"SELECT id, note FROM orders ORDER BY id":                     `{"columns":["id","note"],"rows":[["1","first"],["2",null]],"more":false}`,
		"SELECT generate_series(1, 100000000)":                        `"more":true`,
		"SELECT repeat('x', 1000000)":                                 `"columns":["repeat"]`,
		"SELECT repeat('x', 10000000)":                                "and at most 8388608 are read. Select fewer columns",
		"INSERT INTO orders VALUES (3, 'x')":                          "read-only transaction",
		"WITH n AS (DELETE FROM orders RETURNING id) SELECT * FROM n": "read-only transaction",
		"SET TRANSACTION READ WRITE":                                  "transaction read-write mode must be set before any query",
		"SELECT set_config('transaction_read_only', 'off', true)":     "transaction read-write mode must be set before any query",
		"COMMIT; INSERT INTO orders VALUES (3, 'x')":                  "cannot insert multiple commands",
		"SELECT * FROM nothing":                                       `relation "nothing" does not exist`,
		"DO $$ BEGIN INSERT INTO orders VALUES (4, 'x'); END $$":      "read-only transaction",
	} {
		res := f.call("postgres_query", object{"sql": sql})
		if !strings.Contains(res.Output, want) || len(res.Output) > 70_000 {
			t.Errorf("%s: %.300q, want %q", sql, res.Output, want)
		}
	}
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil || n != 2 {
		t.Errorf("there are %d orders now: %v", n, err)
	}
	if res := f.call("postgres_list_tables", object{}); !strings.Contains(res.Output, `["public","orders","BASE TABLE"]`) {
		t.Errorf("tables: %s", res.Output)
	}
	if res := f.call("postgres_describe_table", object{"table": "orders"}); !strings.Contains(res.Output, `["note","text","YES",null]`) {
		t.Errorf("columns: %s", res.Output)
	}
	for name, config := range map[string]object{
		"no such database": {"host": "127.0.0.1", "port": number, "database": "nothing", "user": "postgres", "tls": "off"},
		"no encryption":    {"host": "127.0.0.1", "port": number, "database": "shop", "user": "postgres"},
		"inside":           {"host": "10.1.2.3", "database": "shop", "user": "postgres", "tls": "off"},
	} {
		got := f.must("createIntegration", object{"connector_id": "postgres", "name": name, "config": config})
		if got["status"] != "error" || got["connect_error"] == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestSMTP(t *testing.T) {
	t.Parallel()
	s := smtptest.New(t, smtptest.Config{User: "robot", Password: "pw"})
	host, port, _ := net.SplitHostPort(s.Addr)
	number, _ := strconv.Atoi(port)
	f := onSQLite(t)
	config := object{
		"host": host, "port": number, "tls": "off", "user": "robot", "password": "pw", "from": "Acme <robot@example.com>", "recipient_domains": []string{"example.com"},
	}
	if made := f.add("smtp", config); made["status"] != "active" {
		t.Fatalf("the integration is %v", made)
	}
	if res := f.call("send_email", object{"to": "ada@example.com", "subject": "Hi", "body": "Hello Ada"}); res.Failed {
		t.Fatalf("sending: %+v", res)
	}
	letter := s.Next(t, "ada@example.com")
	if letter.From != "robot@example.com" || letter.User != "robot" || letter.Header.Get("Subject") != "Hi" || strings.TrimSpace(letter.Text) != "Hello Ada" {
		t.Errorf("the letter is %+v", letter)
	}
	for name, args := range map[string]object{
		"another domain": {"to": "eve@evil.example", "subject": "Hi", "body": "x"},
		"a second line":  {"to": "ada@example.com", "subject": "Hi\r\nBcc: eve@evil.example", "body": "x"},
	} {
		if res := f.call("send_email", args); !res.Failed {
			t.Errorf("%s: %+v", name, res)
		}
	}
	config["password"] = "wrong"
	if got := f.must("createIntegration", object{"connector_id": "smtp", "name": "wrong", "config": config}); got["status"] != "error" {
		t.Errorf("with a wrong password: %v", got)
	}
}
