// Package backupsql writes all rows of a database into one sealed file, reads them back
// into an empty database of either engine, and copies one database to another.
//
// A file begins with two lines: the mark of the format, and a [Header] in JSON, which
// is not secret. An age file follows, whose key is sealed with a [secret.Box] of the
// backup. What age protects is a zstd stream of frames: the hash of the lines before,
// so that these cannot be changed either; the migrations of the database; each table
// with its rows; and an end that counts them. age finds what was changed or cut off.
//
// Rows are read, sealed and written one by one, so that memory does not grow with the
// database.
package backupsql
