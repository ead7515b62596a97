package notification_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/delivery/notification"
)

const ops = `{"label":"x","enabled":true,"config":{"kind":"email","address":"ops@example.com"}}`

// An address gets one letter, and nothing more until it has confirmed by a button, not
// by opening a link.
func TestAddressesConfirm(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		o.ok(o.ada, "setNotificationPrefs", nil, `{"priority_channels":{"info":["email"]}}`)
		made := o.ok(o.ada, "createNotificationTarget", nil, ops)
		id := made["id"].(string)
		if made["confirmed"] != false {
			t.Errorf("%v", made)
		}
		o.mailed("ops@example.com Confirm that you want notifications of Acme")
		letter := o.box.text
		for range 12 {
			if _, err := o.do(o.ada, "testNotificationTarget", fields{"TargetID": id}, ""); !fault.Is(err, fault.Conflict) {
				t.Errorf("a test before the confirmation: %v", err)
			}
		}
		o.notify(notification.Notification{Title: "for ada", UserID: &o.ada.UserID})
		o.work()
		o.mailed("ada@example.com [Acme] for ada") // not the target
		o.ok(o.ada, "deleteNotificationTarget", fields{"TargetID": id}, "")
		if _, err := o.do(o.ada, "createNotificationTarget", nil, ops); !fault.Is(err, fault.Limited) {
			t.Errorf("a second letter: %v", err)
		}
		o.mailed()
		token := linkIn(t, letter, "/confirm")
		if err := o.press("confirmNotificationTarget", token); !fault.Is(err, fault.NotFound) {
			t.Errorf("a target that is deleted is confirmed: %v", err)
		}

		o.clock.Advance(25 * time.Hour)
		id = o.ok(o.ada, "createNotificationTarget", nil, ops)["id"].(string)
		o.mailed("ops@example.com Confirm that you want notifications of Acme")
		token = linkIn(t, o.box.text, "/confirm")
		o.fatal(o.press("showNotificationConfirmation", token)) // as mail programs do
		if got := o.ok(o.ada, "listNotificationTargets", nil, "")["targets"].([]any)[0].(map[string]any); got["confirmed"] != false {
			t.Errorf("opened, not confirmed: %v", got)
		}
		for _, wrong := range []string{"", "x", token + "x", strings.Replace(token, id, ident.New(), 1)} {
			if err := o.press("confirmNotificationTarget", wrong); !fault.Is(err, fault.NotFound) {
				t.Errorf("%q: %v", wrong, err)
			}
		}
		o.fatal(o.press("confirmNotificationTarget", token))
		o.fatal(o.press("confirmNotificationTarget", token)) // again
		o.notify(notification.Notification{Title: "more", UserID: &o.ada.UserID})
		o.work()
		o.mailed("ops@example.com [Acme] more")

		o.ok(o.ada, "createNotificationTarget", nil, `{"config":{"kind":"email","address":"late@example.com"}}`)
		late := linkIn(t, o.box.text, "/confirm")
		o.clock.Advance(24 * time.Hour)
		if err := o.press("confirmNotificationTarget", late); !fault.Is(err, fault.NotFound) {
			t.Errorf("after a day: %v", err)
		}
		o.box.sent = nil
		if own := o.ok(o.ada, "createNotificationTarget", nil, `{"config":{"kind":"email","address":"Ada@example.com"}}`); own["confirmed"] != true {
			t.Errorf("one's own verified address: %v", own)
		}
		o.mailed()
	})
}

