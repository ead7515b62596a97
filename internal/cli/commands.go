package cli

// commands is the tree of all commands. The order of the fields is that of the
// help texts and of docs/cli.md.
type commands struct {
	Help    helpFlag    `short:"h" help:"Show help."`
	Version versionFlag `help:"Print the version."`

	Agent struct {
		Create   agentCreateCommand   `cmd:"" help:"Create an agent."`
		List     agentListCommand     `cmd:"" help:"List agents, newest first."`
		Show     agentShowCommand     `cmd:"" help:"Show an agent."`
		Export   agentExportCommand   `cmd:"" help:"Write agents as YAML, which apply reads."`
		Apply    agentApplyCommand    `cmd:"" help:"Create and change agents so that they are as files say."`
		Edit     agentEditCommand     `cmd:"" help:"Change an agent in your editor."`
		Versions agentVersionsCommand `cmd:"" help:"List the versions of an agent, newest first."`
		Diff     agentDiffCommand     `cmd:"" help:"Compare two versions of an agent."`
		Rollback agentRollbackCommand `cmd:"" help:"Go back to an earlier version of an agent, as a new version."`
		Delete   agentDeleteCommand   `cmd:"" help:"Delete an agent."`
	} `cmd:"" group:"Agents" help:"Agents: what they are and how they change."`
	Run  runCommand `cmd:"" group:"Agents" help:"Start a run of an agent and follow it to its end."`
	Runs struct {
		List    runsListCommand    `cmd:"" help:"List runs, newest first."`
		Show    runsShowCommand    `cmd:"" help:"Show a run with its output and steps."`
		Follow  runsFollowCommand  `cmd:"" help:"Follow a run to its end, from its first event on."`
		Tree    runsTreeCommand    `cmd:"" help:"Show a run with the runs of other agents that it started."`
		Respond runsRespondCommand `cmd:"" help:"Answer the question of a run."`
		Approve runsApproveCommand `cmd:"" help:"Approve the tool call that a run waits for."`
		Reject  runsRejectCommand  `cmd:"" help:"Reject the tool call that a run waits for."`
		Cancel  runsCancelCommand  `cmd:"" help:"Cancel a run."`
	} `cmd:"" group:"Agents" help:"Runs: what agents did and do."`
	Chat      chatCommand `cmd:"" group:"Agents" help:"Talk with an agent: a session in the terminal, or a message for each line of a pipe."`
	Approvals struct {
		List    approvalsListCommand    `cmd:"" help:"List tool calls that wait for an approval."`
		Approve approvalsApproveCommand `cmd:"" help:"Approve a tool call."`
		Reject  approvalsRejectCommand  `cmd:"" help:"Reject a tool call."`
	} `cmd:"" group:"Agents" help:"The inbox of tool calls that wait for a person."`
	Sessions struct {
		List     sessionsListCommand     `cmd:"" help:"List sessions, newest first."`
		Show     sessionsShowCommand     `cmd:"" help:"Show a session with its branches."`
		Messages sessionsMessagesCommand `cmd:"" help:"Show the messages of a session's active branch."`
		Delete   sessionsDeleteCommand   `cmd:"" help:"Close a session."`
	} `cmd:"" group:"Agents" help:"Sessions: conversations with an agent."`

	Serve   serveCommand   `cmd:"" group:"Server" help:"Run the server."`
	Migrate migrateCommand `cmd:"" group:"Server" help:"Migrate the database to this version's schema, or back."`
	Config  struct {
		Show      configShowCommand      `cmd:"" default:"withargs" help:"Print the effective configuration, without secrets."`
		Reference configReferenceCommand `cmd:"" help:"Print the reference of every setting, as Markdown."`
	} `cmd:"" group:"Server" help:"Show the configuration."`
	Admin struct {
		Tenant struct {
			Create     tenantCreateCommand     `cmd:"" help:"Create a tenant, its owner and the owner's key."`
			List       tenantListCommand       `cmd:"" help:"List tenants, newest first."`
			Suspend    tenantSuspendCommand    `cmd:"" help:"Suspend a tenant: its keys are refused and its runs stop."`
			Reactivate tenantReactivateCommand `cmd:"" help:"Reactivate a suspended tenant; its runs continue where they stopped."`
			Purge      tenantPurgeCommand      `cmd:"" help:"Delete a tenant with all its data."`
		} `cmd:"" help:"Tenants."`
		Key struct {
			Create keyCreateCommand `cmd:"" help:"Create a key for a member of a tenant."`
		} `cmd:"" help:"Keys."`
		Secrets struct {
			Rotate secretsRotateCommand `cmd:"" help:"Seal everything again with the first key of AGENTD_SECRET_KEY."`
			Status secretsStatusCommand `cmd:"" help:"Count the sealed values by the secret key that they need."`
			Forget secretsForgetCommand `cmd:"" help:"Let the server start without a secret key that is lost."`
		} `cmd:"" help:"Secret keys."`
	} `cmd:"" group:"Server" help:"Manage tenants, keys and secret keys, also while a server runs."`

	HelpWord    helpCommand    `cmd:"" name:"help" group:"Help" help:"Show the help of a command."`
	VersionWord versionCommand `cmd:"" name:"version" group:"Help" help:"Print the version."`
}
