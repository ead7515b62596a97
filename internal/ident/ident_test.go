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

func TestDerivedIdsFollowFromMomentAndName(t *testing.T) {
	t.Parallel()
	at := time.Now()
	id := Derived(at, "a")
	if !Valid(id) || id[14] != '7' {
		t.Errorf("%s is no id of version 7", id)
	}
	if again := Derived(at.In(time.FixedZone("", 3600)), "a"); again != id {
		t.Errorf("the same moment and name give %s and %s", id, again)
	}
	if Derived(at, "b") == id || Derived(at.Add(time.Millisecond), "a") == id || Derived(at.Add(time.Microsecond), "a") == id {
		t.Error("another name or moment gives the same id")
	}
	before, after := Derived(at.Add(-5*time.Millisecond), "z"), Derived(at.Add(5*time.Millisecond), "a")
	if before >= id || id >= after {
		t.Errorf("%s, %s, %s do not rise", before, id, after)
	}
	if made := New(); Derived(at.Add(-time.Minute), "a") >= made || Derived(time.Now().Add(time.Minute), "a") <= made {
		t.Error("derived ids do not sort among those that are made")
	}
}
