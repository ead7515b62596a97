package pii

import "strings"

// shape is how the keys of a maker look: how they begin, and how many
// characters follow at least.
type shape struct {
	prefix string
	least  int
	digit  bool // at least one: distinguishes a key from words with hyphens
}

// shapes are by their first letter.
var shapes = map[byte][]shape{
	's': {{"sk-", 20, true}, {"sk_live_", 16, false}, {"sk_test_", 16, false}, {"svc_", 41, false}},
	'r': {{"rk_live_", 16, false}, {"rk_test_", 16, false}},
	'g': {
		{"ghp_", 36, false}, {"gho_", 36, false}, {"ghu_", 36, false}, {"ghs_", 36, false}, {"ghr_", 36, false},
		{"github_pat_", 22, false}, {"glpat-", 20, false}, {"gsk_", 40, false},
	},
	'x': {{"xoxb-", 10, true}, {"xoxp-", 10, true}, {"xoxa-", 10, true}, {"xoxs-", 10, true}, {"xapp-", 10, true}, {"xai-", 40, false}},
	'h': {{"hf_", 30, false}},
	'n': {{"npm_", 36, false}},
	'd': {{"dop_v1_", 64, false}},
	'w': {{"whsec_", 24, false}},
	'p': {{"pypi-", 50, false}},
	'A': {{"AKIA", 16, false}, {"ASIA", 16, false}, {"AIza", 35, false}},
	'S': {{"SG.", 60, false}},
}

// apiKey finds the key that begins at i.
func (s *scanner) apiKey(i int) int {
	rest := s.text[i:]
	if strings.HasPrefix(rest, "eyJ") {
		return s.token(i)
	}
	for _, shape := range shapes[rest[0]] {
		if !strings.HasPrefix(rest, shape.prefix) || shape.digit && i < s.digitless {
			continue
		}
		n, digits := len(shape.prefix), 0
		for n < len(rest) && keyPart(rest[n], shape.prefix) {
			if class[rest[n]] == digit {
				digits++
			}
			n++
		}
		if n-len(shape.prefix) >= shape.least && (!shape.digit || digits > 0) {
			return i + n
		}
		if digits == 0 {
			s.digitless = i + n
		}
	}
	return 0
}

func keyPart(c byte, prefix string) bool {
	switch class[c] {
	case letter, digit, dash:
		return true
	}
	switch prefix {
	case "SG.":
		return c == '.'
	case "whsec_":
		return c == '+' || c == '/' || c == '='
	}
	return false
}

// token finds a JSON Web Token: three parts, the first two JSON objects.
func (s *scanner) token(i int) int {
	if i < s.tokenless {
		return 0
	}
	parts, end, size := 1, i, 0
	for ; end < len(s.text); end++ {
		c := s.text[end]
		if class[c] == letter || class[c] == digit || c == '-' {
			size++
			continue
		}
		if c != '.' || parts == 3 || size < 10 || parts == 1 && !strings.HasPrefix(s.text[end+1:], "eyJ") {
			break
		}
		parts++
		size = 0
	}
	if parts == 3 && size >= 10 {
		return end
	}
	s.tokenless = end // whatever begins before it comes to the same end
	return 0
}

// pem finds the private key whose armour begins at i. One that is cut off goes
// to the end of the text.
func (s *scanner) pem(i int) (end int, e Entity) {
	const begin, stop = "-----BEGIN ", "-----END "
	if !s.wants[wantKey] || s.endless || !strings.HasPrefix(s.text[i:], begin) {
		return 0, ""
	}
	label, _, ok := strings.Cut(s.text[i+len(begin):min(len(s.text), i+100)], "-----")
	if !ok || !strings.HasSuffix(label, "PRIVATE KEY") && !strings.HasSuffix(label, "PRIVATE KEY BLOCK") {
		return 0, ""
	}
	n := strings.Index(s.text[i:], stop+label+"-----")
	if n < 0 {
		s.endless = true
		return len(s.text), APIKey
	}
	return i + n + len(stop) + len(label) + 5, APIKey
}
