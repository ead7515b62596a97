package model

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentd/internal/base/clock"
)

const (
	// defaultLimitWait is how long a call waits for a limit if its request does not
	// say.
	defaultLimitWait = 10 * time.Second
	// maxPaces and maxAccounts bound what is remembered.
	maxPaces    = 10_000
	maxAccounts = 10_000
	// firstOutput is the length of an answer in tokens that is assumed before any
	// was seen.
	firstOutput = 256
)

// Limiter is a client that keeps calls within the limits of providers: those that
// are configured for an endpoint and key, and those that endpoints state in their
// answers. A call that a limit does not allow waits for up to its LimitWait, and
// then fails with model_rate_limited without being made.
//
// Free places go to the tenants that wait in turn. A limit holds over all nodes:
// each uses its share.
//
// It is safe for concurrent use.
type Limiter struct {
	Next interface {
		Client
		Forwarder
		AudioClient
		ImageClient
	}
	Clock clock.Clock
	// Observe is called with each call that a limit refused, for metrics. Nil: nobody
	// counts.
	Observe func(Call)

	mu       sync.Mutex
	share    Share
	accounts map[string]*account

	pacesMu sync.RWMutex
	paces   map[paceKey]*pace
}

// account is an endpoint with a key that has limits.
type account struct {
	key    string
	limits Limits
	inUse  int
	window window
	output int                  // tokens of an answer, on average
	queues map[string][]*waiter // by tenant, never empty
	turn   []string             // the tenants that wait; the first is next
	timer  *time.Timer          // grants when tokens leave the window
}

// waiter waits for a permit.
type waiter struct {
	tokens int
	ready  chan *Permit // capacity 1
}

// Permit allows one call. It is released at the call's end, or by Release.
type Permit struct {
	limiter *Limiter
	account *account // nil: the target has no configured limits
	pace    *pace    // nil until the call begins
	at      int64    // the second in which its tokens are counted
	tokens  int      // reserved
	call    int64    // of pace
	count   int64    // of pace, with this call
	once    sync.Once
}

// SetShare sets which part of the limits this node may use.
func (l *Limiter) SetShare(s Share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.share = s
	for _, a := range l.accounts {
		l.grant(a)
	}
}

// Try returns a permit for a call that begins now and needs about so many tokens
// of input. have, unless it is nil, is a permit from Await: it is used if it is
// for this target, and released if not. Errors: *OverLimit.
func (l *Limiter) Try(t *Target, have *Permit, input, output int) (*Permit, error) {
	p := have
	if p != nil && (p.account == nil || p.account.key != t.AccountKey()) {
		p.Release()
		p = nil
	}
	if p == nil {
		p = &Permit{limiter: l}
		if t.Limits != (Limits{}) {
			var err error
			if p, err = l.take(t, input, output); err != nil {
				return nil, err
			}
		}
	}
	return l.begin(p, t, input)
}

// begin notes with the endpoint's pace that the call of a permit begins.
func (l *Limiter) begin(p *Permit, t *Target, input int) (*Permit, error) {
	pace := l.pace(t)
	call, count, wait := pace.begin(l.Clock.Now(), max(input, p.tokens))
	if wait > 0 {
		p.Release()
		return nil, pausing(t, wait)
	}
	p.pace, p.call, p.count = pace, call, count
	return p, nil
}

// Know makes limits known that another node met, so that Await can wait for them.
func (l *Limiter) Know(account string, limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(account, limits)
}

// Await waits until a tenant has a permit of an account. It returns nil if the
// account is not known. Errors: the context's.
func (l *Limiter) Await(ctx context.Context, account, tenant string, tokens int) (*Permit, error) {
	l.mu.Lock()
	a := l.accounts[account]
	if a == nil {
		l.mu.Unlock()
		return nil, nil
	}
	w := l.enqueue(a, tenant, tokens)
	l.mu.Unlock()
	return l.await(ctx, a, tenant, w)
}

// take returns a permit of the target's account, if there is a place and nobody
// waits for it.
func (l *Limiter) take(t *Target, input, output int) (*Permit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(t.AccountKey(), t.Limits)
	tokens := a.demand(input, output)
	if len(a.turn) == 0 && l.fits(a, tokens) {
		return l.issue(a, tokens), nil
	}
	return nil, &OverLimit{Account: a.key, Limits: a.limits, After: time.Second, reason: a.reason(t)}
}

// Demand returns how many tokens a call of an account is expected to need.
func (l *Limiter) Demand(account string, input, output int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[account]; a != nil {
		return a.demand(input, output)
	}
	return input
}

func (a *account) demand(input, output int) int {
	if output == 0 || output > a.output {
		output = a.output
	}
	return input + output
}

func (a *account) reason(t *Target) string {
	if a.limits.TokensPerMinute == 0 {
		return fmt.Sprintf("The limit of the provider %s, %d calls at a time, is reached.", t.Provider, a.limits.MaxConcurrency)
	}
	return fmt.Sprintf("The limits of the provider %s, of calls at a time or of %d tokens per minute, are reached.",
		t.Provider, a.limits.TokensPerMinute)
}

