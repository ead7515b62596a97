package contextwindow

import "agentd/internal/kernel/model"

// Meter keeps the estimates of a conversation that grows at its end, so that
// another Read costs only what was added. The zero value is ready. It is not
// safe for concurrent use.
type Meter struct {
	sizes []int
	total int
}

// Read estimates the messages that were added since the last Read. Those before
// the last one are assumed to be unchanged; the last one may have changed. Call
// Reset after any other change.
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

// Sizes returns the messages' estimates. The slice belongs to the meter.
func (m *Meter) Sizes() []int { return m.sizes }

// Total returns the sum of the estimates.
func (m *Meter) Total() int { return m.total }

// Sizes estimates messages one by one.
func Sizes(messages []model.Message) []int {
	var m Meter
	m.Read(messages)
	return m.sizes
}
