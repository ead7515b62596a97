package calc

import (
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestEval(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"2+3*4": "14", "(2+3)*4": "20", "7/2": "3.5", "1/4": "0.25", "0.1+0.2": "0.3", "1/3": "0.33333333333333333333",
		"2/3*3": "2", "10-4-3": "3", "100/10/5": "2", "2^10": "1024", "2^3^2": "512", "-2^2": "-4", "(-2)^2": "4", "2^-2": "0.25",
		"2**8": "256", "--3": "3", "-+-3": "3", "3 - -3": "6", "7%3": "1", "-7%3": "2", "7%-3": "-2", "5.5%2": "1.5",
		"1e3": "1000", "2.5E-3": "0.0025", "1e+2": "100", ".5": "0.5", "5.": "5", "007": "7",
		"1,5": "", "6×7": "42", "6·7": "42", "8÷2": "4", "5−2": "3", "  1\t+\n1 ": "2",
		"sqrt(16)": "4", "sqrt(2)": "1.4142135623731", "sqrt(9/16)": "0.75", "sqrt(0)": "0", "sqrt(2)^2": "2", "sqrt(1e400)": "1" + strings.Repeat("0", 200),
		"abs(-3/2)": "1.5", "min(3,1,2)": "1", "max(1, 2.5)": "2.5", "round(2.5)": "3", "round(-2.5)": "-3", "round(2.4)": "2",
		"round(3.14159, 2)": "3.14", "round(1234, -2)": "1200", "floor(-1.5)": "-2", "ceil(-1.5)": "-1", "ceil(1.2)": "2", "floor(2)": "2",
		"log(1)": "0", "log(e)": "1", "ln(e^2)": "2", "log10(1000)": "3", "log10(0.01)": "-2", "log2(1024)": "10", "log(81, 3)": "4", "log10(1e400)": "400", "log(1e400)": "921.034037197618",
		"exp(0)": "1", "exp(1)": "2.71828182845905", "sin(0)": "0", "sin(pi)": "0", "cos(pi)": "-1", "sin(pi/2)": "1", "tan(pi/4)": "1", "sin(1e-20)": "1e-20",
		"pi": "3.14159265358979", "2π": "", "2*π": "6.28318530717959", "PI": "3.14159265358979", "Sqrt(4)": "2",
		"0^0": "1", "0^5": "0", "1^1e300": "1", "(-1)^(1e300+1)": "-1", "2^0.5": "1.4142135623731", "8^(1/3)": "2", "4^0.5": "2",
		"2^200":       "1606938044258990275541962092341162602522202993782792835301376",
		"2^-50":       "0.00000000000000088817841970012523233890533447265625",
		"1/7^50":      "5.5602971216385734478e-43",
		"1e40/3":      "3.3333333333333333333e+39",
		"123456789^3": "1881676371789154860897069",
	} {
		got, err := Eval(expression)
		if want == "" {
			if err == nil {
				t.Errorf("%s = %s, want an error", expression, got)
			}
			continue
		}
		if got != want || err != nil {
			t.Errorf("%s = %s, %v; want %s", expression, got, err, want)
		}
	}
}

func TestEvalRefuses(t *testing.T) {
	t.Parallel()
	for expression, words := range map[string]string{
		"": "empty", "  ": "empty", "1/0": "division by zero", "1%0": "division by zero", "0^-1": "division by zero", "1/(2-2)": "division by zero",
		"2+": "ends where a number", "(2": `ends where ")"`, "2)": `')' at character 2`, "2 3": "'3' at character 3", "2(3)": "an operator", "*2": "'*' at character 1",
		"foo(1)": `"foo" is not known`, "x": "not known", "sin": "is a function", "sin()": "a number", "sin(1,2)": "takes one number", "log(1,2,3)": "one number or two",
		"round(1,2,3)": "one number or two", "round(1, 0.5)": "must be whole", "round(1, 1e9)": "must be whole", "min()": "a number",
		"sqrt(-1)": "not a real number", "(-8)^(1/3)": "not a real number", "log(0)": "above 0", "log(-1)": "above 0", "log(2, 1)": "base", "log(2,-2)": "base",
		"9^9^9": "too large", "9^9^9^9^9": "too large", "2^1e100": "too large", "2^-1e100": "too large", "0.5^1e9": "too large", "exp(1000)": "too large", "1e4000*1e4000": "too large",
		"1e9999": "exponent", "1e99999999999999999999": "exponent", ".": "not a number", "1..2": "'.'", "1e5e5": "'e'", "2e": "'e'", "$5": "'$'", "2 × €": "'€' at character 5",
		"__import__('os')": "'_'", "1;2": "';'", strings.Repeat("1+", 600) + "1": "longer than",
	} {
		got, err := Eval(expression)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s = %s, %v; want an error with %q", expression, got, err, words)
		}
	}
}

// The most expensive expressions of the maximum length take no noticeable time.
func TestEvalIsBounded(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		strings.Repeat("(", 1000), strings.Repeat("-", 1000), strings.Repeat("2^", 499) + "2", strings.Repeat("sqrt(", 199),
		"1e4000/3" + strings.Repeat("/1.0001", 141), strings.Repeat("1/7^999+", 120) + "1", strings.Repeat("9", 1000), "1/" + strings.Repeat("3", 990),
		strings.Repeat("2e3999%7^1234+", 70) + "1", "log(" + strings.Repeat("9", 900) + ",2)", strings.Repeat("1/3.7+", 160) + "1",
	} {
		began := time.Now()
		_, _ = Eval(expression)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%.40s… took %v", expression, took)
		}
	}
}

func FuzzEval(f *testing.F) {
	for _, seed := range []string{"2+3*4", "sqrt(2)^2/3", "round(-1.5e3,-2)", "min(1,2)%max(3,4)", "log(8,2)^-.5", "((", "9^9^9", "π×2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		began := time.Now()
		got, err := Eval(expression)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%q took %v", expression, took)
		}
		if err != nil {
			if got != "" || err.Error() == "" {
				t.Errorf("%q = %q, %v", expression, got, err)
			}
			return
		}
		if _, ok := new(big.Rat).SetString(got); !ok || len(got) > 6000 {
			t.Errorf("%q = %q, which is no number", expression, got)
		}
	})
}

func BenchmarkEval(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Eval("(2+3)*4/7"); err != nil {
			b.Fatal(err)
		}
	}
}
