package calc

import (
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
)

var constants = map[string]number{
	"pi": {new(big.Rat).SetFloat64(math.Pi), true},
	"e":  {new(big.Rat).SetFloat64(math.E), true},
}

type function func(args []number) (number, error)

var functions = map[string]function{
	"abs":   unary(func(n number) (number, error) { return number{new(big.Rat).Abs(n.rat), n.rounded}, nil }),
	"floor": unary(func(n number) (number, error) { return exact(new(big.Rat).SetInt(floor(n.rat))) }),
	"ceil": unary(func(n number) (number, error) {
		below := floor(new(big.Rat).Neg(n.rat))
		return exact(new(big.Rat).SetInt(below.Neg(below)))
	}),
	"round": round,
	"min":   func(args []number) (number, error) { return slices.MinFunc(args, compare), nil },
	"max":   func(args []number) (number, error) { return slices.MaxFunc(args, compare), nil },
	"sqrt":  unary(sqrt),
	"exp":   unary(func(n number) (number, error) { return rounded(math.Exp(n.float())) }),
	"sin":   unary(circular(math.Sin)),
	"cos":   unary(circular(math.Cos)),
	"tan":   unary(circular(math.Tan)),
	"log":   logarithm,
	"ln":    unary(func(n number) (number, error) { return logarithm([]number{n}) }),
	"log10": unary(func(n number) (number, error) { return logarithm([]number{n, whole(10)}) }),
	"log2":  unary(func(n number) (number, error) { return logarithm([]number{n, whole(2)}) }),
}

var functionNames = strings.Join(slices.Sorted(maps.Keys(functions)), ", ")

func unary(f func(number) (number, error)) function {
	return func(args []number) (number, error) {
		if len(args) != 1 {
			return number{}, errOneOnly
		}
		return f(args[0])
	}
}

func compare(a, b number) int { return a.rat.Cmp(b.rat) }

// round rounds halves away from zero, to whole numbers or to a number of
// decimal places; a negative number rounds to tens, hundreds and so on.
func round(args []number) (number, error) {
	scale := big.NewRat(1, 1)
	switch len(args) {
	case 1:
	case 2:
		places := args[1].rat
		if !places.IsInt() || !places.Num().IsInt64() || places.Num().Int64() > 100 || places.Num().Int64() < -100 {
			return number{}, errWholeOnly
		}
		power, err := wholePower(whole(10), places.Num())
		if err != nil {
			return number{}, err
		}
		scale = power.rat
	default:
		return number{}, errOneOrTwo
	}
	r := new(big.Rat).Mul(args[0].rat, scale)
	half := big.NewRat(1, 2)
	if r.Sign() < 0 {
		r.Neg(r)
		r.SetInt(floor(r.Add(r, half)))
		r.Neg(r)
	} else {
		r.SetInt(floor(r.Add(r, half)))
	}
	return exact(r.Quo(r, scale))
}

// sqrt is exact for squares of fractions.
func sqrt(n number) (number, error) {
	if n.rat.Sign() < 0 {
		return number{}, errUndefined
	}
	if !n.rounded {
		num, denom := new(big.Int).Sqrt(n.rat.Num()), new(big.Int).Sqrt(n.rat.Denom())
		root := new(big.Rat).SetFrac(num, denom)
		if new(big.Rat).Mul(root, root).Cmp(n.rat) == 0 {
			return exact(root)
		}
	}
	f, _ := new(big.Float).Sqrt(new(big.Float).SetPrec(64).SetRat(n.rat)).Float64()
	return rounded(f)
}

// circular returns a trigonometric function. A result that differs from zero only
// because pi is rounded is zero.
func circular(f func(float64) float64) func(number) (number, error) {
	return func(n number) (number, error) {
		x := n.float()
		y := f(x)
		if math.Abs(y) < 1e-15 && math.Abs(x) > 1e-8 {
			y = 0
		}
		return rounded(y)
	}
}

// logarithm takes a number and optionally a base; the default is e. It is exact
// if there is a base and the result is an integer.
func logarithm(args []number) (number, error) {
	if len(args) > 2 {
		return number{}, errOneOrTwo
	}
	n := args[0]
	if n.rat.Sign() <= 0 {
		return number{}, errNotPositive
	}
	if len(args) == 1 {
		return rounded(ln(n.rat))
	}
	base := args[1]
	if base.rat.Sign() <= 0 || base.rat.Cmp(big.NewRat(1, 1)) == 0 {
		return number{}, errInvalidBase
	}
	f := ln(n.rat) / ln(base.rat)
	if near := math.Round(f); math.Abs(near) <= maxBits && !n.rounded && !base.rounded {
		p, err := wholePower(base, big.NewInt(int64(near)))
		if err == nil && p.rat.Cmp(n.rat) == 0 {
			return whole(int64(near)), nil
		}
	}
	return rounded(f)
}

// ln returns the natural logarithm, also of numbers beyond the range of float64.
func ln(r *big.Rat) float64 {
	if f, _ := r.Float64(); f > 1e-300 && !math.IsInf(f, 0) {
		return math.Log(f)
	}
	var mantissa big.Float
	exponent := new(big.Float).SetPrec(64).SetRat(r).MantExp(&mantissa)
	m, _ := mantissa.Float64()
	return math.Log(m) + float64(exponent)*math.Ln2
}
