package contextwindow

import "sync"

const (
	maxGauged  = 4096
	leastInput = 400 // tokens: smaller requests say more of their frame than of the text
	mostRatio  = 8
)

// Gauge is what this node learnt of how models count: how many of a model's
// own tokens make one estimated token. Safe for concurrent use. It is lost with
// the process, and learnt again.
type Gauge struct {
	mu     sync.Mutex
	ratios map[string]float64
}

// NewGauge makes a gauge.
func NewGauge() *Gauge { return &Gauge{ratios: map[string]float64{}} }

// Record notes how many tokens a model said that a request had, beside the
// estimate. The name is of the model and of whose texts it reads: languages
// differ more than models do, and nobody's texts must shorten another's.
func (g *Gauge) Record(name string, estimated, reported int) {
	if estimated < leastInput || reported <= 0 {
		return
	}
	// A ratio below 1 is not believed: some endpoints leave out what they had
	// in a cache.
	ratio := min(max(float64(reported)/float64(estimated), 1), mostRatio)
	g.mu.Lock()
	defer g.mu.Unlock()
	old, known := g.ratios[name]
	if known {
		ratio = (old + ratio) / 2
	} else if len(g.ratios) >= maxGauged {
		for other := range g.ratios { // any one: it is learnt again
			delete(g.ratios, other)
			break
		}
	}
	g.ratios[name] = ratio
}

// Scale turns a number of a model's tokens into estimated ones.
func (g *Gauge) Scale(name string, tokens int) int {
	g.mu.Lock()
	ratio := g.ratios[name]
	g.mu.Unlock()
	if ratio <= 1 {
		return tokens
	}
	return int(float64(tokens) / ratio)
}
