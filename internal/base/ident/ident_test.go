package ident

import (
	"strings"
	"testing"
	"time"
)

func TestIdsRiseAndAreValid(t *testing.T) {
	t.Parallel()
	last := ""
	for range 10_000 {
		id := New()
		if id <= last || !Valid(id) {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
}

func TestOnlyTheCanonicalFormIsValid(t *testing.T) {
	t.Parallel()
	id := New()
	for _, s := range []string{
		"", "x", strings.ToUpper("01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f1a"), "{" + id + "}", "urn:uuid:" + id,
		strings.ReplaceAll(id, "-", ""), id + " ", " " + id, id[:35], id + "0", id[:35] + "g",
	} {
		if Valid(s) {
			t.Errorf("%q is valid", s)
		}
	}
}

func TestIdsAtAMomentFollowFromMomentAndName(t *testing.T) {
	t.Parallel()
	at := time.Now()
	id := At(at, "a")
	if !Valid(id) || id[14] != '7' {
		t.Errorf("%s is no id of version 7", id)
	}
	if again := At(at.In(time.FixedZone("", 3600)), "a"); again != id {
		t.Errorf("the same moment and name give %s and %s", id, again)
	}
	if At(at, "b") == id || At(at.Add(time.Millisecond), "a") == id || At(at.Add(time.Microsecond), "a") == id {
		t.Error("another name or moment gives the same id")
	}
	before, after := At(at.Add(-5*time.Millisecond), "z"), At(at.Add(5*time.Millisecond), "a")
	if before >= id || id >= after {
		t.Errorf("%s, %s, %s do not rise", before, id, after)
	}
	if made := New(); At(at.Add(-time.Minute), "a") >= made || At(time.Now().Add(time.Minute), "a") <= made {
		t.Error("derived ids do not sort among those that are made")
	}
}

func TestDerivedIdsAreValidAndTheSame(t *testing.T) {
	t.Parallel()
	a, b := Derived([16]byte{1, 2, 0xff}), Derived([16]byte{1, 2, 0xff, 4})
	if !Valid(a) || !Valid(b) || a == b || a != Derived([16]byte{1, 2, 0xff}) {
		t.Errorf("%s and %s", a, b)
	}
}

func TestDerive(t *testing.T) {
	t.Parallel()
	base := New()
	later := New()
	for ; later[:13] == base[:13]; later = New() { // another millisecond
	}
	id := Derive(base, "call", "1")
	if !Valid(id) || id != Derive(base, "call", "1") {
		t.Errorf("%s is no id, or not the same again", id)
	}
	if id <= base || id >= later {
		t.Errorf("%s does not sort between %s and %s", id, base, later)
	}
	seen := map[string]bool{id: true}
	for _, other := range []string{Derive(base, "call1"), Derive(base, "call", "2"), Derive(base, "call", "1", ""), Derive(base, "", "call1"), Derive(base), Derive(later, "call", "1")} {
		if seen[other] {
			t.Errorf("%s comes of other words too", other)
		}
		seen[other] = true
	}
	if !Valid(Derive("no id", "x")) {
		t.Error("a base that is no id gives none")
	}
}
