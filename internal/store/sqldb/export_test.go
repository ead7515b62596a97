package sqldb

// Queued is how many closures wait for the writer.
func Queued(db *DB) int {
	db.writer.mu.Lock()
	defer db.writer.mu.Unlock()
	return len(db.writer.queue)
}
