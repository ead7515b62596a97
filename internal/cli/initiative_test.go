package cli

import (
	"strings"
	"testing"
)

const initiativeID = "01990000-0000-7000-8000-0000000000e1"

// A person who asked the strategist learns that its answer was of no use, and why.
func TestInitiativeWhoseStrategistCannotBeFollowed(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	path := "/api/v1/initiatives/" + initiativeID
	a.handle("GET "+path+"/events", stream(1, `initiative.tick_start {}`, `initiative.tick_end {"reason":"there is no goal \"x\".","success":false}`,
		`initiative.tick_end {"success":true}`, `initiative.deleted {}`))
	a.shell.run("initiative", "follow", initiativeID).want(t, exitOK, "The strategist is asked.",
		`could not be followed, and is asked for again at the next tick: there is no goal "x".`, "The strategist has answered.")

	for last, want := range map[string]bool{"null": true, `"2026-01-02T00:00:00Z"`: true, `"2026-01-03T00:00:00Z"`: false} {
		b := newAPI(t)
		b.on("GET "+path, `{"initiative_id":"`+initiativeID+`","last_tick_at":"2026-01-03T00:00:00Z","last_successful_tick_at":`+last+`}`)
		r := b.shell.run("initiative", "show", initiativeID)
		r.want(t, exitOK, "Initiative")
		if got := strings.Contains(r.stdout, "could not be followed"); got != want {
			t.Errorf("followed %s: %s", last, r.stdout)
		}
	}
}
