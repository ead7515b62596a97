package sqldb

// Queued is how many closures wait for the writer.
func Queued(db *DB) int {
	db.writer.mu.Lock()
	defer db.writer.mu.Unlock()
	return len(db.writer.queue)
}

// ReadersInUse is how many connections are reading.
func ReadersInUse(db *DB) int { return db.pool.Stats().InUse }
