package calc

import (
	"errors"
	"math"
	"math/big"
	"strconv"
)

var (
	errTooLarge    = errors.New("the number is too large or too small")
	errZero        = errors.New("division by zero")
	errUndefined   = errors.New("the result is not a real number")
	errWholeOnly   = errors.New("the number of digits must be whole and at most 100")
	errOneOnly     = errors.New("takes one number")
	errOneOrTwo    = errors.New("takes one number or two")
	errInvalidBase = errors.New("the base must be above 0 and not 1")
	errNotPositive = errors.New("takes a number above 0")
)

// number is a fraction. A rounded one is a float64 close to the exact value.
type number struct {
	rat     *big.Rat
	rounded bool
}

// exact returns a fraction as a number. It bounds its size, and thereby the cost
// of the next operation.
func exact(r *big.Rat) (number, error) {
	if r.Num().BitLen() > maxBits || r.Denom().BitLen() > maxBits {
		return number{}, errTooLarge
	}
	return number{rat: r}, nil
}

func rounded(f float64) (number, error) {
	if math.IsNaN(f) {
		return number{}, errUndefined
	}
	r := new(big.Rat).SetFloat64(f)
	if r == nil {
		return number{}, errTooLarge
	}
	return number{r, true}, nil
}

// result returns the result of an operation, rounded if one of the operands is.
func result(r *big.Rat, operands ...number) (number, error) {
	for _, n := range operands {
		if n.rounded {
			f, _ := r.Float64()
			return rounded(f)
		}
	}
	return exact(r)
}

func (n number) float() float64 {
	f, _ := n.rat.Float64()
	return f
}

func (n number) negated() number {
	return number{new(big.Rat).Neg(n.rat), n.rounded}
}

// String returns the number in decimal: all digits of an exact one with up to 60
// decimal places, 20 digits of an exact one with more, 15 of a rounded one.
func (n number) String() string {
	if n.rounded {
		return strconv.FormatFloat(n.float(), 'g', 15, 64)
	}
	if n.rat.IsInt() {
		return n.rat.Num().String()
	}
	if places, ends := n.rat.FloatPrec(); ends && places <= 60 {
		return n.rat.FloatString(places)
	}
	return new(big.Float).SetPrec(128).SetRat(n.rat).Text('g', 20)
}

func binary(operator byte, a, b number) (number, error) {
	r := new(big.Rat)
	switch operator {
	case '+':
		r.Add(a.rat, b.rat)
	case '-':
		r.Sub(a.rat, b.rat)
	case '*':
		r.Mul(a.rat, b.rat)
	default:
		if b.rat.Sign() == 0 {
			return number{}, errZero
		}
		r.Quo(a.rat, b.rat)
		if operator == '%' {
			whole := new(big.Rat).SetInt(floor(r))
			r.Sub(a.rat, whole.Mul(whole, b.rat))
		}
	}
	return result(r, a, b)
}

// power is exact for whole exponents of exact numbers.
func power(base, exponent number) (number, error) {
	if base.rat.Sign() == 0 && exponent.rat.Sign() < 0 {
		return number{}, errZero
	}
	if base.rounded || exponent.rounded || !exponent.rat.IsInt() {
		return rounded(math.Pow(base.float(), exponent.float()))
	}
	return wholePower(base, exponent.rat.Num())
}

func wholePower(base number, exponent *big.Int) (number, error) {
	if base.rat.IsInt() && base.rat.Num().IsInt64() {
		switch base.rat.Num().Int64() {
		case 0:
			if exponent.Sign() == 0 {
				return whole(1), nil
			}
			return whole(0), nil
		case 1:
			return whole(1), nil
		case -1:
			return whole(1 - 2*int64(exponent.Bit(0))), nil
		}
	}
	bits := int64(max(base.rat.Num().BitLen(), base.rat.Denom().BitLen()))
	n := new(big.Int).Abs(exponent)
	if !n.IsInt64() || n.Int64() > maxBits || (bits-1)*n.Int64() > maxBits {
		return number{}, errTooLarge
	}
	num := new(big.Int).Exp(base.rat.Num(), n, nil)
	denom := new(big.Int).Exp(base.rat.Denom(), n, nil)
	if exponent.Sign() < 0 {
		num, denom = denom, num
	}
	return exact(new(big.Rat).SetFrac(num, denom))
}

func whole(n int64) number { return number{rat: big.NewRat(n, 1)} }

// floor returns the largest integer that is not greater than r.
func floor(r *big.Rat) *big.Int {
	// The denominator is positive, so Euclidean division rounds down.
	return new(big.Int).Div(r.Num(), r.Denom())
}
