package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// Requests for speech and transcriptions use the models, the voices and the presets that the
// operator sets, as far as they do not say others.
func TestVoiceSettings(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t)
	n := apptest.Start(t, sim, func(c *config.Config) {
		c.Models.SpeechModel, c.Models.TranscriptionModel, c.Models.SpeechVoice = "", "", ""
	})
	const speech, transcribe = "/api/v1/llm/audio/speech", "/api/v1/llm/audio/transcriptions"
	said := func(body object) modeltest.SpeechRequest {
		t.Helper()
		body["input"] = "Good day"
		if r := n.Do("POST", speech, body); r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.Body)
		}
		all := sim.SpeechRequests()
		last := all[len(all)-1]
		last.Header = nil
		return last
	}
	form := func() apptest.Reply {
		return n.Do("POST", transcribe, "--b\r\nContent-Disposition: form-data; name=file; filename=a.mp3\r\nContent-Type: audio/mpeg\r\n\r\nsound\r\n--b--\r\n",
			"Content-Type", "multipart/form-data; boundary=b")
	}
	n.Do("POST", speech, object{"input": "x"}).IsProblem(t, 501, "speech_not_configured")
	form().IsProblem(t, 501, "transcription_not_configured")

	put(n, "voice", object{"speech_model": "default/speaker", "transcription_model": "default/listener"})
	if diff := cmp.Diff(modeltest.SpeechRequest{Model: "speaker", Input: "Good day", Voice: "alloy", Format: "mp3"}, said(object{})); diff != "" {
		t.Error(diff)
	}
	if r := form(); r.StatusCode != 200 || sim.TranscriptionRequests()[0].Fields["model"] != "listener" {
		t.Errorf("%d %s", r.StatusCode, r.Body)
	}
	put(n, "voice", object{"speech_voice": "ash"})
	if got := said(object{}); got.Voice != "ash" {
		t.Errorf("speech_voice: %+v", got)
	}
	shown := n.Expect(200, "GET", "/api/v1/llm/voice-config", nil)
	if tts, stt := shown["tts"].(object), shown["stt"].(object); tts["model"] != "default/speaker" || tts["voice"] != "ash" || stt["model"] != "default/listener" {
		t.Errorf("%v", shown)
	}
	put(n, "voice-presets", object{"models": object{
		"default/speaker": object{"voice": "nova", "speed": 1.5, "instructions": "Calmly."}, "default/other": object{"voice": "sage"},
	}})
	want := modeltest.SpeechRequest{Model: "speaker", Input: "Good day", Voice: "nova", Format: "mp3", Speed: 1.5, Instructions: "Calmly."}
	if diff := cmp.Diff(want, said(object{})); diff != "" {
		t.Error(diff)
	}
	want.Voice, want.Speed, want.Instructions = "echo", 2, "Loudly."
	if diff := cmp.Diff(want, said(object{"voice": "echo", "speed": 2, "instructions": "Loudly."})); diff != "" {
		t.Error(diff)
	}
	put(n, "voice-presets", object{"models": object{"default/speaker": nil}})
	if got := said(object{}); got.Voice != "ash" || got.Speed != 0 {
		t.Errorf("without a preset: %+v", got)
	}
	put(n, "voice", object{"speech_model": nil, "transcription_model": nil})
	n.Do("POST", speech, object{"input": "x"}).IsProblem(t, 501, "speech_not_configured")
	form().IsProblem(t, 501, "transcription_not_configured")
	refusedKeys(t, n, "voice", map[string]string{`{"speech_model":"builtin/echo"}`: "speech_model", `{"transcription_model":"builtin/echo"}`: "transcription_model"})
	refusedKeys(t, n, "voice-presets", map[string]string{
		`{"models":{"nobody/x":{}}}`: "nobody/x", `{"models":{"default/speaker":{"speed":9}}}`: "speed",
	})
}
