package usage

import "math"

// bucketsPerDouble is how many buckets of durations lie between a duration and its
// double: a percentile is off by 19 % at most.
const bucketsPerDouble = 4

// maxBucket holds all durations above 4,000 years.
const maxBucket = 188

// BucketOf returns the bucket of a duration in milliseconds. Bucket 0 holds durations
// below one millisecond, bucket n those from 2^((n-1)/4) up to 2^(n/4).
func BucketOf(ms int64) int {
	if ms < 1 {
		return 0
	}
	return min(1+int(math.Log2(float64(ms))*bucketsPerDouble), maxBucket)
}

// Histogram counts runs by the buckets of their durations.
type Histogram map[int]int64

// Percentile returns the duration in milliseconds below which a share of the runs
// ended, 0 < share < 1; nil without runs.
func (h Histogram) Percentile(share float64) *float64 {
	var all int64
	for _, n := range h {
		all += n
	}
	if all == 0 {
		return nil
	}
	rank, below := share*float64(all), int64(0)
	for bucket := range maxBucket + 1 {
		n := h[bucket]
		if n == 0 || float64(below+n) < rank {
			below += n
			continue
		}
		from, to := bounds(bucket)
		ms := from + (to-from)*(rank-float64(below))/float64(n)
		return &ms
	}
	return nil // not reached: the last bucket ends at all
}

// bounds returns the durations between which those of a bucket are.
func bounds(bucket int) (from, to float64) {
	if bucket == 0 {
		return 0, 1
	}
	return math.Exp2(float64(bucket-1) / bucketsPerDouble), math.Exp2(float64(bucket) / bucketsPerDouble)
}
