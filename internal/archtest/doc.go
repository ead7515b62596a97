// Package archtest holds the tests that keep the house in order: which package
// may import which, how files are kept, and that every rule in
// docs/conformance.md names a test that exists. It contains nothing else.
package archtest
