package signin

import "time"

// CodeAt is what an authenticator app shows.
func CodeAt(a Algorithm, secret []byte, t time.Time) string { return codeAt(a, secret, stepAt(t)) }
