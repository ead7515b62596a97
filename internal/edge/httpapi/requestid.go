package httpapi

import "agentd/internal/base/ident"

// requestID returns the id that a caller sent if it is valid (8 to 128 letters,
// digits, '.', '_', ':', '-', the first a letter or digit), and otherwise a new
// one.
func requestID(sent string) string {
	if len(sent) < 8 || len(sent) > 128 || !alphanumeric(sent[0]) {
		return ident.New()
	}
	for i := 1; i < len(sent); i++ {
		switch c := sent[i]; {
		case alphanumeric(c), c == '.', c == '_', c == ':', c == '-':
		default:
			return ident.New()
		}
	}
	return sent
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
