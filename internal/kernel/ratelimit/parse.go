package ratelimit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentd/internal/base/route"
)

// Limits are the operator's; the zero value of each is none.
type Limits struct {
	Tenant   Limit // all requests of a tenant
	Key      Limit // those with one key, or of one browser session
	Endpoint Limit // those of a tenant to one operation
}

// Limit is a route.Limit that may be none.
type Limit route.Limit

func (l Limit) rule() *Rule {
	if l == (Limit{}) {
		return nil
	}
	r := NewRule(route.Limit(l))
	return &r
}

// maxPerSecond bounds what a limit may say: beyond it there is nothing to
// limit.
const maxPerSecond = 1_000_000

var periods = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// Parse reads the setting AGENTD_RATE_LIMITS (decisions.md D12): "off" or
// nothing for no limits, or a list such as "tenant=6000/m,key=3000/m" with the
// names tenant, key and endpoint and the periods s, m and h. The error says
// what is wrong with which part.
func Parse(text string) (Limits, error) {
	var all Limits
	text = strings.TrimSpace(text)
	if text == "" || text == "off" {
		return all, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		name, amount, found := strings.Cut(part, "=")
		if !found {
			return Limits{}, fmt.Errorf("%q is no limit; write a list such as tenant=6000/m,key=3000/m, or off", part)
		}
		var into *Limit
		switch name {
		case "tenant":
			into = &all.Tenant
		case "key":
			into = &all.Key
		case "endpoint":
			into = &all.Endpoint
		default:
			return Limits{}, fmt.Errorf("there is no limit for %q; there are tenant, key and endpoint", name)
		}
		if *into != (Limit{}) {
			return Limits{}, fmt.Errorf("%s stands there twice", name)
		}
		l, err := parseLimit(amount)
		if err != nil {
			return Limits{}, fmt.Errorf("%s: %w", name, err)
		}
		*into = l
	}
	return all, nil
}

func parseLimit(amount string) (Limit, error) {
	number, unit, _ := strings.Cut(amount, "/")
	per, known := periods[unit]
	if !known {
		return Limit{}, fmt.Errorf("%q says no period; write a number and /s, /m or /h, as in 3000/m", amount)
	}
	n, err := strconv.ParseUint(number, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange):
		n = maxPerSecond * 3601 // too many, whatever the period
	case err != nil:
		return Limit{}, fmt.Errorf("%q is no whole number of requests", number)
	case n == 0:
		return Limit{}, errors.New("0 would admit nothing; leave the limit out, or write off for none at all")
	}
	if most := maxPerSecond * uint64(per/time.Second); n > most {
		return Limit{}, fmt.Errorf("%s is more than the %d that a limit may allow in that period", number, most)
	}
	return Limit{N: int(n), Per: per}, nil
}

// String spells the limits as Parse reads them.
func (l Limits) String() string {
	var parts []string
	for _, one := range []struct {
		name string
		Limit
	}{{"tenant", l.Tenant}, {"key", l.Key}, {"endpoint", l.Endpoint}} {
		for unit, per := range periods {
			if per == one.Per {
				parts = append(parts, fmt.Sprintf("%s=%d/%s", one.name, one.N, unit))
			}
		}
	}
	if parts == nil {
		return "off"
	}
	return strings.Join(parts, ",")
}
