package model

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// directives are what a message asks of echo, a line each; docs/models.md has them
// for users. The other lines are the message.
type directives struct {
	message string
	calls   []echoedCall
	think   string
	say     *string // the whole answer
	slow    bool
	fail    int // status of a failure; 0: none
}

type echoedCall struct{ name, arguments string }

var (
	callLine      = regexp.MustCompile(`(?i)^call\s+([A-Za-z0-9_.:-]{1,128})\s*(\{.*)?$`)
	directiveLine = regexp.MustCompile(`(?i)^(think|slowly|say):\s*(.*)$`)
	failLine      = regexp.MustCompile(`(?i)^fail(?::\s*(\d{3}))?$`)
)

// failStatus is that of a failure that no later call repairs.
const failStatus = 400

func readDirectives(asked string) directives {
	var d directives
	var message []string
	for line := range strings.SplitSeq(asked, "\n") {
		trimmed := strings.TrimSpace(line)
		if m := callLine.FindStringSubmatch(trimmed); m != nil && (m[2] == "" || jsontext.Value(m[2]).IsValid()) {
			if m[2] == "" {
				m[2] = "{}"
			}
			d.calls = append(d.calls, echoedCall{m[1], m[2]})
			continue
		}
		if m := failLine.FindStringSubmatch(trimmed); m != nil {
			d.fail = failStatus
			if n, err := strconv.Atoi(m[1]); err == nil && n >= 400 && n < 600 {
				d.fail = n
			}
			continue
		}
		m := directiveLine.FindStringSubmatch(trimmed)
		if m == nil {
			message = append(message, line)
			continue
		}
		switch strings.ToLower(m[1]) {
		case "think":
			d.think = m[2]
		case "say":
			d.say = &m[2]
		case "slowly":
			d.slow = true
			message = append(message, m[2])
		}
	}
	d.message = strings.TrimSpace(strings.Join(message, "\n"))
	return d
}
