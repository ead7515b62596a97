package contextwindow

import "sync"

const (
	maxGauged  = 4096
	leastInput = 400 // tokens: in smaller requests the framing outweighs the text
	mostRatio  = 8
)

// Gauge records what this node observed of how models count tokens: how many of
// a model's own tokens correspond to one estimated token. It is safe for
// concurrent use. It is lost with the process, and learnt again.
type Gauge struct {
	mu     sync.Mutex
	ratios map[string]float64
}

// NewGauge returns a gauge without observations.
func NewGauge() *Gauge { return &Gauge{ratios: map[string]float64{}} }

// Record records how many tokens a model reported for a request, beside the
// estimate. The name is that of the model and of the tenant whose texts it reads:
// languages differ more than models do, and the texts of one tenant must not
// shorten those of another.
func (g *Gauge) Record(name string, estimated, reported int) {
	if estimated < leastInput || reported <= 0 {
		return
	}
	// A ratio below 1 is not believed: some endpoints do not count what they had
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

// Scale converts a number of a model's tokens into estimated tokens.
func (g *Gauge) Scale(name string, tokens int) int {
	g.mu.Lock()
	ratio := g.ratios[name]
	g.mu.Unlock()
	if ratio <= 1 {
		return tokens
	}
	return int(float64(tokens) / ratio)
}
