package mission

import (
	"math"
	"regexp"
	"strings"
)

var (
	listItem    = regexp.MustCompile(`(?m)^\s*(?:[-*•]|\d+[.)])\s+\S`)
	sentenceEnd = regexp.MustCompile(`[.!?](?:\s|$)`)
	connective  = regexp.MustCompile(`(?i)\b(then|afterwards|after that|finally|first|second|third|next|as well as|followed by)\b`)
	undertaking = regexp.MustCompile(`(?i)\b(plan|research|investigate|compare|analy[sz]e|build|design|implement|migrate|prepare|launch|` +
		`write|review|test|deploy|report|summari[sz]e|evaluate|develop|draft|organi[sz]e)\b`)
)

// threshold is the score from which on a goal is a mission.
const threshold = 0.3

// Classify returns whether a goal is one thing to answer or several things to do. It goes
// by the form of the text: its length, its lists and sentences, and words by which people
// name undertakings and their order. It asks no model, so that the answer is at once, and
// the same each time.
func Classify(goal string) Classification {
	count := func(re *regexp.Regexp, each, most float64) float64 {
		return min(most, each*float64(len(re.FindAllStringIndex(goal, 50))))
	}
	score := min(0.3, float64(len(strings.Fields(goal)))/200) + count(listItem, 0.15, 0.45) + count(connective, 0.1, 0.3) +
		count(undertaking, 0.1, 0.3) + max(0, count(sentenceEnd, 0.05, 0.2)-0.05)
	score = math.Round(min(1, score)*100) / 100
	confidence := math.Round(min(1, 0.5+math.Abs(score-threshold)*1.5)*100) / 100
	c := Classification{Classification: "quick_reply", Score: score, Confidence: confidence}
	if score >= threshold {
		c.Classification = "mission"
	}
	return c
}
