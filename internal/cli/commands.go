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
		Traffic  agentTrafficCommand  `cmd:"" help:"Divide the runs of an agent among its versions, and compare them."`
		Skill    struct {
			Add agentSkillAddCommand `cmd:"" help:"Add a skill to an agent, from a folder in the Agent Skills format."`
		} `cmd:"" help:"Skills of an agent."`
		Delete agentDeleteCommand `cmd:"" help:"Delete an agent."`
	} `cmd:"" group:"Agents" help:"Agents: what they are and how they change."`
	Run  runCommand `cmd:"" group:"Agents" help:"Start a run of an agent and follow it to its end."`
	Runs struct {
		List     runsListCommand     `cmd:"" help:"List runs, newest first."`
		Show     runsShowCommand     `cmd:"" help:"Show a run with its output and steps."`
		Tree     runsTreeCommand     `cmd:"" help:"Show a run with the runs of other agents that it started."`
		Respond  runsRespondCommand  `cmd:"" help:"Answer the question of a run."`
		Approve  runsApproveCommand  `cmd:"" help:"Approve the tool call that a run waits for."`
		Follow   runsFollowCommand   `cmd:"" help:"Follow a run to its end, from its first event on."`
		Reject   runsRejectCommand   `cmd:"" help:"Reject the tool call that a run waits for."`
		Cancel   runsCancelCommand   `cmd:"" help:"Cancel a run."`
		Fork     runsForkCommand     `cmd:"" help:"Try a run again from one of its steps, with something changed."`
		Continue runsContinueCommand `cmd:"" help:"Continue a run that failed, or all that failed."`
		Diff     runsDiffCommand     `cmd:"" help:"Compare two runs step by step. Exits with 1 if they differ."`
		Replay   runsReplayCommand   `cmd:"" help:"Verify the record of a run, or run it again with the results that its tools had."`
		Export   runsExportCommand   `cmd:"" help:"Write runs as lines of JSON, oldest first."`
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

	Team struct {
		Create teamCreateCommand `cmd:"" help:"Create a team of agents."`
		List   teamListCommand   `cmd:"" help:"List teams, newest first."`
		Show   teamShowCommand   `cmd:"" help:"Show a team."`
		Run    teamRunCommand    `cmd:"" help:"Have a team do something and follow it to the answer."`
		Runs   teamRunsCommand   `cmd:"" help:"List the runs of a team, oldest first."`
		Chat   teamChatCommand   `cmd:"" help:"Show what was said to a team and what it answered."`
		Cancel teamCancelCommand `cmd:"" help:"Cancel a run of a team."`
		Delete teamDeleteCommand `cmd:"" help:"Delete a team with its runs; its members stay."`
	} `cmd:"" group:"Agents" help:"Teams: agents that work together."`
	Mission struct {
		Start      missionStartCommand      `cmd:"" help:"Start a mission and follow it to its end."`
		List       missionListCommand       `cmd:"" help:"List missions, newest first."`
		Show       missionShowCommand       `cmd:"" help:"Show a mission."`
		Objectives missionObjectivesCommand `cmd:"" help:"Show the objectives of a mission."`
		Follow     missionFollowCommand     `cmd:"" help:"Follow a mission to its end."`
		Authorize  missionAuthorizeCommand  `cmd:"" help:"Let a mission begin that waits for it."`
		Pause      missionPauseCommand      `cmd:"" help:"Pause a mission: nothing new begins."`
		Resume     missionResumeCommand     `cmd:"" help:"Resume a paused mission."`
		Abort      missionAbortCommand      `cmd:"" help:"End a mission, and cancel its runs."`
		Report     missionReportCommand     `cmd:"" help:"Show the after-action report of a mission that has ended."`
	} `cmd:"" group:"Agents" help:"Missions: a goal, a plan, and agents that work on it."`
	Initiative struct {
		Create     initiativeCreateCommand     `cmd:"" help:"Create an initiative: goals that a strategist pursues within a budget."`
		List       initiativeListCommand       `cmd:"" help:"List initiatives, newest first."`
		Show       initiativeShowCommand       `cmd:"" help:"Show an initiative."`
		Tick       initiativeTickCommand       `cmd:"" help:"Ask the strategist of an initiative now."`
		Objectives initiativeObjectivesCommand `cmd:"" help:"Show the objectives of an initiative as trees."`
		Activity   initiativeActivityCommand   `cmd:"" help:"List the newest runs of an initiative."`
		Follow     initiativeFollowCommand     `cmd:"" help:"Follow what happens to an initiative."`
		Pause      initiativePauseCommand      `cmd:"" help:"Pause an initiative: nothing new begins."`
		Resume     initiativeResumeCommand     `cmd:"" help:"Resume a paused initiative."`
		Delete     initiativeDeleteCommand     `cmd:"" help:"Delete an initiative with its objectives."`
	} `cmd:"" group:"Agents" help:"Initiatives: goals that are pursued for weeks."`

	Eval struct {
		Datasets evalDatasetsCommand `cmd:"" help:"List the datasets of an agent."`
		Import   evalImportCommand   `cmd:"" help:"Make a dataset of a file."`
		Run      evalRunCommand      `cmd:"" help:"Evaluate an agent with a dataset, and fail on a regression: for CI."`
		List     evalListCommand     `cmd:"" help:"List the evaluations of an agent, newest first."`
		Show     evalShowCommand     `cmd:"" help:"Show an evaluation with the cases that did not pass."`
		Compare  evalCompareCommand  `cmd:"" help:"Compare versions and models on the same cases."`
		Cancel   evalCancelCommand   `cmd:"" help:"Cancel an evaluation."`
		Collect  evalCollectCommand  `cmd:"" help:"Make a dataset of what an agent answered."`
	} `cmd:"" group:"Agents" help:"Evaluations: how good an agent is, measured on datasets."`

	Bridge bridgeCommand `cmd:"" group:"Agents" help:"Connect a folder of this machine as an agent: its runs work here, with its files, commands and MCP servers."`

	Schedules struct {
		List   schedulesListCommand   `cmd:"" help:"List the schedules of all agents."`
		Show   schedulesShowCommand   `cmd:"" help:"Show an agent's schedule."`
		Set    schedulesSetCommand    `cmd:"" help:"Set an agent's schedule."`
		Delete schedulesDeleteCommand `cmd:"" help:"Remove an agent's schedule."`
	} `cmd:"" group:"Agents" help:"Schedules: when agents run by themselves."`

	Memory struct {
		List   memoryListCommand   `cmd:"" help:"List the entries of an agent's memory, newest first."`
		Add    memoryAddCommand    `cmd:"" help:"Add an entry to an agent's memory."`
		Search memorySearchCommand `cmd:"" help:"Search an agent's memory."`
		Delete memoryDeleteCommand `cmd:"" help:"Delete an entry of an agent's memory."`
	} `cmd:"" group:"Knowledge" help:"Memory: what agents remember between runs."`
	KB struct {
		List      kbListCommand      `cmd:"" help:"List knowledge bases, newest first."`
		Create    kbCreateCommand    `cmd:"" help:"Create a knowledge base."`
		Add       kbAddCommand       `cmd:"" help:"Add files and folders to a knowledge base."`
		Documents kbDocumentsCommand `cmd:"" help:"List the documents of a knowledge base."`
		Search    kbSearchCommand    `cmd:"" help:"Search a knowledge base."`
		Eval      kbEvalCommand      `cmd:"" help:"Ask a knowledge base questions whose answers you know, and say how many it finds."`
		Delete    kbDeleteCommand    `cmd:"" help:"Delete a knowledge base with its documents."`
	} `cmd:"" name:"kb" group:"Knowledge" help:"Knowledge bases: documents that agents search."`

	Workspaces struct {
		Terminal workspacesTerminalCommand `cmd:"" help:"Open a terminal in a workspace: a shell on its files."`
	} `cmd:"" group:"Knowledge" help:"Workspaces: files that agents and people share."`

	Models struct {
		Test modelsTestCommand `cmd:"" help:"Try what a model can do, by a few small calls: whether it is reached, takes the key, streams, calls tools, reads images, keeps a form and thinks. Exits with 1 if it cannot be used."`
	} `cmd:"" group:"Company" help:"Models: what can be called."`
	Integration struct {
		Connectors integrationConnectorsCommand `cmd:"" help:"List the services that agents can be connected with."`
		Create     integrationCreateCommand     `cmd:"" help:"Create an integration and connect it."`
		List       integrationListCommand       `cmd:"" help:"List integrations, newest first."`
		Show       integrationShowCommand       `cmd:"" help:"Show an integration."`
		Set        integrationSetCommand        `cmd:"" help:"Change the settings of an integration."`
		Tools      integrationToolsCommand      `cmd:"" help:"List the tools of an integration."`
		Test       integrationTestCommand       `cmd:"" help:"Test the connection of an integration. Exits with 1 if it fails."`
		Sync       integrationSyncCommand       `cmd:"" help:"Connect an integration again and read its OpenAPI document again."`
		Link       integrationLinkCommand       `cmd:"" help:"Link an integration to an agent."`
		Connect    integrationConnectCommand    `cmd:"" help:"Begin to authorize an integration at its provider."`
		Complete   integrationCompleteCommand   `cmd:"" help:"Complete the authorization of an integration."`
		Delete     integrationDeleteCommand     `cmd:"" help:"Delete an integration with its credential."`
	} `cmd:"" group:"Company" help:"Integrations: services that agents are connected with."`
	Marketplace struct {
		List      marketListCommand      `cmd:"" help:"Offer an agent to other companies."`
		Publish   marketPublishCommand   `cmd:"" help:"Publish a listing."`
		Search    marketSearchCommand    `cmd:"" help:"Search the agents that companies offer."`
		Mine      marketMineCommand      `cmd:"" help:"List what your company offers, newest first."`
		Show      marketShowCommand      `cmd:"" help:"Show a listing."`
		Rate      marketRateCommand      `cmd:"" help:"Rate a listing of another company."`
		Subscribe marketSubscribeCommand `cmd:"" help:"Subscribe to a listing."`
		Invoke    marketInvokeCommand    `cmd:"" help:"Ask an agent of another company something, and print its answer."`
		Deprecate marketDeprecateCommand `cmd:"" help:"Take a listing back."`
		Revenue   marketRevenueCommand   `cmd:"" help:"Show what your company earned and spent."`
	} `cmd:"" group:"Company" help:"The marketplace: agents that companies offer to one another."`
	Webhooks struct {
		List       webhooksListCommand       `cmd:"" help:"List subscriptions, newest first."`
		Create     webhooksCreateCommand     `cmd:"" help:"Create a subscription."`
		Deliveries webhooksDeliveriesCommand `cmd:"" help:"List the delivery attempts of a subscription, newest first."`
		Trigger    webhooksTriggerCommand    `cmd:"" help:"Send a test event to a subscription."`
		Redeliver  webhooksRedeliverCommand  `cmd:"" help:"Send the event of a delivery again."`
		Listen     webhooksListenCommand     `cmd:"" help:"Receive events here and print them."`
		Delete     webhooksDeleteCommand     `cmd:"" help:"Delete a subscription."`
	} `cmd:"" group:"Company" help:"Webhooks: events that are posted to your systems."`
	Keys struct {
		List   keysListCommand   `cmd:"" help:"List your keys."`
		Create keysCreateCommand `cmd:"" help:"Create a key."`
		Revoke keysRevokeCommand `cmd:"" help:"Revoke a key."`
	} `cmd:"" group:"Company" help:"Keys of the API."`
	Members struct {
		List   membersListCommand   `cmd:"" help:"List members and open invites."`
		Invite membersInviteCommand `cmd:"" help:"Invite a person."`
		Remove membersRemoveCommand `cmd:"" help:"Remove a member, or take an invite back."`
	} `cmd:"" group:"Company" help:"Members: who belongs to the company."`
	Usage usageCommand `cmd:"" group:"Company" help:"Show tokens and costs of a month."`
	Audit struct {
		List   auditListCommand   `cmd:"" default:"withargs" help:"List the entries of the audit log, newest first."`
		Export auditExportCommand `cmd:"" help:"Write the audit log as lines of JSON, oldest first."`
	} `cmd:"" group:"Company" help:"The audit log: who did what."`
	Ledger struct {
		Verify ledgerVerifyCommand `cmd:"" help:"Check an export of the governance ledger, without a server. Exits with 1 if it is broken, and 2 if it cannot be read."`
	} `cmd:"" group:"Company" help:"The governance ledger: what was decided under the company's rules."`
	Whoami whoamiCommand `cmd:"" group:"Company" help:"Show whom the key belongs to, and what it may do."`

	Doctor     doctorCommand     `cmd:"" group:"Help" help:"Check key, server, version, model, database, disk and clock."`
	API        apiCommand        `cmd:"" name:"api" group:"Help" help:"Send any request to the API, with the key."`
	Completion completionCommand `cmd:"" group:"Help" help:"Print a script with which a shell completes commands."`
	Man        manCommand        `cmd:"" group:"Help" help:"Print the manual of all commands, for man."`

	Serve   serveCommand `cmd:"" group:"Server" help:"Run the server."`
	Migrate struct {
		Schema           migrateCommand          `cmd:"" default:"withargs" help:"Migrate the database to this version's schema, or back."`
		SqliteToPostgres sqliteToPostgresCommand `cmd:"" name:"sqlite-to-postgres" help:"Move everything from SQLite in a data directory to an empty PostgreSQL database."`
	} `cmd:"" group:"Server" help:"Migrate the database."`
	Upgrade struct {
		Check upgradeCheckCommand `cmd:"" help:"Say what an upgrade to this program will do, and whether anything is in its way. Exits with 1 if it is, and 2 if it cannot be told."`
	} `cmd:"" group:"Server" help:"Upgrades."`
	Backup  backupCommand  `cmd:"" group:"Server" help:"Write a backup of everything into one sealed file, also while the server runs."`
	Restore restoreCommand `cmd:"" group:"Server" help:"Fill an empty data directory or database from a backup: with all of it, or with nothing."`
	Verify  verifyCommand  `cmd:"" group:"Server" help:"Read a backup to its end and check that it is whole. Exits with 1 if it is not, and 2 if it cannot be read."`
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
		Config struct {
			Get    configGetCommand    `cmd:"" help:"Print a section of the settings that act while the server runs."`
			Set    configSetCommand    `cmd:"" help:"Change a section of these settings, on every node within two seconds."`
			Export configExportCommand `cmd:"" help:"Print all sections that are set, without secrets, as one document."`
			Import configImportCommand `cmd:"" help:"Replace the sections that a document has, all of them or none."`
		} `cmd:"" help:"Settings that act while the server runs."`
		Secrets struct {
			Rotate secretsRotateCommand `cmd:"" help:"Seal everything again with the first key of AGENTD_SECRET_KEY."`
			Status secretsStatusCommand `cmd:"" help:"Count the sealed values by the secret key that they need."`
			Forget secretsForgetCommand `cmd:"" help:"Let the server start without a secret key that is lost."`
		} `cmd:"" help:"Secret keys."`
		Nodes      nodesCommand      `cmd:"" help:"List the nodes that run: their versions, what they do and how busy they are."`
		Top        topCommand        `cmd:"" help:"Watch what nodes do, by their metrics: requests, runs, model calls, writes, the queue."`
		SignInLink signInLinkCommand `cmd:"" help:"Make a link with which a member signs in once, without an email."`
	} `cmd:"" group:"Server" help:"Manage tenants, keys, sign-in links and secret keys, also while a server runs."`

	HelpWord    helpCommand    `cmd:"" name:"help" group:"Help" help:"Show the help of a command."`
	VersionWord versionCommand `cmd:"" name:"version" group:"Help" help:"Print the version."`
}
