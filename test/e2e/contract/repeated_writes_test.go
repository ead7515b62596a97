package contract

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/kernel/model/modeltest"
)

// countKeptAnswers is how many answers were kept in the commit of their effect.
func countKeptAnswers(n *apptest.Server) int {
	n.T.Helper()
	for line := range strings.SplitSeq(string(n.Do("GET", "/metrics", nil).Body), "\n") {
		if rest, ok := strings.CutPrefix(line, `agentd_idempotency_answers_total{with_effect="true"} `); ok {
			count, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				n.T.Fatal(err)
			}
			return int(count)
		}
	}
	return 0
}

// keptAfterwards are the posts whose answer is known only after the commit of
// their effect, with what it does to have one of these twice after a crash.
// Puts, patches and deletes have no second effect when they are repeated.
var keptAfterwards = map[string]string{
	"spawnAgent":            "two commits, of the agent and of its task; a child more",
	"searchMemory":          "reads",
	"bridgeHeartbeat":       "a sign of life more; those within 10 seconds of another are not even stored",
	"dataSubjectErasure":    "erases what is left",
	"checkGovernance":       "reads",
	"checkSpawnPermission":  "reads",
	"checkDeadlock":         "reads",
	"simulateConstitution":  "reads",
	"llmChatCompletion":     "asks a model, which costs once more",
	"searchKnowledgeBase":   "reads",
	"searchWeb":             "reads",
	"testMcpServer":         "reads",
	"testIntegration":       "reads",
	"testAgentIntegration":  "reads",
	"startIntegrationOAuth": "an authorization more is begun, which nobody completes",
	"testLlmCredential":     "reads",
	"testLlmModel":          "a model is asked again",
	"createSpeech":          "a model is asked again",
	"createEmbedding":       "a model is asked again",
	"createTranscription":   "a model is asked again",
	"reindexKnowledgeBase":  "what is embedded is not embedded again",
	"authorizeMcpServer":    "another address, of which one is used",
	"bulkDeleteSessions":    "what is deleted stays so",
	"decideInbox":           "what was decided stays so",
	"shareWorkspace":        "shared is shared",
	"assignWorkspace":       "assigned is assigned",
	"runSessionTodoNow":     "a todo that runs is 409",
	"confirmSessionTodo":    "a todo that is confirmed is 409",
	"mintSseToken":          "writes nothing; a token more, for a minute",
}

// Every write of the route table can be repeated: the second answer is the
// first, byte by byte, and was kept in the commit of the effect.
func TestEveryWriteCanBeRepeated(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	c := contracttest.NewOwnCompany(t, apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.WebSearch(t), apptest.Embedding, apptest.CorpProvider(t)))
	operations := contracttest.Operations(c.Server)
	slices.SortStableFunc(operations, contracttest.DeletionsLast)
	for _, op := range operations {
		if !canRepeat(op) || op.NeedsPerson || contracttest.BrowserOnly[op.ID] {
			continue
		}
		t.Run(op.TestName(), func(t *testing.T) {
			c := c.WithT(t)
			k := c.OwnCall(op)
			if _, isText := k.Body.(string); k.Body != nil && !isText { // as text: maps have no order, and a repeated request has the same bytes
				text, err := json.Marshal(k.Body)
				if err != nil {
					t.Fatal(err)
				}
				k.Body = string(text)
			}
			key := []string{"Idempotency-Key", "walk-" + op.TestName()}
			before := countKeptAnswers(c.Server)
			first := k.Send(c.Server, key...)
			if !op.Succeeds(first.StatusCode) {
				t.Fatalf("%d %s", first.StatusCode, first.Body)
			}
			_, later := keptAfterwards[op.ID]
			if with := countKeptAnswers(c.Server) > before; with == later && op.Method == http.MethodPost {
				t.Errorf("kept in the commit of its effect: %t; call txn.Answer or txn.Promise there, or say in keptAfterwards "+
					"why not", with)
			}
			again := k.Send(c.Server, key...)
			switch op.ID {
			case "logout": // nobody may repeat it: the key is revoked
				again.IsProblem(t, 401, "AUTH_ERROR")
				return
			case "transferTenantOwnership": // nor this: whoever did it is no owner
				again.IsProblem(t, 403, "FORBIDDEN")
				return
			}
			same := string(again.Body) == string(first.Body) || again.JSON["secret_shown_once"] == true
			checkSecretShownOnce(t, op, first, again)
			if again.StatusCode != first.StatusCode || !same || again.Header.Get("X-Idempotency-Replayed") != "true" {
				t.Errorf("repeated: %d %v\n%s\nfirst: %d\n%s", again.StatusCode, again.Header, again.Body, first.StatusCode, first.Body)
			}
			for _, name := range []string{"Content-Type", "ETag", "Location"} {
				if again.Header.Get(name) != first.Header.Get(name) {
					t.Errorf("%s is %q, and was %q", name, again.Header.Get(name), first.Header.Get(name))
				}
			}
			other := *k
			other.Query.Set("another", "request")
			op.CheckRefusal(t, other.Send(c.Server, key...), 422, "IDEMPOTENCY_KEY_REUSED")
		})
	}
}

// secretive matches what opens something for whoever has it: keys, stream tokens,
// signing secrets, second factors and the tokens of links.
var secretive = regexp.MustCompile(`svc_[A-Za-z0-9]{8}_[A-Za-z0-9]{32}|svt_[A-Za-z0-9_-]{20}|whsec_|otpauth://|[?&]token=`)

// showsSecrets are operations that show a secret once.
var showsSecrets = []string{"createApiKey", "inviteUser", "resendInvite", "createWebhook", "createSensor", "createNotificationTarget",
	"mintSseToken", "enrolMfa", "createTenant"}

// checkSecretShownOnce fails if a repeated answer shows a secret, or has lost more than
// that.
func checkSecretShownOnce(t *testing.T, op *contracttest.Operation, first, again apptest.Reply) {
	t.Helper()
	if secretive.Match(again.Body) {
		t.Errorf("a repetition shows a secret: implement route.ShownOnce on the answer: %s", again.Body)
	}
	once := secretive.Match(first.Body)
	if listed := slices.Contains(showsSecrets, op.ID); listed != once || once != (again.JSON["secret_shown_once"] == true) {
		t.Errorf("listed in showsSecrets: %t, the first answer shows a secret: %t, repeated: %s", listed, once, again.Body)
	}
	delete(again.JSON, "secret_shown_once")
	for name := range again.JSON {
		if _, there := first.JSON[name]; !there {
			t.Errorf("the repetition has %s, the first answer has not", name)
		}
	}
}

func canRepeat(o *contracttest.Operation) bool {
	return o.Method != http.MethodGet && !o.Public && !o.RPCErrors && (o.Repeats || strings.HasPrefix(o.Path, "/api/v1/"))
}
