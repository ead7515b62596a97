package bridge

import "sync"

// bells wake those who wait for a key. The zero value is ready.
type bells struct {
	mu   sync.Mutex
	wait map[string]map[chan struct{}]struct{}
}

// listen returns a channel that receives when something is there for a key, until stop is
// called.
func (b *bells) listen(key string) (rang <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wait == nil {
		b.wait = map[string]map[chan struct{}]struct{}{}
	}
	if b.wait[key] == nil {
		b.wait[key] = map[chan struct{}]struct{}{}
	}
	b.wait[key][ch] = struct{}{}
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if delete(b.wait[key], ch); len(b.wait[key]) == 0 {
			delete(b.wait, key)
		}
	}
}

func (b *bells) ring(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch := range b.wait[key] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
