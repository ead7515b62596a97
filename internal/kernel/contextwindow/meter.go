package contextwindow

import "agentd/internal/kernel/model"

// Meter keeps the estimates of a conversation that grows at its end, so that
// looking at it again costs what was added. The zero value is ready. Not safe
// for concurrent use.
type Meter struct {
	sizes []int
	total int
}

// Read estimates what was added since it was read last. Messages before the
// last are taken to be the same; the last one may have changed. Call Reset
// after any other change.
func (m *Meter) Read(messages []model.Message) {
	same := min(len(m.sizes), len(messages))
	if same > 0 {
		same--
	}
	for _, n := range m.sizes[same:] {
		m.total -= n
	}
	m.sizes = m.sizes[:same]
	for i := same; i < len(messages); i++ {
		n := model.EstimateMessage(&messages[i])
		m.sizes = append(m.sizes, n)
		m.total += n
	}
}

// Reset forgets everything.
func (m *Meter) Reset() { m.sizes, m.total = m.sizes[:0], 0 }

// Sizes are the messages' estimates. They are the meter's own.
func (m *Meter) Sizes() []int { return m.sizes }

// Total is the sum of the estimates.
func (m *Meter) Total() int { return m.total }

// Sizes estimates messages one by one.
func Sizes(messages []model.Message) []int {
	var m Meter
	m.Read(messages)
	return m.sizes
}
