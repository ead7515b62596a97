package public

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// patience is how long the page may take: machines of CI are busy.
const patience = 45 * time.Second

// browser is a headless Chromium with one page, driven over a pipe by the DevTools
// protocol.
type browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	calls   int
	session string
}

// startBrowser starts Chromium, or skips the test where it is not installed. CI requires it
// with AGENTD_TEST_REQUIRE_BROWSER=1.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		if os.Getenv("AGENTD_TEST_REQUIRE_BROWSER") == "1" {
			t.Fatal("no Chromium is installed")
		}
		t.Skip("no Chromium is installed")
	}
	hisFrom, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, hisTo, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "browser") //nolint:usetesting // the browser's helpers may write after it ended, for which t.TempDir fails
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{hisFrom, hisTo} // 3 and 4, as the protocol has it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = hisFrom.Close(), hisTo.Close()
	b := &browser{t: t, to: to, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		b.session = ""
		b.send("Browser.close", nil)
		_ = to.Close()
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
		_ = from.Close()
	})
	target := b.call("Target.createTarget", object{"url": "about:blank"})["targetId"]
	b.session = b.call("Target.attachToTarget", object{"targetId": target, "flatten": true})["sessionId"].(string)
	b.call("Page.enable", nil)
	return b
}

func (b *browser) send(method string, params object) int {
	b.calls++
	message := object{"id": b.calls, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	data, err := json.Marshal(message)
	if err != nil {
		b.t.Fatal(err)
	}
	_, _ = b.to.Write(append(data, 0)) // a browser that ended does not answer
	return b.calls
}

// call calls a method and returns its result. Events are left out.
func (b *browser) call(method string, params object) object {
	b.t.Helper()
	id := b.send(method, params)
	for {
		data, err := b.from.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: the browser ended: %v", method, err)
		}
		var answer struct {
			ID     int            `json:"id"`
			Result object         `json:"result"`
			Error  jsontext.Value `json:"error"`
		}
		if err := json.Unmarshal(bytes.TrimSuffix(data, []byte{0}), &answer); err != nil {
			b.t.Fatal(err)
		}
		if answer.ID != id {
			continue
		}
		if answer.Error != nil {
			b.t.Fatalf("%s: %s", method, answer.Error)
		}
		return answer.Result
	}
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", object{"url": url})
}

// eval returns the value of an expression in the page, in which chat is the shadow root of
// the widget.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	r := b.call("Runtime.evaluate", object{"returnByValue": true, "awaitPromise": true, "expression": `(async () => {
		const host = document.querySelector('agentd-chat'); const chat = host && host.shadowRoot;
		return (` + expression + `); })()`})
	if failed := r["exceptionDetails"]; failed != nil {
		return nil // the page has it not yet
	}
	return r["result"].(object)["value"]
}

// wait waits until an expression is true.
func (b *browser) wait(expression string) {
	b.t.Helper()
	end := time.Now().Add(patience)
	for b.eval(expression) != true {
		if time.Now().After(end) {
			b.t.Fatalf("this does not come true: %s\nthe chat: %v", expression, b.eval(`chat && chat.querySelector('.root').innerText`))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// press presses a key where the focus is.
func (b *browser) press(key string, code int) {
	b.t.Helper()
	text := ""
	if key == "Enter" {
		text = "\r"
	}
	b.call("Input.dispatchKeyEvent", object{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text})
	b.call("Input.dispatchKeyEvent", object{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code})
}

// write writes a text where the focus is, and sends it.
func (b *browser) write(text string) {
	b.t.Helper()
	b.call("Input.insertText", object{"text": text})
	b.press("Enter", 13)
}
