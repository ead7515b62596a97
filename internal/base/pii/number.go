package pii

import "strings"

// maxDigits is more than any number that is looked for has.
const maxDigits = 20

// digits is a number as it is written: its digits, where they stand, and what
// separates them.
type digits struct {
	text  string
	n     int
	value [maxDigits]byte // '0' to '9'
	at    [maxDigits]int
	sign  byte // + or ( where the number begins with one
}

// digits reads, into the scanner, the number that begins at i: digits with at most two separators
// between them (") " is two). It has no digits where none begins.
func (s *scanner) digits(i int) *digits {
	d := &s.number
	d.text, d.n, d.sign = s.text, 0, 0
	if c := s.text[i]; c == '+' || c == '(' {
		d.sign = c
		i++
		if c == '+' && i < len(s.text) && s.text[i] == '(' {
			i++
		}
	}
	gap := 0
	for ; i < len(s.text) && d.n < maxDigits; i++ {
		c := s.text[i]
		switch {
		case class[c] == digit:
			d.value[d.n], d.at[d.n] = c, i
			d.n++
			gap = 0
		case d.n == 0 || gap == 2 || strings.IndexByte(" -./()", c) < 0:
			return d
		default:
			gap++
		}
	}
	return d
}

// between is what separates digit i from the one before it.
func (d *digits) between(i int) string { return d.text[d.at[i-1]+1 : d.at[i]] }

// ends reports whether the number may end behind n digits, and where.
func (d *digits) ends(n int) (end int, ok bool) {
	end = d.at[n-1] + 1
	if end == len(d.text) {
		return end, true
	}
	switch next := class[d.text[end]]; {
	case next == digit || next == letter:
		return 0, false
	case n < d.n && d.between(n) != " " && d.between(n) != "/": // goes on: 1.2.3
		return 0, false
	}
	return end, true
}

// groups returns the lengths of the runs of adjacent digits among the first n.
func (d *digits) groups(n int) (sizes []int) {
	size := 1
	for i := 1; i < n; i++ {
		if d.at[i] == d.at[i-1]+1 {
			size++
			continue
		}
		sizes = append(sizes, size)
		size = 1
	}
	return append(sizes, size)
}

// card finds a card number: of a network, with the right check digit, together
// or in groups with one sort of separator.
func (d *digits) card() int {
	if d.sign != 0 || d.n < 13 {
		return 0
	}
	separator := ""
	most := 1
	for ; most < min(d.n, 19); most++ {
		if b := d.between(most); b != "" {
			if separator == "" {
				separator = b
			}
			if b != separator || b != " " && b != "-" {
				break
			}
		}
	}
	for n := most; n >= 13; n-- {
		if !network(d.value[:n]) || !luhn(d.value[:n]) {
			continue
		}
		if separator != "" && min(n, d.groups(n)[0]) < 4 {
			continue
		}
		if end, ok := d.ends(n); ok {
			return end
		}
	}
	return 0
}

func network(v []byte) bool {
	first := func(n int) (prefix int) {
		for _, c := range v[:n] {
			prefix = prefix*10 + int(c-'0')
		}
		return prefix
	}
	two, three, four := first(2), first(3), first(4)
	switch n := len(v); {
	case v[0] == '4':
		return n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720:
		return n == 16
	case two == 34 || two == 37:
		return n == 15
	case two == 36 || two == 38 || two == 39 || three >= 300 && three <= 305:
		return n >= 14
	case four == 6011, two == 65, three >= 644 && three <= 649, two == 62, two == 35:
		return n >= 16
	case two == 50, two >= 56 && two <= 58, two == 67:
		return n >= 13 // Maestro
	}
	return false
}

func luhn(v []byte) bool {
	sum := 0
	for i := range v {
		n := int(v[len(v)-1-i] - '0')
		if i%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// ssn finds 123-45-6789.
func (d *digits) ssn() int {
	if d.sign != 0 || d.n < 9 || !d.grouped([]int{3, 2, 4}, "-") {
		return 0
	}
	area, group, serial := string(d.value[:3]), string(d.value[3:5]), string(d.value[5:9])
	if area == "000" || area == "666" || area[0] == '9' || group == "00" || serial == "0000" {
		return 0
	}
	end, _ := d.ends(9)
	return end
}

// grouped reports whether the number begins with groups of these sizes, with a
// separator between them that is one of some characters.
func (d *digits) grouped(sizes []int, separators string) bool {
	total := 0
	for _, size := range sizes {
		total += size
	}
	if d.n < total {
		return false
	}
	next := 0
	for i, size := range sizes {
		next += size
		if i == len(sizes)-1 {
			break
		}
		if b := d.between(next); len(b) != 1 || !strings.Contains(separators, b) {
			return false
		}
	}
	got := d.groups(total)
	if len(got) != len(sizes) {
		return false
	}
	for i := range got {
		if got[i] != sizes[i] {
			return false
		}
	}
	return true
}

// phone finds the longest phone number.
func (d *digits) phone() int {
	if d.sign == '+' {
		return d.international()
	}
	if end := d.northAmerican(); end > 0 || d.sign != 0 {
		return end
	}
	return d.national()
}

// international finds +49 30 123456: 8 to 15 digits with any separators.
func (d *digits) international() int {
	if d.n < 8 || d.value[0] == '0' {
		return 0
	}
	for n := min(d.n, 15); n >= 8; n-- {
		if end, ok := d.ends(n); ok {
			return end
		}
	}
	return 0
}

// northAmerican finds (415) 555-2671, 415-555-2671, 415.555.2671, and these
// after 1. The area and the exchange begin with 2 to 9.
func (d *digits) northAmerican() int {
	area := 0
	if d.n >= 11 && d.value[0] == '1' && d.at[1] != d.at[0]+1 && d.sign == 0 {
		area = 1
	}
	n := area + 10
	if d.n < n || d.value[area] < '2' || d.value[area+3] < '2' {
		return 0
	}
	sizes := d.groups(n)[area:]
	if len(sizes) != 3 || sizes[0] != 3 || sizes[1] != 3 {
		return 0
	}
	if b := d.between(area + 3); d.sign == '(' && b != ") " && b != ")" && b != ")-" || d.sign == 0 && len(b) != 1 && b != ") " {
		return 0
	}
	if b := d.between(area + 6); b != "-" && b != "." && b != " " {
		return 0
	}
	end, _ := d.ends(n)
	return end
}

// national finds 030 1234567, 0171/1234567, 020 7946 0958, 01 23 45 67 89.
func (d *digits) national() int {
	if d.n < 9 || d.value[0] != '0' || d.value[1] == '0' {
		return 0
	}
	if d.grouped([]int{2, 2, 2, 2, 2}, " .") {
		end, _ := d.ends(10)
		return end
	}
	for n := min(d.n, 12); n >= 9; n-- {
		sizes := d.groups(n)
		if len(sizes) < 2 || len(sizes) > 4 || sizes[0] < 3 || sizes[0] > 5 || !d.phonic(n) {
			continue
		}
		if end, ok := d.ends(n); ok {
			return end
		}
	}
	return 0
}

// phonic reports whether all groups but the first have at least two digits, and
// are separated as in national numbers.
func (d *digits) phonic(n int) bool {
	for i, size := range d.groups(n) {
		if i > 0 && size < 2 {
			return false
		}
	}
	for i := 1; i < n; i++ {
		if b := d.between(i); b != "" && b != " " && b != "-" && b != "/" {
			return false
		}
	}
	return true
}
