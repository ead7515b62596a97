//go:build !race

package app_test

// racing says that the race detector watches, which makes everything slow.
const racing = false
