package cli

import (
	"strings"

	"github.com/alecthomas/kong"
)

// exampleText is the example of a command as its help shows it.
func exampleText(node *kong.Node) string {
	example := examples[commandPath(node)]
	if example == "" {
		return ""
	}
	return "Example:\n\n    " + strings.ReplaceAll(strings.TrimSpace(example), "\n", "\n    ")
}

// commandPath is a command as it is typed, without the program.
func commandPath(node *kong.Node) string {
	return strings.TrimPrefix(strings.TrimPrefix(node.FullPath(), "agentd"), " ")
}

// untested are the commands whose examples the test of docs/cli.md does not
// type: they serve until they are stopped, or need what builtin/echo does not do.
// Tests of their areas run what they send.
var untested = map[string]bool{
	"serve": true, "bridge": true, "initiative follow": true, "webhooks listen": true, "webhooks redeliver": true,
	"workspaces terminal": true, // the operator allows it, and the machine can confine programs
	"runs respond":        true, "admin secrets forget": true, "migrate sqlite-to-postgres": true,
	"integration connect": true, "integration complete": true, // a person consents at a provider
}

// examples has an example of each command. They are one story: the help texts and
// docs/cli.md show them, and a test types them in the page's order.
var examples = map[string]string{
	"agent create": `agentd agent create --name calc --tool calculator --system "You are good at sums."
agentd agent create --name calc --tool calculator,current_time --replace`,
	"agent list":   `agentd agent list --limit 5 --stats`,
	"agent show":   `agentd agent show calc`,
	"agent export": `agentd agent export calc > calc.yaml`,
	"agent apply": `agentd agent apply -f calc.yaml --dry-run
printf 'name: clerk\nbuilt_in_tools: [calculator]\napproval_required_tools: [calculator]\n' > clerk.yaml
agentd agent apply -f clerk.yaml --yes`,
	"agent edit":     `EDITOR="sed -i s/sums/arithmetic/" agentd agent edit calc`,
	"agent versions": `agentd agent versions calc`,
	"agent diff":     `agentd agent diff calc 1 2`,
	"agent rollback": `agentd agent rollback calc 2`,
	"agent skill add": `mkdir -p skills/invoices
printf -- '---\nname: invoices\ndescription: How we write invoices.\n---\nName the order.\n' > skills/invoices/SKILL.md
agentd agent create --name writer
agentd agent skill add writer ./skills/invoices`,
	"agent traffic": `agentd agent traffic calc --split 1=90,2=10 --candidate 2
agentd agent traffic calc
agentd agent traffic calc --clear`,
	"agent delete": `agentd agent create --name scratch
agentd agent delete scratch --yes`,
	"run": `agentd run calc "What is 6*7?"
echo "What is 6*8?" | agentd run calc -
printf 'criteria:\n- {name: polite, description: It says "please".}\n' > polite.yaml
agentd run calc "Ask for the salt." --rubric polite.yaml
export RUN=$(agentd run clerk "What is 6*9?" --detach)`,
	"workspaces terminal": `agentd workspaces terminal 01a21dd4-6ac5-769d-90e2-d6c25bba37a5 --dir docs`,
	"bridge":              `agentd bridge --dir ~/src/app --name build --commands ask`,
	"runs list":           `agentd runs list --agent calc --since 1h --status completed,failed`,
	"runs show":           `agentd runs show $RUN`,
	"runs tree":           `agentd runs tree $RUN`,
	"runs approve":        `agentd runs approve $RUN`,
	"runs follow":         `agentd runs follow $RUN`,
	"runs respond":        `agentd runs respond $RUN "The second one."`,
	"runs reject": `export RUN=$(agentd run clerk "What is 1+1?" --detach)
agentd runs reject $RUN --reason "not today" --continue`,
	"runs fork":     `agentd runs fork $RUN --step 1 --message "Be brief."`,
	"runs continue": `agentd runs continue --failed --since 1h --code model_error`,
	"runs cancel":   `agentd runs cancel $RUN`,
	"runs diff":     `agentd runs diff $RUN $RUN`,
	"runs replay": `agentd runs replay $RUN
agentd runs replay $RUN --execute`,
	"runs export": `agentd runs export --status completed,failed --since 7d > runs.ndjson`,
	"chat": `printf 'What is 6*7?\n/history\n' | agentd chat calc
export SESSION=$(agentd sessions list --agent calc --json | jq -r '.items[0].session_id')
echo "And half of that?" | agentd chat --session $SESSION`,
	"approvals list": `export RUN=$(agentd run clerk "What is 2+2?" --detach)
agentd approvals list`,
	"approvals approve": `agentd approvals approve $(agentd approvals list --json | jq -r '.items[0].approval_id')`,
	"approvals reject": `export RUN=$(agentd run clerk "What is 3+3?" --detach)
agentd approvals reject $(agentd approvals list --json | jq -r '.items[0].approval_id') --reason "not today"`,
	"sessions list":     `agentd sessions list --agent calc`,
	"sessions show":     `agentd sessions show $SESSION`,
	"sessions messages": `agentd sessions messages $SESSION`,
	"sessions delete":   `agentd sessions delete $SESSION`,
	"team create":       `agentd team create desk --topology pipeline --supervisor clerk --worker calc`,
	"team list":         `agentd team list`,
	"team show":         `agentd team show desk`,
	"team run":          `agentd team run desk "What is 6*7?"`,
	"team runs":         `agentd team runs desk`,
	"team chat":         `agentd team chat desk --internal`,
	"team cancel":       `agentd team cancel desk $(agentd team runs desk --json | jq -r '.items[0].team_run_id')`,
	"team delete":       `agentd team delete desk`,
	"eval import": `printf 'input,expected_output\nWhat is 6*7?,42\nWhat is 6*8?,48\n' > sums.csv
agentd eval import calc sums.csv`,
	"eval datasets": `agentd eval datasets calc`,
	"eval run": `agentd eval run calc sums.csv --scorer numeric --min-pass-rate 0.9 --junit report.xml
export EVAL=$(agentd eval run calc sums.csv --scorer contains --detach)`,
	"eval list":    `agentd eval list calc`,
	"eval show":    `agentd eval show calc $EVAL`,
	"eval compare": `agentd eval compare calc sums.csv --versions 1,2 --scorer numeric`,
	"eval cancel":  `agentd eval cancel calc $(agentd eval run calc sums.csv --detach)`,
	"eval collect": `agentd eval collect calc lately --runs 20`,

	"mission start": `agentd mission start "A garden" --agent clerk --agent calc`,
	"mission list":  `agentd mission list`,
	"mission show": `export MISSION=$(agentd mission list --json | jq -r '.items[0].mission_id')
agentd mission show $MISSION`,
	"mission objectives": `agentd mission objectives $MISSION`,
	"mission follow":     `agentd mission follow $MISSION`,
	"mission authorize": `printf '{"objectives":[{"title":"What is 6*9?"},{"title":"What is 6*8?","depends_on_indices":[0]}]}' > plan.json
export MISSION=$(agentd mission start "Two sums" --agent clerk --plan plan.json --authorize --detach --json | jq -r .mission_id)
agentd mission authorize $MISSION`,
	"mission pause": `agentd mission pause $MISSION`,
	"mission resume": `while [ "$(agentd mission show $MISSION --json | jq -r .status)" != paused ]; do
  agentd approvals list --json | jq -r '.items[].approval_id' | xargs -r -n 1 agentd approvals approve
  sleep 1
done
agentd mission resume $MISSION`,
	"mission abort":  `agentd mission abort $MISSION --reason "it is winter"`,
	"mission report": `agentd mission report $MISSION`,

	"initiative create":     `agentd initiative create letter --mission "A weekly newsletter" --goal "Ten issues" --budget 20 --daily 2`,
	"initiative list":       `agentd initiative list`,
	"initiative show":       `agentd initiative show letter`,
	"initiative tick":       `agentd initiative tick letter`,
	"initiative objectives": `agentd initiative objectives letter`,
	"initiative activity":   `agentd initiative activity letter`,
	"initiative follow":     `agentd initiative follow letter`,
	"initiative pause":      `agentd initiative pause letter`,
	"initiative resume":     `agentd initiative resume letter`,
	"initiative delete":     `agentd initiative delete letter`,

	"schedules list":   `agentd schedules list`,
	"schedules set":    `agentd schedules set calc --cron "0 9 * * 1-5" --timezone Europe/Berlin --message "What is 6*7?"`,
	"schedules show":   `agentd schedules show calc`,
	"schedules delete": `agentd schedules delete calc`,
	"memory list":      `agentd memory list calc`,
	"memory add":       `export ENTRY=$(agentd memory add calc "The user likes green tea." --about Ada --tag drink --json | jq -r .entry_id)`,
	"memory search":    `agentd memory search calc "green tea"`,
	"memory delete":    `agentd memory delete calc $ENTRY`,
	"kb list":          `agentd kb list`,
	"kb create":        `agentd kb create Handbook --description "How we work"`,
	"kb add": `mkdir -p handbook
echo "We open at nine on Mondays." > handbook/hours.md
agentd kb add Handbook handbook`,
	"kb documents": `agentd kb documents Handbook`,
	"kb search":    `agentd kb search Handbook "when do you open"`,
	"kb eval": `printf '{"question": "when do you open?", "source": "hours.md"}\n{"question": "who won the cup?"}\n' > questions.jsonl
agentd kb eval Handbook questions.jsonl --min-recall 0.85`,
	"kb delete":              `agentd kb delete Handbook --yes`,
	"models test":            `agentd models test builtin/echo`,
	"integration connectors": `agentd integration connectors`,
	"integration create": `printf %s github_pat_11AA > token.txt
export LINK=$(agentd integration create github Git --set base_url=http://127.0.0.1:9999 --file token=token.txt --json | jq -r .id)`,
	"integration list":  `agentd integration list`,
	"integration show":  `agentd integration show $LINK`,
	"integration set":   `agentd integration set $LINK --file token=token.txt`,
	"integration tools": `agentd integration tools $LINK`,
	"integration test": `cat > health.json <<END
{"openapi": "3.0.0", "info": {"title": "Health", "version": "1"}, "paths": {"/health": {"get": {"operationId": "health"}}}}
END
agentd integration create http Health --set spec="$(cat health.json)" --set base_url=$AGENTD_URL \
  --set auth=none --set test_path=/health
agentd integration test Health`,
	"integration sync": `agentd integration sync $LINK`,
	"integration link": `agentd integration link $LINK calc
agentd integration link $LINK calc --remove`,
	"integration connect":  `agentd integration connect github --agent calc`,
	"integration complete": `agentd integration complete github --state STATE --code CODE`,
	"integration delete":   `agentd integration delete $LINK`,

	"marketplace list":    `export LISTING=$(agentd marketplace list calc Greeter --category other --json | jq -r .listing_id)`,
	"marketplace publish": `agentd marketplace publish $LISTING`,
	"marketplace search":  `agentd marketplace search greet --sort rating`,
	"marketplace mine":    `agentd marketplace mine`,
	"marketplace show":    `agentd marketplace show $LISTING`,
	"marketplace rate": `export BUYER=$(agentd admin tenant create --name Buyer --json | jq -r .raw_key)
AGENTD_KEY=$BUYER agentd marketplace rate $LISTING 5 --comment "Polite."`,
	"marketplace subscribe": `export LESSONS=$(agentd marketplace list calc Lessons --category education \
  --price-per-month 9 --publish --json | jq -r .listing_id)
AGENTD_KEY=$BUYER agentd marketplace subscribe $LESSONS`,
	"marketplace invoke":    `AGENTD_KEY=$BUYER agentd marketplace invoke $LISTING "What is 6*7?"`,
	"marketplace deprecate": `agentd marketplace deprecate $LISTING`,
	"marketplace revenue":   `agentd marketplace revenue`,

	"webhooks list": `agentd webhooks list`,
	"webhooks create": `export HOOK=$(agentd webhooks create http://127.0.0.1:9999/hook --events run.completed --json | jq -r .webhook_id)
agentd run calc "What is 6*7?"`,
	"webhooks trigger":    `agentd webhooks trigger $HOOK`,
	"webhooks deliveries": `agentd webhooks deliveries $HOOK`,
	"webhooks redeliver":  `agentd webhooks redeliver $HOOK DELIVERY`,
	"webhooks listen": `agentd webhooks listen --events run.completed,run.failed
agentd webhooks listen --webhook $HOOK`,
	"webhooks delete": `agentd webhooks delete $HOOK`,
	"keys list":       `agentd keys list`,
	"keys create":     `export KEY=$(agentd keys create ci --scopes agents:read,runs:create --json | jq -r .key_id)`,
	"keys revoke":     `agentd keys revoke $KEY`,
	"members list":    `agentd members list`,
	"members invite":  `agentd members invite ann@example.com --role viewer`,
	"members remove":  `agentd members remove ann@example.com --yes`,
	"usage":           `agentd usage`,
	"audit list":      `agentd audit list --since 24h --limit 10`,
	"audit export":    `agentd audit export --file audit.ndjson`,
	"ledger verify": `agentd api GET /api/v1/governance/ledger/export > ledger.ndjson
agentd ledger verify ledger.ndjson`,
	"whoami":                     `agentd whoami`,
	"doctor":                     `agentd doctor`,
	"api":                        `agentd api GET "agents?limit=2"` + "\n" + `agentd api POST /api/v1/agents -d '{"name": "by hand"}'`,
	"man":                        `agentd man > agentd.1`,
	"completion":                 `agentd completion bash > agentd.bash`,
	"serve":                      `agentd serve`,
	"migrate schema":             `agentd migrate schema --status`,
	"migrate sqlite-to-postgres": `agentd migrate sqlite-to-postgres --database-url postgres://agentd:secret@db/agentd`,
	"backup": `printf 'correct horse battery staple' > passphrase
agentd backup agentd.backup --passphrase-file passphrase`,
	"upgrade check":           `agentd upgrade check`,
	"admin nodes":             `agentd admin nodes`,
	"admin top":               `agentd admin top --once`,
	"restore":                 `agentd restore agentd.backup --passphrase-file passphrase --data-dir ./restored`,
	"verify":                  `agentd verify agentd.backup`,
	"config show":             `agentd config show`,
	"config reference":        `agentd config reference`,
	"admin tenant create":     `agentd admin tenant create --name Acme --owner ann@example.com`,
	"admin tenant list":       `agentd admin tenant list`,
	"admin tenant suspend":    `agentd admin tenant suspend acme --reason "unpaid"`,
	"admin tenant reactivate": `agentd admin tenant reactivate acme`,
	"admin tenant purge":      `agentd admin tenant purge acme --dry-run`,
	"admin key create":        `agentd admin key create --role owner --scopes '*' --name again`,
	"admin sign-in-link":      `agentd admin sign-in-link`,
	"admin config get":        `agentd admin config get runtime`,
	"admin config set":        `agentd admin config set runtime max_steps=500`,
	"admin config export":     `agentd admin config export > settings.json`,
	"admin config import":     `agentd admin config import settings.json --dry-run`,
	"admin secrets status":    `agentd admin secrets status`,
	"admin secrets rotate":    `agentd admin secrets rotate`,
	"admin secrets forget":    `agentd admin secrets forget KEY-ID`,
	"help":                    `agentd help agent create`,
	"version":                 `agentd version`,
}