func (l *Limiter) account(key string, limits Limits) *account {
	a := l.accounts[key]
	if a == nil {
		if l.accounts == nil {
			l.accounts = map[string]*account{}
		}
		if len(l.accounts) >= maxAccounts {
			for key, a := range l.accounts {
				if a.inUse == 0 && len(a.turn) == 0 {
					delete(l.accounts, key)
				}
			}
		}
		a = &account{key: key, output: firstOutput, queues: map[string][]*waiter{}}
		l.accounts[key] = a
	}
	if a.limits != limits {
		a.limits = limits
		l.grant(a)
	}
	return a
}

// fits reports whether an account has a place for a call now.
func (l *Limiter) fits(a *account, tokens int) bool {
	if n := a.limits.MaxConcurrency; n > 0 && a.inUse >= l.share.part(n) {
		return false
	}
	n := a.limits.TokensPerMinute
	return n == 0 || l.share.part(n) > 0 && a.window.wait(l.Clock.Now(), tokens, l.share.part(n)) == 0
}

func (l *Limiter) issue(a *account, tokens int) *Permit {
	now := l.Clock.Now()
	a.inUse++
	a.window.advance(now)
	a.window.add(now.Unix(), tokens)
	return &Permit{limiter: l, account: a, at: now.Unix(), tokens: tokens}
}

func (l *Limiter) enqueue(a *account, tenant string, tokens int) *waiter {
	w := &waiter{tokens, make(chan *Permit, 1)}
	if a.queues[tenant] == nil {
		a.turn = append(a.turn, tenant)
	}
	a.queues[tenant] = append(a.queues[tenant], w)
	l.grant(a)
	return w
}

// grant hands free places to those that wait, one tenant after the other.
func (l *Limiter) grant(a *account) {
	for len(a.turn) > 0 {
		tenant := a.turn[0]
		w := a.queues[tenant][0]
		if !l.fits(a, w.tokens) {
			l.grantLater(a, w.tokens)
			return
		}
		a.turn = a.turn[1:]
		if a.queues[tenant] = a.queues[tenant][1:]; len(a.queues[tenant]) > 0 {
			a.turn = append(a.turn, tenant)
		} else {
			delete(a.queues, tenant)
		}
		w.ready <- l.issue(a, w.tokens)
	}
}

// grantLater grants again when enough tokens have left the window.
func (l *Limiter) grantLater(a *account, tokens int) {
	n := l.share.part(a.limits.TokensPerMinute)
	if n == 0 {
		return
	}
	wait := a.window.wait(l.Clock.Now(), tokens, n)
	if wait == 0 {
		return // a place is missing, not tokens
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.timer = time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.grant(a)
	})
}

// await waits for a permit until ctx ends.
func (l *Limiter) await(ctx context.Context, a *account, tenant string, w *waiter) (*Permit, error) {
	select {
	case p := <-w.ready:
		return p, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.leave(a, tenant, w)
	l.mu.Unlock()
	select {
	case p := <-w.ready: // it came just now
		p.Release()
	default:
	}
	return nil, ctx.Err()
}

func (l *Limiter) leave(a *account, tenant string, w *waiter) {
	q := a.queues[tenant]
	for i := range q {
		if q[i] == w {
			a.queues[tenant] = append(q[:i:i], q[i+1:]...)
			break
		}
	}
	if q != nil && len(a.queues[tenant]) == 0 {
		delete(a.queues, tenant)
		for i := range a.turn {
			if a.turn[i] == tenant {
				a.turn = append(a.turn[:i:i], a.turn[i+1:]...)
				break
			}
		}
	}
	l.grant(a)
}

// Release ends a permit whose call was not made. It does nothing to one that has
// ended.
func (p *Permit) Release() { p.end(0) }

// end frees the permit's place, and counts the tokens that the call used in place
// of those that were expected.
func (p *Permit) end(used int) {
	if p == nil {
		return
	}
	p.once.Do(func() {
		a, l := p.account, p.limiter
		if a == nil {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		a.inUse--
		a.window.advance(l.Clock.Now())
		a.window.add(p.at, used-p.tokens)
		l.grant(a)
	})
}

// done ends the permit of a call that was made.
func (p *Permit) done(u Usage, err error) {
	if failed, ok := errors.AsType[*Error](err); ok && failed.Status == 429 && failed.RetryAfter > 0 {
		p.pace.close(p.limiter.Clock.Now(), failed.RetryAfter)
	}
	used := u.InputTokens + u.OutputTokens
	if err != nil && used == 0 { // it may have been counted anyway
		used = p.tokens
	}
	if a := p.account; a != nil && err == nil && u.OutputTokens > 0 {
		p.limiter.mu.Lock()
		a.output += (u.OutputTokens - a.output) / 4
		p.limiter.mu.Unlock()
	}
	p.end(used)
}

// learn is called with what each answer of the permit's call says about limits.
func (p *Permit) learn(r Rate) {
	p.limiter.mu.Lock()
	share := p.limiter.share
	p.limiter.mu.Unlock()
	p.pace.learn(p.limiter.Clock.Now(), p.call, p.count, r, share)
}

func (l *Limiter) pace(t *Target) *pace {
	key := paceKey{t.BaseURL, t.Model, t.APIKey}
	l.pacesMu.RLock()
	p := l.paces[key]
	l.pacesMu.RUnlock()
	if p != nil {
		return p
	}
	l.pacesMu.Lock()
	defer l.pacesMu.Unlock()
	if p := l.paces[key]; p != nil {
		return p
	}
	if l.paces == nil || len(l.paces) >= maxPaces {
		l.paces = map[paceKey]*pace{}
	}
	p = &pace{}
	l.paces[key] = p
	return p
}