// A company cannot make agentd write to many strangers, companies together cannot to
// one, and nobody can flood an address that has confirmed.
func TestMailIsBounded(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		letters := func(who authz.Caller, address string) error {
			out, err := o.do(who, "createNotificationTarget", nil, `{"config":{"kind":"email","address":"`+address+`"}}`)
			if err == nil {
				o.ok(who, "deleteNotificationTarget", fields{"TargetID": out["id"]}, "")
			}
			return err
		}
		for i := range 21 {
			if err := letters(o.ada, fmt.Sprintf("stranger%d@example.com", i)); i < 20 && err != nil || i == 20 && !fault.Is(err, fault.Limited) {
				t.Errorf("stranger %d: %v", i, err)
			}
		}
		o.clock.Advance(25 * time.Hour)
		for i := range 4 {
			other := authz.Caller{TenantID: ident.New(), UserID: ident.New()}
			if err := letters(other, "victim@example.com"); i < 3 && err != nil || i == 3 && !fault.Is(err, fault.Limited) {
				t.Errorf("company %d: %v", i, err)
			}
		}
		o.box.sent = nil
		target := o.confirmed(o.ada, "ops@example.com")
		for range 35 {
			o.ok(o.ada, "testNotificationTarget", fields{"TargetID": target}, "")
		}
		o.work()
		if len(o.box.sent) != 30 {
			t.Errorf("%d letters within an hour", len(o.box.sent))
		}
		if got := fmt.Sprint(o.ok(o.ada, "listNotificationTargets", nil, "")); !strings.Contains(got, "Too many emails") {
			t.Errorf("%s", got)
		}
		o.box.sent = nil
		o.clock.Advance(time.Hour)
		o.ok(o.ada, "testNotificationTarget", fields{"TargetID": target}, "")
		o.work()
		o.mailed("ops@example.com [Acme] Test notification")
	})
}

// Whoever unsubscribes gets nothing more of that company, by no target and no account,
// until the person of the account asks for it.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		target := o.confirmed(o.ada, "ops@example.com")
		test := func() {
			t.Helper()
			o.ok(o.ada, "testNotificationTarget", fields{"TargetID": target}, "")
			o.work()
		}
		test()
		o.mailed("ops@example.com [Acme] Test notification")
		token := linkIn(t, o.box.text, "/unsubscribe")
		if header := linkIn(t, o.box.stop, "/unsubscribe"); header == "" || !strings.HasPrefix(o.box.stop, "https://agentd.example.com/") {
			t.Errorf("the header leads to %s", o.box.stop)
		}
		o.fatal(o.press("showNotificationUnsubscribe", token))
		test()
		o.mailed("ops@example.com [Acme] Test notification") // opening the link stops nothing
		o.fatal(o.press("unsubscribeNotifications", token))
		o.fatal(o.press("unsubscribeNotifications", token))
		test()
		o.mailed()
		o.ok(o.ada, "deleteNotificationTarget", fields{"TargetID": target}, "")
		o.clock.Advance(48 * time.Hour)
		if _, err := o.do(o.ada, "createNotificationTarget", nil, ops); !fault.Is(err, fault.Conflict) {
			t.Errorf("a new target of the same address: %v", err)
		}
		o.mailed()

		o.critical("fire")
		o.work()
		o.mailed("ada@example.com [Acme] fire")
		o.fatal(o.press("unsubscribeNotifications", linkIn(t, o.box.text, "/unsubscribe")))
		o.critical("more")
		o.work()
		o.mailed()
		o.ok(o.ada, "setNotificationPrefs", nil, `{}`)
		o.critical("again")
		o.work()
		o.mailed("ada@example.com [Acme] again")
		for _, wrong := range []string{"", "x", token[:len(token)-2]} {
			if err := o.press("unsubscribeNotifications", wrong); !fault.Is(err, fault.NotFound) {
				t.Errorf("%q: %v", wrong, err)
			}
		}
	})
}

// What an agent writes is quoted, and attributed to its company.
func TestAgentsDoNotPassForTheOperator(t *testing.T) {
	t.Parallel()
	offices(t, func(t *testing.T, o *office) {
		o.ok(o.ada, "setNotificationPrefs", nil, `{"priority_channels":{"info":["email"]}}`)
		o.notify(notification.Notification{
			Type: notification.AgentMessage, Title: "Your account is locked", Message: "Sign in at http://evil.example\n-- \nThe operator", UserID: &o.ada.UserID,
		})
		o.work()
		o.mailed("ada@example.com [Acme] Your account is locked")
		own, footer, found := strings.Cut(o.box.text, "\n\n-- \n")
		if !found || !strings.HasPrefix(own, "An agent of the company \"Acme\" wrote this:\n\n> Your account is locked\n> \n> Sign in at") ||
			!strings.Contains(own, "\n> -- \n> The operator") || !strings.Contains(footer, "whose operator did not write it") {
			t.Errorf("the letter is %s", o.box.text)
		}
	})
}
