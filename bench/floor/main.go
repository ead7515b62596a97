// Command floor is what agentd is compared with: the least that a server must
// do. GET and POST on /hello answer a fixed text. POST /v1/chat/completions is
// a run without features: it stores the run, asks the model once, stores what
// came back and the end, and answers; each of the two writes is durable
// (SQLite, synchronous=FULL) before anything depends on it. GET /sub and POST
// /pub are an event stream without features. With -proxy it is a reverse proxy.
package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"errors"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	_ "modernc.org/sqlite"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9103", "address to listen on")
	to := flag.String("to", "http://127.0.0.1:9100/v1/chat/completions", "model endpoint")
	path := flag.String("db", "floor.db", "database file, made anew")
	upstream := flag.String("proxy", "", "be a reverse proxy in front of this address, and nothing else")
	flag.Parse()
	if *upstream != "" {
		log.Fatal(http.ListenAndServe(*addr, reverseProxy(*upstream)))
	}
	s, err := open(*path, *to)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "hello\n")
	})
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	topics := &hub{topics: map[string]map[chan []byte]struct{}{}}
	mux.HandleFunc("GET /sub", topics.subscribe)
	mux.HandleFunc("POST /pub", topics.publish)
	log.Fatal(http.ListenAndServe(*addr, mux))
}

type server struct {
	to     string
	client *http.Client
	writes chan write
	lastID atomic.Int64

	insertRun, insertEvent, endRun *sql.Stmt
}

// write is one closure that waits to be committed.
type write struct {
	do   func(*sql.Tx) error
	done chan<- error
}

const tables = `
CREATE TABLE runs (id INTEGER PRIMARY KEY, model TEXT, status TEXT, input TEXT, created_at INTEGER, ended_at INTEGER);
CREATE TABLE events (run INTEGER, seq INTEGER, body TEXT, at INTEGER, PRIMARY KEY (run, seq)) WITHOUT ROWID;`

func open(path, to string) (*server, error) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(tables); err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 1024
	s := &server{to: to, client: &http.Client{Transport: transport}, writes: make(chan write, 1024)}
	for text, statement := range map[string]**sql.Stmt{
		"INSERT INTO runs VALUES (?, ?, 'running', ?, ?, NULL)":           &s.insertRun,
		"INSERT INTO events VALUES (?, ?, ?, ?)":                          &s.insertEvent,
		"UPDATE runs SET status = 'completed', ended_at = ? WHERE id = ?": &s.endRun,
	} {
		if *statement, err = db.Prepare(text); err != nil {
			return nil, err
		}
	}
	go s.commitForEver(db)
	return s, nil
}

// commitForEver joins the writes that wait at the same moment, so that one
// fsync makes all of them durable.
func (s *server) commitForEver(db *sql.DB) {
	for first := range s.writes {
		group := []write{first}
		for range len(s.writes) {
			group = append(group, <-s.writes)
		}
		err := commit(db, group)
		for _, w := range group {
			w.done <- err
		}
	}
}

func commit(db *sql.DB, group []write) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	for _, w := range group {
		if err := w.do(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (s *server) durably(do func(*sql.Tx) error) error {
	done := make(chan error, 1)
	s.writes <- write{do, done}
	return <-done
}

func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	if err := s.run(w, r); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

func (s *server) run(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var asked struct {
		Model    string         `json:"model"`
		Stream   bool           `json:"stream"`
		Messages jsontext.Value `json:"messages"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return err
	}
	id := s.lastID.Add(1)
	err = s.durably(func(tx *sql.Tx) error {
		_, err := tx.Stmt(s.insertRun).Exec(id, asked.Model, string(asked.Messages), time.Now().UnixMicro())
		return err
	})
	if err != nil {
		return err
	}
	resp, err := s.client.Post(s.to, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	if asked.Stream {
		return s.relay(w, id, bufio.NewReader(resp.Body))
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if err := s.finish(id, []string{"called", string(text), "completed"}); err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// relay passes on an event stream, and its last line once all is stored.
func (s *server) relay(w http.ResponseWriter, id int64, in *bufio.Reader) error {
	flusher := http.NewResponseController(w)
	var events []string
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return nil //nolint:nilerr // the model has said everything; the status was sent long ago
		}
		switch {
		case bytes.HasPrefix(line, []byte("data: [DONE]")):
			if err := s.finish(id, events); err != nil {
				return err
			}
		case bytes.HasPrefix(line, []byte("data:")):
			events = append(events, string(line))
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
		if in.Buffered() == 0 {
			if err := flusher.Flush(); err != nil {
				return err
			}
		}
	}
}

func (s *server) finish(id int64, events []string) error {
	return s.durably(func(tx *sql.Tx) error {
		now := time.Now().UnixMicro()
		for seq, body := range events {
			if _, err := tx.Stmt(s.insertEvent).Exec(id, seq, body, now); err != nil {
				return err
			}
		}
		_, err := tx.Stmt(s.endRun).Exec(now, id)
		return err
	})
}
