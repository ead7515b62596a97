-- Made from the migrations 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 29 30 31 32 33 34 35 38 40 42 44 50 51 52 56 57 60 62 63 67 68 71 72 73 81 86 88 89 94 95 105 106 110 125 131 150 155 173 180 181 185 190 195 200 201 205 206 207 210 220 230 760 770 771 780 790 800 820 830 840 850 860.

CREATE TABLE work (
    kind      TEXT    NOT NULL,
    work_key  TEXT    NOT NULL,
    tenant_id TEXT    NOT NULL,
    due_at    BIGINT  NOT NULL, -- while it is held: the end of the lease
    epoch     BIGINT  NOT NULL, -- how often it was claimed: the fencing token
    attempt   BIGINT  NOT NULL, -- claims since it was last rescheduled
    owner     TEXT    NOT NULL, -- the node that holds or held it last, or ''
    payload   BLOB,
    PRIMARY KEY (kind, work_key)
) WITHOUT ROWID;

CREATE TABLE tenants (
    tenant_id  TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    slug       TEXT    NOT NULL UNIQUE,
    status     TEXT    NOT NULL,
    plan       TEXT    NOT NULL,
    settings   TEXT    NOT NULL, -- a JSON object
    operator   BOOLEAN NOT NULL, -- the first tenant, which runs the platform
    created_at BIGINT  NOT NULL,
    updated_at BIGINT  NOT NULL
, description TEXT NOT NULL DEFAULT '', logo_url TEXT NOT NULL DEFAULT '', branding TEXT NOT NULL DEFAULT '{}', social_links TEXT NOT NULL DEFAULT '{}', suspended_at BIGINT NOT NULL DEFAULT 0, suspension_reason TEXT NOT NULL DEFAULT '', purge_protected BOOLEAN NOT NULL DEFAULT FALSE, egress_allowlist TEXT NOT NULL DEFAULT '', published_at BIGINT NOT NULL DEFAULT 0, public_agent_id TEXT NOT NULL DEFAULT '', published_agents TEXT NOT NULL DEFAULT '', public_settings TEXT NOT NULL DEFAULT '', past_due BOOLEAN NOT NULL DEFAULT FALSE, legal_hold BOOLEAN NOT NULL DEFAULT FALSE, redact TEXT NOT NULL DEFAULT '');

CREATE TABLE users (
    tenant_id  TEXT   NOT NULL REFERENCES tenants (tenant_id),
    user_id    TEXT   NOT NULL,
    email      TEXT   NOT NULL, -- '' where it is not known
    name       TEXT   NOT NULL,
    role       TEXT   NOT NULL,
    status     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL, email_verified BOOLEAN NOT NULL DEFAULT FALSE, avatar_url TEXT NOT NULL DEFAULT '', last_login_at BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, user_id)
);

CREATE TABLE api_keys (
    tenant_id    TEXT   NOT NULL,
    key_id       TEXT   NOT NULL,
    user_id      TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    prefix       TEXT   NOT NULL UNIQUE,
    secret_hash  BLOB  NOT NULL, -- SHA-256
    scopes       TEXT   NOT NULL, -- separated by spaces
    status       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL, -- 0: never
    expires_at   BIGINT NOT NULL, -- 0: never
    revoked_at   BIGINT NOT NULL, -- 0: not revoked
    PRIMARY KEY (tenant_id, key_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id)
);

CREATE TABLE blobs (
    tenant_id TEXT   NOT NULL,
    sha256    TEXT   NOT NULL, -- lower-case hex
    parts_id  TEXT   NOT NULL,
    size      BIGINT NOT NULL,
    refs      BIGINT NOT NULL, -- how many rows elsewhere name it
    PRIMARY KEY (tenant_id, sha256)
) WITHOUT ROWID;

CREATE TABLE blob_parts (
    tenant_id TEXT   NOT NULL,
    parts_id  TEXT   NOT NULL,
    part      BIGINT NOT NULL,
    data      BLOB  NOT NULL,
    PRIMARY KEY (tenant_id, parts_id, part)
);

CREATE TABLE blob_loose (
    tenant_id TEXT   NOT NULL,
    parts_id  TEXT   NOT NULL,
    due_at    BIGINT NOT NULL, -- when they may be deleted
    PRIMARY KEY (tenant_id, parts_id)
) WITHOUT ROWID;

CREATE TABLE files (
    tenant_id  TEXT   NOT NULL,
    file_id    TEXT   NOT NULL,
    filename   TEXT   NOT NULL,
    mime_type  TEXT   NOT NULL,
    mime_group TEXT   NOT NULL, -- what stands before the slash
    size       BIGINT NOT NULL,
    sha256     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, file_id)
) WITHOUT ROWID;

CREATE TABLE workspaces (
    tenant_id    TEXT   NOT NULL,
    workspace_id TEXT   NOT NULL,
    owner_type   TEXT   NOT NULL,
    owner_id     TEXT   NOT NULL, -- '' of a standalone one
    name         TEXT   NOT NULL,
    file_count   BIGINT NOT NULL,
    total_size   BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id)
) WITHOUT ROWID;

CREATE TABLE workspace_agents (
    tenant_id    TEXT   NOT NULL,
    agent_id     TEXT   NOT NULL,
    relation     TEXT   NOT NULL, -- assigned | shared
    workspace_id TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, relation, workspace_id)
) WITHOUT ROWID;

CREATE TABLE workspace_files (
    tenant_id    TEXT   NOT NULL,
    workspace_id TEXT   NOT NULL,
    path         TEXT   NOT NULL,
    file_id      TEXT   NOT NULL,
    mime_type    TEXT   NOT NULL,
    size         BIGINT NOT NULL,
    sha256       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id, path)
) WITHOUT ROWID;

CREATE TABLE run_artifacts (
    tenant_id   TEXT   NOT NULL,
    run_id      TEXT   NOT NULL,
    artifact_id TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    mime_type   TEXT   NOT NULL,
    size        BIGINT NOT NULL,
    sha256      TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, run_id, artifact_id)
) WITHOUT ROWID;

CREATE TABLE collections (
    tenant_id     TEXT   NOT NULL,
    collection_id TEXT   NOT NULL, -- an agent or a knowledge base
    version       BIGINT NOT NULL, -- changes so far
    removed       BIGINT NOT NULL, -- the change that removed something last
    PRIMARY KEY (tenant_id, collection_id)
) WITHOUT ROWID;

CREATE TABLE passages (
    tenant_id     TEXT   NOT NULL,
    collection_id TEXT   NOT NULL,
    passage_id    TEXT   NOT NULL,
    source_id     TEXT   NOT NULL, -- '' where it is part of nothing
    position      BIGINT NOT NULL, -- in the source
    kind          TEXT   NOT NULL,
    text          TEXT   NOT NULL,
    boost         DOUBLE PRECISION NOT NULL,
    at            BIGINT NOT NULL, -- since when it ages
    version       BIGINT NOT NULL, -- of the collection, when this changed last
    vector_model  TEXT   NOT NULL, -- '' where no model has seen it
    vector        BLOB, words TEXT NOT NULL DEFAULT '', start_at BIGINT NOT NULL DEFAULT -1, page BIGINT NOT NULL DEFAULT 0,           -- of 4-byte floats
    PRIMARY KEY (tenant_id, collection_id, passage_id)
);

CREATE TABLE memory_entries (
    tenant_id     TEXT   NOT NULL,
    agent_id      TEXT   NOT NULL,
    entry_id      TEXT   NOT NULL,
    tags          TEXT   NOT NULL, -- a JSON array
    source_run_id TEXT   NOT NULL, -- '' where no run made it
    origin        TEXT,            -- what made it, where that must not make it twice
    content_hash  TEXT   NOT NULL, -- of the normalized text
    entity_key    TEXT   NOT NULL, -- the normalized name, or ''
    entity_name   TEXT   NOT NULL,
    entity_type   TEXT   NOT NULL,
    run_outcome   TEXT   NOT NULL,
    metadata      TEXT   NOT NULL, -- a JSON object
    access_count  BIGINT NOT NULL,
    accessed_at   BIGINT NOT NULL, -- 0: never
    created_at    BIGINT NOT NULL, sources TEXT NOT NULL DEFAULT '', superseded_by TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, agent_id, entry_id)
) WITHOUT ROWID;

CREATE TABLE kb_documents (
    tenant_id   TEXT   NOT NULL,
    kb_id       TEXT   NOT NULL,
    document_id TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    type        TEXT   NOT NULL,
    size_bytes  BIGINT NOT NULL,
    chunk_count BIGINT NOT NULL,
    preview     TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, kb_id, document_id)
) WITHOUT ROWID;

CREATE TABLE mcp_grants (
    tenant_id    TEXT   NOT NULL,
    server_id    TEXT   NOT NULL,
    version      BIGINT NOT NULL,
    claimed_till BIGINT NOT NULL, -- somebody refreshes it until then; 0: nobody
    sealed       BLOB  NOT NULL,
    PRIMARY KEY (tenant_id, server_id)
);

CREATE TABLE mcp_pending (
    tenant_id  TEXT   NOT NULL,
    pending_id TEXT   NOT NULL,
    server_id  TEXT   NOT NULL,
    expires_at BIGINT NOT NULL,
    sealed     BLOB  NOT NULL,
    PRIMARY KEY (tenant_id, pending_id)
);

CREATE TABLE schedules (
    tenant_id       TEXT   NOT NULL,
    agent_id        TEXT   NOT NULL,
    config          TEXT   NOT NULL, -- that the state is of, canonical JSON
    status          TEXT   NOT NULL,
    problem         TEXT   NOT NULL,
    next_run_at     BIGINT NOT NULL, -- 0: none
    last_fired_at   BIGINT NOT NULL, -- 0: never
    last_skipped_at BIGINT NOT NULL, -- 0: never
    skip_reason     TEXT   NOT NULL,
    failures        BIGINT NOT NULL,
    revision        BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id)
) WITHOUT ROWID;

CREATE TABLE schedule_runs (
    tenant_id TEXT   NOT NULL,
    run_id    TEXT   NOT NULL,
    agent_id  TEXT   NOT NULL,
    fire_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, run_id)
) WITHOUT ROWID;

CREATE TABLE notifications (
    tenant_id       TEXT   NOT NULL,
    seq             BIGINT NOT NULL, -- rises in the order of the tenant's commits
    notification_id TEXT   NOT NULL,
    user_id         TEXT   NOT NULL, -- '': for everybody
    type            TEXT   NOT NULL,
    priority        TEXT   NOT NULL,
    title           TEXT   NOT NULL,
    message         TEXT   NOT NULL,
    data            TEXT,            -- a JSON object
    action_url      TEXT   NOT NULL,
    source_kind     TEXT   NOT NULL, -- '': none
    source_id       TEXT   NOT NULL,
    dedup_key       TEXT   NOT NULL, -- '': none
    created_at      BIGINT NOT NULL,
    read_at         BIGINT NOT NULL, -- 0: not read
    PRIMARY KEY (tenant_id, seq)
) WITHOUT ROWID;

CREATE TABLE notification_numbers (
    tenant_id TEXT   NOT NULL PRIMARY KEY,
    last_seq  BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE session_branches (
    tenant_id   TEXT   NOT NULL,
    session_id  TEXT   NOT NULL,
    branch_id   TEXT   NOT NULL,
    parent_id   TEXT   NOT NULL, -- '' of the root
    name        TEXT   NOT NULL, -- a JSON string
    fork_run_id TEXT   NOT NULL, -- '' where there was none
    fork_step   BIGINT NOT NULL, -- 0: the whole run; -1: its message alone
    status      TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, session_id, branch_id)
) WITHOUT ROWID;

CREATE TABLE session_runs (
    tenant_id  TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    turn       BIGINT  NOT NULL,
    branch_id  TEXT    NOT NULL,
    run_id     TEXT    NOT NULL,
    finished   BOOLEAN NOT NULL, entries BIGINT NOT NULL DEFAULT -1, summarized BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (tenant_id, session_id, turn)
) WITHOUT ROWID;

CREATE TABLE session_shares (
    share_hash TEXT   NOT NULL PRIMARY KEY,
    tenant_id  TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    sealed     BLOB  NOT NULL, -- the secret, for its owner to see again
    role       TEXT   NOT NULL,
    expires_at BIGINT NOT NULL  -- 0: never
) WITHOUT ROWID;

CREATE TABLE session_todos (
    tenant_id  TEXT    NOT NULL,
    todo_id    TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    agent_id   TEXT    NOT NULL, -- '' where nobody is to do it
    status     TEXT    NOT NULL,
    finished   BOOLEAN NOT NULL,
    sort_key   BIGINT  NOT NULL, -- when it is due; of the finished, the end backwards
    due_at     BIGINT  NOT NULL, -- 0: at no time
    body       TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, todo_id)
) WITHOUT ROWID;

CREATE TABLE run_budgets (
    tenant_id TEXT   NOT NULL,
    budget_id TEXT   NOT NULL, -- the run that has the limit
    cap       BIGINT NOT NULL,
    spent     BIGINT NOT NULL,
    reserved  BIGINT NOT NULL, -- for model calls that are under way
    PRIMARY KEY (tenant_id, budget_id)
) WITHOUT ROWID;

CREATE TABLE audit_log (
    tenant_id        TEXT   NOT NULL, -- whose log it is in
    at               BIGINT NOT NULL,
    entry_id         TEXT   NOT NULL,
    action           TEXT   NOT NULL,
    actor_tenant_id  TEXT   NOT NULL,
    actor_user_id    TEXT   NOT NULL, -- '' where it was no member's doing
    actor_key_id     TEXT   NOT NULL, -- ''
    actor_session_id TEXT   NOT NULL, -- ''
    method           TEXT   NOT NULL,
    target_type      TEXT   NOT NULL,
    target_id        TEXT   NOT NULL, -- '' where there is no single one
    details          TEXT   NOT NULL, -- a JSON object
    ip_address       TEXT   NOT NULL, -- ''
    request_id       TEXT   NOT NULL, -- ''
    PRIMARY KEY (tenant_id, at, entry_id)
) WITHOUT ROWID;

CREATE TABLE usage_locks (
    tenant_id TEXT NOT NULL,
    resource  TEXT NOT NULL,
    PRIMARY KEY (tenant_id, resource)
) WITHOUT ROWID;

CREATE TABLE usage_budgets (
    tenant_id      TEXT             NOT NULL PRIMARY KEY,
    limit_nano     BIGINT           NOT NULL,
    soft_threshold DOUBLE PRECISION NOT NULL,
    hard_threshold DOUBLE PRECISION NOT NULL,
    period         TEXT             NOT NULL, -- monthly | weekly | daily
    updated_at     BIGINT           NOT NULL
, overage BOOLEAN NOT NULL DEFAULT FALSE) WITHOUT ROWID;

CREATE TABLE usage_events (
    tenant_id  TEXT   NOT NULL,
    event_id   TEXT   NOT NULL,
    type       TEXT   NOT NULL, -- quota.threshold | quota.exceeded
    resource   TEXT   NOT NULL,
    period     TEXT   NOT NULL, -- the first day, or the month
    used       BIGINT NOT NULL, -- of money: billionths of a US dollar
    cap        BIGINT NOT NULL,
    resets_at  BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, event_id)
) WITHOUT ROWID;

CREATE TABLE invites (
    tenant_id   TEXT    NOT NULL REFERENCES tenants (tenant_id),
    invite_id   TEXT    NOT NULL,
    email       TEXT    NOT NULL,
    role        TEXT    NOT NULL,
    status      TEXT    NOT NULL, -- pending also where it has expired and nobody looked since
    secret_hash BLOB   NOT NULL, -- SHA-256
    mailed      BOOLEAN NOT NULL, -- the secret went to the address and nowhere else
    invited_by  TEXT    NOT NULL,
    created_at  BIGINT  NOT NULL,
    sent_at     BIGINT  NOT NULL,
    expires_at  BIGINT  NOT NULL,
    PRIMARY KEY (tenant_id, invite_id)
);

CREATE TABLE browser_sessions (
    session_id   TEXT    NOT NULL PRIMARY KEY,
    tenant_id    TEXT    NOT NULL,
    user_id      TEXT    NOT NULL,
    prefix       TEXT    NOT NULL UNIQUE,
    secret_hash  BLOB   NOT NULL, -- SHA-256
    label        TEXT    NOT NULL,
    address      TEXT    NOT NULL,
    method       TEXT    NOT NULL,
    needs_factor BOOLEAN NOT NULL,
    created_at   BIGINT  NOT NULL,
    last_used_at BIGINT  NOT NULL,
    renewed_at   BIGINT  NOT NULL, -- when its cookie was last sent
    verified_at  BIGINT  NOT NULL, -- 0: never
    ended_at     BIGINT  NOT NULL, key_prefix TEXT NOT NULL DEFAULT '', key_hash BLOB, of_key_id TEXT NOT NULL DEFAULT '', -- 0: it lives
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id) ON DELETE CASCADE
);

CREATE TABLE "signin_addresses" (
    email      TEXT    NOT NULL PRIMARY KEY,
    asked      BIGINT  NOT NULL, -- how many in a row
    again_at   BIGINT  NOT NULL, -- when another may be asked for
    forget_at  BIGINT  NOT NULL  -- of the row
, asked_at BIGINT NOT NULL DEFAULT 0, tried BIGINT NOT NULL DEFAULT 0, tried_since BIGINT NOT NULL DEFAULT 0);

CREATE TABLE signin_tickets (
    kind       TEXT   NOT NULL,
    hash       BLOB  NOT NULL,
    sealed     BLOB  NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (kind, hash)
);

CREATE TABLE signin_links (
    issuer         TEXT   NOT NULL,
    subject        TEXT   NOT NULL,
    provider       TEXT   NOT NULL,
    email          TEXT   NOT NULL,
    provider_email TEXT   NOT NULL,
    linked_at      BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
);

CREATE TABLE signin_factors (
    person       TEXT   NOT NULL PRIMARY KEY, -- email:… or, of a member without one, user:…
    tenant_id    TEXT   NOT NULL,             -- of that member; otherwise ''
    sealed       BLOB  NOT NULL,             -- the secret
    algorithm    TEXT   NOT NULL,
    recovery     BLOB  NOT NULL,             -- hashes of the codes that are left, 32 bytes each
    created_at   BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL,             -- 0: not yet
    last_step    BIGINT NOT NULL,             -- the time step of the last code that was accepted
    wrong        BIGINT NOT NULL,             -- codes in a row
    wrong_at     BIGINT NOT NULL              -- the last of them
);

CREATE TABLE tenant_purges (
    subject_id TEXT   NOT NULL PRIMARY KEY, -- the tenant, which this outlives
    name       TEXT   NOT NULL,
    asked_by   TEXT   NOT NULL, -- a JSON object
    asked_at   BIGINT NOT NULL,
    counts     TEXT   NOT NULL, -- a JSON object: rows deleted so far, by what they are
    told       BOOLEAN NOT NULL -- the tenant is gone and the log has it; what is left is a last look
) WITHOUT ROWID;

CREATE TABLE search_numbers (
    tenant_id TEXT   NOT NULL,
    kind      TEXT   NOT NULL,
    last      BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, kind)
) WITHOUT ROWID;

CREATE TABLE search_marks (
    name      TEXT   NOT NULL PRIMARY KEY,
    at        BIGINT NOT NULL,
    tenant_id TEXT   NOT NULL,
    thing_id  TEXT   NOT NULL
) WITHOUT ROWID;

CREATE TABLE search_docs (
    doc_id    INTEGER PRIMARY KEY,
    tenant_id TEXT   NOT NULL,
    kind      TEXT   NOT NULL,
    thing_id  TEXT   NOT NULL,
    parent_id TEXT   NOT NULL, -- the session of a run, or ''
    version   BIGINT NOT NULL, -- of the thing
    at        BIGINT NOT NULL
);

CREATE VIRTUAL TABLE search_words USING fts5 (terms, content = '', contentless_delete = 1, tokenize = 'ascii', detail = 'none');

CREATE TABLE notification_prefs (
    tenant_id  TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    body       TEXT   NOT NULL, -- a JSON object
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
) WITHOUT ROWID;

CREATE TABLE notification_targets (
    tenant_id   TEXT    NOT NULL,
    target_id   TEXT    NOT NULL,
    user_id     TEXT    NOT NULL,
    label       TEXT    NOT NULL,
    enabled     BOOLEAN NOT NULL,
    kind        TEXT    NOT NULL, -- email | webhook
    sealed      BLOB   NOT NULL, -- where it leads and what it is signed with
    created_at  BIGINT  NOT NULL,
    last_at     BIGINT  NOT NULL, -- of the last delivery's outcome; 0: none
    last_error  TEXT    NOT NULL, confirmed_at  BIGINT NOT NULL DEFAULT 0, confirm_until BIGINT NOT NULL DEFAULT 0, confirm_hash  BLOB, -- '': it was delivered
    PRIMARY KEY (tenant_id, target_id)
) WITHOUT ROWID;

CREATE TABLE webhooks (
    tenant_id       TEXT   NOT NULL,
    webhook_id      TEXT   NOT NULL,
    url             TEXT   NOT NULL,
    events          TEXT   NOT NULL, -- names, each between commas
    sealed          BLOB  NOT NULL, -- the secret
    status          TEXT   NOT NULL, -- active | failing | disabled | deleted
    failures        BIGINT NOT NULL, -- in a row
    last_failure_at BIGINT NOT NULL, -- 0: none
    created_at      BIGINT NOT NULL,
    deleted_at      BIGINT NOT NULL, -- 0: it is there
    PRIMARY KEY (tenant_id, webhook_id)
) WITHOUT ROWID;

CREATE TABLE webhook_events (
    tenant_id  TEXT   NOT NULL,
    event_id   TEXT   NOT NULL,
    event_type TEXT   NOT NULL,
    body       BLOB  NOT NULL, -- as it is sent
    PRIMARY KEY (tenant_id, event_id)
);

CREATE TABLE webhook_deliveries (
    tenant_id       TEXT    NOT NULL,
    webhook_id      TEXT    NOT NULL,
    delivery_id     TEXT    NOT NULL,
    event_id        TEXT    NOT NULL,
    event_type      TEXT    NOT NULL,
    attempt         BIGINT  NOT NULL, -- from 1
    status          TEXT    NOT NULL, -- pending | success | failed
    due_at          BIGINT  NOT NULL,
    response_status BIGINT  NOT NULL, -- 0: no answer
    failure         TEXT    NOT NULL, -- '': there was none
    latency_us      BIGINT  NOT NULL,
    next_retry_at   BIGINT  NOT NULL, -- 0: none
    dead            BOOLEAN NOT NULL, -- given up
    created_at      BIGINT  NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id, delivery_id)
) WITHOUT ROWID;

CREATE TABLE sensors (
    tenant_id         TEXT   NOT NULL,
    webhook_id        TEXT   NOT NULL,
    agent_id          TEXT   NOT NULL,
    made_by_run       TEXT   NOT NULL, -- '': a person made it
    instructions      TEXT   NOT NULL,
    sealed            BLOB  NOT NULL, -- the secret; empty: calls are not signed
    max_triggers      BIGINT NOT NULL, -- 0: any number
    triggers          BIGINT NOT NULL, -- the calls that made a run
    expires_at        BIGINT NOT NULL, -- 0: never
    ended_at          BIGINT NOT NULL, -- its last trigger was spent, or its agent was deleted; 0: neither
    created_at        BIGINT NOT NULL,
    last_triggered_at BIGINT NOT NULL, -- 0: never
    PRIMARY KEY (tenant_id, webhook_id)
) WITHOUT ROWID;

CREATE TABLE sensor_calls (
    tenant_id  TEXT   NOT NULL,
    webhook_id TEXT   NOT NULL,
    call_hash  TEXT   NOT NULL, -- of the id and the body
    run_id     TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id, call_hash)
) WITHOUT ROWID;

CREATE TABLE llm_credentials (
    tenant_id   TEXT   NOT NULL,
    provider_id TEXT   NOT NULL,
    endpoint    TEXT   NOT NULL, -- where the key goes, and nowhere else
    origin      TEXT   NOT NULL, -- of the endpoint: platform, public or own
    shared      BOOLEAN NOT NULL, -- for every model of the provider, not only for those who name it
    sealed      BLOB  NOT NULL, -- the key
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL, max_concurrency BIGINT NOT NULL DEFAULT 0, tokens_per_minute BIGINT NOT NULL DEFAULT 0, wire TEXT NOT NULL DEFAULT '', access TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (tenant_id, provider_id)
) WITHOUT ROWID;

CREATE TABLE "usage_counters" (
    tenant_id       TEXT   NOT NULL,
    period          TEXT   NOT NULL, -- 2026-09 | 2026-09-10 | p:2026-09-10T12 | p:2026-09-10, UTC
    agent_id        TEXT   NOT NULL,
    model           TEXT   NOT NULL, -- '': no model was asked
    source          TEXT   NOT NULL,
    key_id          TEXT   NOT NULL, -- '': a person asked, or nobody
    runs            BIGINT NOT NULL,
    model_calls     BIGINT NOT NULL,
    input_tokens    BIGINT NOT NULL,
    output_tokens   BIGINT NOT NULL,
    thinking_tokens BIGINT NOT NULL,
    tool_calls      BIGINT NOT NULL,
    cost_nano       BIGINT NOT NULL, cached_tokens BIGINT NOT NULL DEFAULT 0, cache_write_tokens BIGINT NOT NULL DEFAULT 0, tool_errors BIGINT NOT NULL DEFAULT 0, completed BIGINT NOT NULL DEFAULT 0, failures BIGINT NOT NULL DEFAULT 0, cancelled BIGINT NOT NULL DEFAULT 0, duration_ms BIGINT NOT NULL DEFAULT 0, -- billionths of a US dollar
    PRIMARY KEY (tenant_id, period, agent_id, model, source, key_id)
) WITHOUT ROWID;

CREATE TABLE signin_attempts (
    email      TEXT    NOT NULL,
    browser    BLOB   NOT NULL, -- SHA-256 of what the browser that asked keeps
    code_hash  BLOB   NOT NULL, -- of six digits
    long_hash  BLOB   NOT NULL, -- of the code that any browser may enter; empty: none
    terms      BOOLEAN NOT NULL, -- accepted when it was asked for
    wrong      BIGINT  NOT NULL, -- tries by the browser that asked
    elsewhere  BIGINT  NOT NULL, -- wrong tries by others
    expires_at BIGINT  NOT NULL,
    PRIMARY KEY (email, browser)
) WITHOUT ROWID;

CREATE TABLE notification_optouts (
    tenant_id    TEXT   NOT NULL,
    address_hash BLOB  NOT NULL, -- SHA-256
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, address_hash)
) WITHOUT ROWID;

CREATE TABLE notification_mail (
    tenant_id TEXT   NOT NULL, -- '' counts those of all companies
    subject   TEXT   NOT NULL, -- what is counted: a kind of email, or one for an address's hash
    since     BIGINT NOT NULL,
    sent      BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, subject)
) WITHOUT ROWID;

CREATE TABLE secret_keys (
    key_id     TEXT   NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL -- when a server first had it
);

CREATE TABLE secret_servers (
    node    TEXT   NOT NULL PRIMARY KEY,
    key_ids TEXT   NOT NULL, -- by commas; the first one seals
    seen_at BIGINT NOT NULL
);

CREATE TABLE kept_secrets (
    name   TEXT  NOT NULL PRIMARY KEY,
    sealed BLOB NOT NULL
);

CREATE TABLE model_waits (
    tenant_id TEXT NOT NULL,
    run_id    TEXT NOT NULL,
    endpoint  TEXT NOT NULL, tokens BIGINT NOT NULL DEFAULT 0, -- a hash of the address, the model and the key
    PRIMARY KEY (tenant_id, run_id)
) WITHOUT ROWID;

CREATE TABLE nodes (
    node       TEXT   NOT NULL PRIMARY KEY, -- the name that owns leases
    boot_id    TEXT   NOT NULL, -- random: the process that holds the name
    host       TEXT   NOT NULL, -- where its data directory is
    path       TEXT   NOT NULL,
    inode      BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL  -- its newest heartbeat
, version TEXT NOT NULL DEFAULT '', role TEXT NOT NULL DEFAULT 'all', runs BIGINT NOT NULL DEFAULT 0) WITHOUT ROWID;

CREATE TABLE audit_push ( -- one row while entries are pushed
    since BIGINT NOT NULL PRIMARY KEY
) WITHOUT ROWID;

CREATE TABLE audit_unsent ( -- written with the entry, deleted once the receiver has it
    at        BIGINT NOT NULL,
    entry_id  TEXT   NOT NULL,
    tenant_id TEXT   NOT NULL,
    PRIMARY KEY (at, entry_id)
) WITHOUT ROWID;

CREATE TABLE "runs" (
    tenant_id       TEXT   NOT NULL,
    run_id          TEXT   NOT NULL,
    agent_id        TEXT   NOT NULL,
    agent_version   BIGINT NOT NULL,
    session_id      TEXT,
    team_run_id     TEXT,
    status          TEXT   NOT NULL,
    input           TEXT   NOT NULL,
    output          TEXT,
    metrics         TEXT   NOT NULL,
    error           TEXT,
    error_code      TEXT   NOT NULL,
    metadata        TEXT   NOT NULL,
    resource_limits TEXT   NOT NULL,
    options         TEXT   NOT NULL,
    pending         TEXT   NOT NULL,
    step_seq        BIGINT NOT NULL,
    event_seq       BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    started_at      BIGINT NOT NULL,
    completed_at    BIGINT NOT NULL, waiting TEXT NOT NULL DEFAULT '', auth_server TEXT, pausing BOOLEAN NOT NULL DEFAULT FALSE, continued_by TEXT, started_by TEXT NOT NULL DEFAULT '', parent_step_id TEXT, root_run_id TEXT, answer_step BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, run_id)
);

CREATE TABLE "run_steps" (
    tenant_id    TEXT   NOT NULL,
    run_id       TEXT   NOT NULL,
    seq          BIGINT NOT NULL,
    step_id      TEXT   NOT NULL,
    type         TEXT   NOT NULL,
    status       TEXT   NOT NULL,
    started_at   BIGINT NOT NULL,
    completed_at BIGINT NOT NULL,
    duration_us  BIGINT NOT NULL,
    input        TEXT,
    output       TEXT,
    error        TEXT,
    metrics      TEXT,
    tool_calls   TEXT   NOT NULL, call_of BIGINT NOT NULL DEFAULT 0, attempts TEXT, made_by TEXT, opaque TEXT,
    PRIMARY KEY (tenant_id, run_id, seq)
);

CREATE TABLE "run_events" (
    tenant_id TEXT   NOT NULL,
    run_id    TEXT   NOT NULL,
    last_seq  BIGINT NOT NULL,
    first_seq BIGINT NOT NULL,
    draft     BIGINT NOT NULL,
    body      TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, run_id, last_seq)
);

CREATE TABLE "documents" (
    kind       TEXT   NOT NULL,
    tenant_id  TEXT   NOT NULL,
    id         TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    body       TEXT   NOT NULL,
    uniq       TEXT,
    ix1        TEXT,
    ix2        TEXT,
    ix3        TEXT,
    ix4        TEXT, words TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (kind, tenant_id, id)
);

CREATE TABLE "approvals" (
    tenant_id      TEXT   NOT NULL,
    approval_id    TEXT   NOT NULL,
    run_id         TEXT   NOT NULL,
    agent_id       TEXT   NOT NULL,
    session_id     TEXT,
    tool_call_id   TEXT   NOT NULL,
    tool_name      TEXT   NOT NULL,
    arguments      TEXT   NOT NULL,
    arguments_hash TEXT   NOT NULL,
    status         TEXT   NOT NULL,
    requested_at   BIGINT NOT NULL,
    expires_at     BIGINT NOT NULL,
    decided_at     BIGINT NOT NULL, -- 0: not yet
    decided_by     TEXT   NOT NULL,
    reason         TEXT   NOT NULL,
    response       TEXT   NOT NULL,
    edited         TEXT,
    PRIMARY KEY (tenant_id, approval_id)
);

CREATE TABLE "sessions" (
    tenant_id      TEXT   NOT NULL,
    session_id     TEXT   NOT NULL,
    agent_id       TEXT   NOT NULL,
    team_id        TEXT,
    status         TEXT   NOT NULL,
    queue_mode     TEXT   NOT NULL,
    model_override TEXT,
    metadata       TEXT   NOT NULL,
    active_branch  TEXT   NOT NULL,
    turns          BIGINT NOT NULL, -- given out so far
    summary        TEXT   NOT NULL, -- for lists: first and last message, how many
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    expires_at     BIGINT NOT NULL, external_id TEXT NOT NULL DEFAULT '', -- 0: never
    PRIMARY KEY (tenant_id, session_id)
);

CREATE TABLE "responses" (
    tenant_id   TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    previous_id TEXT NOT NULL, -- '' of the first
    standing    TEXT NOT NULL, -- instructions that hold for later ones too
    asked       TEXT NOT NULL, deleted_at BIGINT NOT NULL DEFAULT 0, -- JSON: what of the request its answers repeat and the run does not say
    PRIMARY KEY (tenant_id, run_id)
);

CREATE TABLE "idempotency" (
    tenant_id  TEXT   NOT NULL,
    credential_id    TEXT   NOT NULL,
    idem_key   TEXT   NOT NULL,
    holder     TEXT   NOT NULL, -- the request that reserved the key
    request    BLOB  NOT NULL, -- SHA-256 of method, path and query
    body       BLOB  NOT NULL, -- SHA-256 of the body; zeros: not known yet
    status     BIGINT NOT NULL, -- of the answer; 0: there is none yet
    answer     BLOB,           -- sealed
    lease      BIGINT NOT NULL, -- without an answer, the key is free after this
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, credential_id, idem_key)
);

CREATE TABLE "memory_blocks" (
    tenant_id  TEXT   NOT NULL,
    agent_id   TEXT   NOT NULL,
    label      TEXT   NOT NULL,
    content    TEXT   NOT NULL,
    max_tokens BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, label)
);

CREATE TABLE run_labels (
    tenant_id  TEXT   NOT NULL,
    name       TEXT   NOT NULL, -- of a member of the metadata
    value      TEXT   NOT NULL, -- its text, or a hash of a long one
    created_at BIGINT NOT NULL, -- of the run
    run_id     TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, name, value, created_at, run_id)
) WITHOUT ROWID;

CREATE TABLE session_labels (
    tenant_id  TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    value      TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    session_id TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, name, value, created_at, session_id)
) WITHOUT ROWID;

CREATE TABLE document_words (
    kind      TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    begin     TEXT NOT NULL, -- the first characters of a word
    id        TEXT NOT NULL,
    words     TEXT NOT NULL, -- all of the document, each behind a space
    PRIMARY KEY (kind, tenant_id, begin, id)
) WITHOUT ROWID;

CREATE TABLE usage_entries (
    tenant_id          TEXT   NOT NULL,
    entry_id           BIGINT NOT NULL, -- random: nothing is read by it
    day                TEXT   NOT NULL, -- 2026-09-10, UTC
    agent_id           TEXT   NOT NULL,
    model              TEXT   NOT NULL, -- '': no model was called
    source             TEXT   NOT NULL,
    key_id             TEXT   NOT NULL,
    runs               BIGINT NOT NULL,
    model_calls        BIGINT NOT NULL,
    input_tokens       BIGINT NOT NULL,
    output_tokens      BIGINT NOT NULL,
    thinking_tokens    BIGINT NOT NULL,
    tool_calls         BIGINT NOT NULL,
    cost_nano          BIGINT NOT NULL, -- billionths of a US dollar
    cached_tokens      BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL, tool_errors BIGINT NOT NULL DEFAULT 0, completed BIGINT NOT NULL DEFAULT 0, failures BIGINT NOT NULL DEFAULT 0, cancelled BIGINT NOT NULL DEFAULT 0, duration_ms BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, entry_id)
) WITHOUT ROWID;

CREATE TABLE ledger_unsealed (
    tenant_id        TEXT   NOT NULL,
    entry_id         TEXT   NOT NULL,
    at               BIGINT NOT NULL,
    kind             TEXT   NOT NULL,
    actor_agent_id   TEXT   NOT NULL, -- '' where it was not an agent
    actor_user_id    TEXT   NOT NULL, -- ''
    subject_agent_id TEXT   NOT NULL, -- ''
    rule_id          TEXT   NOT NULL, -- ''
    run_id           TEXT   NOT NULL, -- ''
    details          TEXT   NOT NULL, -- a JSON object, canonical
    PRIMARY KEY (tenant_id, entry_id)
) WITHOUT ROWID;

CREATE TABLE ledger (
    tenant_id        TEXT   NOT NULL,
    seq              BIGINT NOT NULL, -- from 1, without gaps
    entry_id         TEXT   NOT NULL,
    at               BIGINT NOT NULL,
    category         TEXT   NOT NULL, -- the part of kind before the dot
    kind             TEXT   NOT NULL,
    actor_agent_id   TEXT   NOT NULL,
    actor_user_id    TEXT   NOT NULL,
    subject_agent_id TEXT   NOT NULL,
    rule_id          TEXT   NOT NULL,
    run_id           TEXT   NOT NULL,
    details          TEXT   NOT NULL,
    prev_hash        TEXT   NOT NULL, -- '' in the first entry
    hash             TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, seq)
) WITHOUT ROWID;

CREATE TABLE ledger_heads ( -- the last entry; its row is locked while entries are sealed
    tenant_id TEXT   NOT NULL PRIMARY KEY,
    seq       BIGINT NOT NULL,
    hash      TEXT   NOT NULL
) WITHOUT ROWID;

CREATE TABLE governance_states ( -- read before acts; its row is locked by what changes the rules
    tenant_id    TEXT   NOT NULL PRIMARY KEY,
    version      BIGINT NOT NULL, -- of the constitution; 0: there is none
    mode         TEXT   NOT NULL, -- normal | safe_mode
    reason       TEXT   NOT NULL,
    activated_at BIGINT NOT NULL, -- 0 in mode normal
    activated_by TEXT   NOT NULL,
    deadline     BIGINT NOT NULL  -- when the mode ends by itself; 0: never
, permissions BIGINT NOT NULL DEFAULT 0, root_agent_id TEXT NOT NULL DEFAULT '', attestation TEXT NOT NULL DEFAULT '') WITHOUT ROWID;

CREATE TABLE constitutions (
    tenant_id  TEXT   NOT NULL,
    version    BIGINT NOT NULL, -- from 1
    rules      TEXT   NOT NULL, -- a JSON array
    amendments TEXT   NOT NULL, -- a JSON array: what this version changed
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, version)
);

CREATE TABLE counters (
    tenant_id TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    value     BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, name)
) WITHOUT ROWID;

CREATE TABLE team_runs (
    tenant_id    TEXT   NOT NULL,
    team_run_id  TEXT   NOT NULL,
    team_id      TEXT   NOT NULL,
    status       TEXT   NOT NULL,
    spec         TEXT   NOT NULL, -- the team, as it was when the run began
    message      TEXT   NOT NULL,
    metadata     TEXT   NOT NULL,
    key_id       TEXT   NOT NULL, -- that started it; '': none
    user_id      TEXT   NOT NULL, -- who started it; '': none
    output       TEXT   NOT NULL,
    error        TEXT   NOT NULL,
    cancel       BIGINT NOT NULL, -- 1: a caller requested its end
    event_seq    BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    completed_at BIGINT NOT NULL, thread_id TEXT NOT NULL DEFAULT '', -- 0: it has not ended
    PRIMARY KEY (tenant_id, team_run_id)
);

CREATE TABLE team_tasks (
    tenant_id   TEXT   NOT NULL,
    team_run_id TEXT   NOT NULL,
    seq         BIGINT NOT NULL,
    ended       BIGINT NOT NULL, -- 1: its run has ended
    body        TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, team_run_id, seq)
);

CREATE TABLE operator_settings (
    section    TEXT   NOT NULL PRIMARY KEY,
    version    BIGINT NOT NULL, -- 0: nothing is set
    body       TEXT   NOT NULL, -- JSON; '': it is sealed
    sealed     BLOB  NOT NULL, -- of sections with secrets
    updated_at BIGINT NOT NULL
);

CREATE TABLE a2a_tasks (
    tenant_id  TEXT   NOT NULL,
    task_id    TEXT   NOT NULL, -- the id of its run
    agent_id   TEXT   NOT NULL,
    context_id TEXT   NOT NULL, -- tasks of one conversation share it
    state      TEXT   NOT NULL,
    changes    BIGINT NOT NULL, -- of its state, so far
    messages   TEXT   NOT NULL,
    metadata   TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
);

CREATE TABLE a2a_pushes (
    tenant_id  TEXT   NOT NULL,
    task_id    TEXT   NOT NULL,
    config_id  TEXT   NOT NULL,
    url        TEXT   NOT NULL,
    version    TEXT   NOT NULL, -- of the protocol in which changes are sent
    sealed     BLOB  NOT NULL, -- the credentials for the address
    sent       BIGINT NOT NULL, -- how many changes of the task are dealt with
    attempts   BIGINT NOT NULL, -- that failed since then
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, task_id, config_id)
);

CREATE TABLE a2a_published (
    agent_id  TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL
);

CREATE TABLE usage_durations (
    tenant_id TEXT   NOT NULL,
    day       TEXT   NOT NULL, -- 2026-09-10, UTC
    agent_id  TEXT   NOT NULL,
    bucket    BIGINT NOT NULL, -- see usage.BucketOf
    runs      BIGINT NOT NULL, -- that ended on that day and took so long
    PRIMARY KEY (tenant_id, day, agent_id, bucket)
) WITHOUT ROWID;

CREATE TABLE objectives (
    tenant_id    TEXT   NOT NULL,
    owner_id     TEXT   NOT NULL, -- a mission or an initiative
    seq          BIGINT NOT NULL,
    objective_id TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    plan         TEXT   NOT NULL, -- what callers change
    state        TEXT   NOT NULL, -- what only the holder of the owner's work changes
    PRIMARY KEY (tenant_id, owner_id, seq)
);

CREATE TABLE objective_tasks (
    tenant_id TEXT   NOT NULL,
    owner_id  TEXT   NOT NULL,
    seq       BIGINT NOT NULL,
    applied   BIGINT NOT NULL, -- 1: it has ended, and what follows from that is stored
    body      TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, owner_id, seq)
);

CREATE TABLE initiative_states (
    tenant_id     TEXT   NOT NULL,
    initiative_id TEXT   NOT NULL,
    asked         BIGINT NOT NULL, -- how often callers asked for something
    tick_now      BIGINT NOT NULL, -- 1: a caller asked for a tick
    event_seq     BIGINT NOT NULL,
    state         TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, initiative_id)
);

CREATE TABLE missions (
    tenant_id    TEXT   NOT NULL,
    mission_id   TEXT   NOT NULL,
    session_id   TEXT   NOT NULL,
    status       TEXT   NOT NULL,
    spec         TEXT   NOT NULL,
    state        TEXT   NOT NULL, -- what only the holder of the mission's work changes
    key_id       TEXT   NOT NULL, -- that started it; '': none
    user_id      TEXT   NOT NULL, -- who started it; '': none
    event_seq    BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    completed_at BIGINT NOT NULL, -- 0: it has not ended
    report       TEXT   NOT NULL, -- after action; '': none yet
    hold         BIGINT NOT NULL, -- 1: a caller asked for a pause
    abort        BIGINT NOT NULL, -- 1: a caller asked for its end
    authorized   BIGINT NOT NULL, -- 1: a caller let it begin
    reason       TEXT   NOT NULL, -- of the abortion
    asked        BIGINT NOT NULL, -- how often callers asked for something
    PRIMARY KEY (tenant_id, mission_id)
);

CREATE TABLE bridge_machines (
    tenant_id     TEXT   NOT NULL,
    machine_id    TEXT   NOT NULL, -- chosen by the machine
    agent_id      TEXT   NOT NULL,
    user_id       TEXT   NOT NULL, -- the member whose keys it uses
    facts         TEXT   NOT NULL, -- what it says of itself
    registered_at BIGINT NOT NULL,
    seen_at       BIGINT NOT NULL,
    left_at       BIGINT NOT NULL, -- when it said goodbye; 0: it has not
    deleted_at    BIGINT NOT NULL, -- when its agent was deleted; 0: it was not
    PRIMARY KEY (tenant_id, machine_id)
);

CREATE TABLE bridge_tasks (
    tenant_id TEXT   NOT NULL,
    task_id   TEXT   NOT NULL, -- the id of its run
    agent_id  TEXT   NOT NULL,
    body      TEXT   NOT NULL, -- as the machine gets it
    taken     BIGINT NOT NULL, -- 1: the machine has reported on it
    offer_at  BIGINT NOT NULL, -- when a poll may give it again
    events    BIGINT NOT NULL, -- that were reported
    bytes     BIGINT NOT NULL, -- of them
    queued_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
);

CREATE TABLE bridge_events (
    tenant_id TEXT NOT NULL,
    task_id   TEXT NOT NULL,
    event_key TEXT NOT NULL, -- what is reported with the same one counts once
    PRIMARY KEY (tenant_id, task_id, event_key)
);

CREATE TABLE eval_cases (
    tenant_id  TEXT   NOT NULL,
    dataset_id TEXT   NOT NULL,
    block      BIGINT NOT NULL, -- position of the first of up to 100 cases, by 100
    body       TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, dataset_id, block)
);

CREATE TABLE evaluations (
    tenant_id     TEXT   NOT NULL,
    eval_run_id   TEXT   NOT NULL,
    agent_id      TEXT   NOT NULL,
    dataset_id    TEXT   NOT NULL,
    experiment_id TEXT   NOT NULL, -- '': none
    version       BIGINT NOT NULL,
    status        TEXT   NOT NULL,
    spec          TEXT   NOT NULL,
    total         BIGINT NOT NULL,
    next          BIGINT NOT NULL,
    tally         TEXT   NOT NULL,
    summary       TEXT   NOT NULL, -- '': it has not ended
    error         TEXT   NOT NULL,
    cancel        BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    completed_at  BIGINT NOT NULL, -- 0: it has not ended
    PRIMARY KEY (tenant_id, eval_run_id)
);

CREATE TABLE evaluation_results (
    tenant_id   TEXT   NOT NULL,
    eval_run_id TEXT   NOT NULL,
    seq         BIGINT NOT NULL,
    ended       BIGINT NOT NULL,
    body        TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, eval_run_id, seq)
);

CREATE TABLE integration_documents (
    tenant_id      TEXT  NOT NULL,
    integration_id TEXT  NOT NULL,
    document       BLOB NOT NULL, -- gzip
    PRIMARY KEY (tenant_id, integration_id)
);

CREATE TABLE marketplace_listings (
    tenant_id     TEXT   NOT NULL, -- whose agent it is
    listing_id    TEXT   NOT NULL,
    agent_id      TEXT   NOT NULL,
    status        TEXT   NOT NULL,
    category      TEXT   NOT NULL,
    body          TEXT   NOT NULL, -- what the owner wrote
    rating_sum    BIGINT NOT NULL,
    rating_count  BIGINT NOT NULL,
    invocations   BIGINT NOT NULL,
    favourites    BIGINT NOT NULL,
    published_at  BIGINT NOT NULL, -- last; 0: never
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, listing_id)
);

CREATE TABLE marketplace_published (
    shelf        TEXT   NOT NULL,
    listing_id   TEXT   NOT NULL,
    tenant_id    TEXT   NOT NULL,
    rating       BIGINT NOT NULL, -- average in thousandths
    popularity   BIGINT NOT NULL, -- invocations
    published_at BIGINT NOT NULL,
    PRIMARY KEY (listing_id, shelf)
);

CREATE TABLE marketplace_words (
    begin      TEXT NOT NULL, -- of a word
    listing_id TEXT NOT NULL,
    tenant_id  TEXT NOT NULL,
    PRIMARY KEY (begin, listing_id)
);

CREATE TABLE marketplace_ratings (
    tenant_id  TEXT   NOT NULL, -- who rates
    listing_id TEXT   NOT NULL,
    rating_id  TEXT   NOT NULL,
    rating     BIGINT NOT NULL,
    comment    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, listing_id)
);

CREATE TABLE marketplace_favourites (
    tenant_id  TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    listing_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, user_id, listing_id)
);

CREATE TABLE marketplace_subscriptions (
    tenant_id   TEXT   NOT NULL, -- who subscribes
    listing_id  TEXT   NOT NULL,
    status      TEXT   NOT NULL,
    external_id TEXT   NOT NULL, -- of the subscription at a payment provider
    paid_until  BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, listing_id)
);

CREATE TABLE marketplace_invocations (
    tenant_id     TEXT   NOT NULL, -- who calls
    invocation_id TEXT   NOT NULL, -- the id of its run
    listing_id    TEXT   NOT NULL,
    owner_id      TEXT   NOT NULL, -- the company of the run
    status        TEXT   NOT NULL,
    input         TEXT   NOT NULL,
    result        TEXT   NOT NULL, -- "": none
    pricing       TEXT   NOT NULL, -- as it was when it began
    price         BIGINT NOT NULL, -- in millionths of a US dollar
    duration_ms   BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    completed_at  BIGINT NOT NULL, -- 0: not yet
    PRIMARY KEY (tenant_id, invocation_id)
);

CREATE TABLE visitor_sessions (
    tenant_id  TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    agent_id   TEXT   NOT NULL,
    token_hash BLOB  NOT NULL, -- SHA-256
    messages   BIGINT NOT NULL, -- that were accepted
    seen_at    BIGINT NOT NULL, -- when it was begun, or had its last message
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, session_id)
);

CREATE TABLE visitor_agents (
    tenant_id TEXT   NOT NULL,
    agent_id  TEXT   NOT NULL,
    day       TEXT   NOT NULL, -- 2026-09-10, UTC
    messages  BIGINT NOT NULL, -- on that day
    PRIMARY KEY (tenant_id, agent_id)
);

CREATE TABLE visitor_files (
    file_id    TEXT   NOT NULL PRIMARY KEY,
    tenant_id  TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE public_events (
    day    TEXT   NOT NULL, -- 2026-09-10, UTC
    name   TEXT   NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (day, name)
);

CREATE TABLE billing_accounts (
    tenant_id       TEXT   NOT NULL PRIMARY KEY,
    customer_id     TEXT   NOT NULL, -- of Stripe, as the next
    subscription_id TEXT   NOT NULL,
    status          TEXT   NOT NULL,
    plan            TEXT   NOT NULL, -- that is paid for
    trial_ends_at   BIGINT NOT NULL,
    plan_at         BIGINT NOT NULL, -- time of the event that set the plan
    status_at       BIGINT NOT NULL  -- and of the one that set the status
);

CREATE TABLE billing_events (
    event_id    TEXT   NOT NULL PRIMARY KEY,
    received_at BIGINT NOT NULL
);

CREATE TABLE run_checkpoints (
    tenant_id     TEXT   NOT NULL,
    run_id        TEXT   NOT NULL,
    checkpoint_id TEXT   NOT NULL,
    step_seq      BIGINT NOT NULL, -- the last step that was committed
    status        TEXT   NOT NULL, -- of the run, then
    metrics       TEXT   NOT NULL,
    created_by    TEXT   NOT NULL, -- the user
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, run_id, checkpoint_id)
);

CREATE TABLE run_feedback (
    tenant_id  TEXT   NOT NULL,
    run_id     TEXT   NOT NULL,
    message_id TEXT   NOT NULL,
    user_id    TEXT   NOT NULL, -- whose opinion it is
    reaction   TEXT   NOT NULL,
    reason     TEXT   NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, run_id, message_id, user_id)
);

CREATE TABLE feed_entries (
    tenant_id  TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    feed_id    TEXT   NOT NULL,
    event_type TEXT   NOT NULL,
    company_id TEXT   NOT NULL, -- the initiative; '': none
    team_id    TEXT   NOT NULL, -- '': none
    body       TEXT   NOT NULL, -- a JSON object
    PRIMARY KEY (tenant_id, at, feed_id)
);

CREATE TABLE retention_marks (
    tenant_id TEXT   NOT NULL,
    kind      TEXT   NOT NULL, -- event | artifact | audit
    at        BIGINT NOT NULL, -- when the last run that was looked at had ended; of audit: what may be deleted is older
    run_id    TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, kind)
) WITHOUT ROWID;

CREATE TABLE session_messages (
    tenant_id  TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    turn       BIGINT NOT NULL,
    reply      TEXT   NOT NULL, -- id of the message under which the front end got the answer
    messages   TEXT   NOT NULL, -- ids and hashes of what it sent
    PRIMARY KEY (tenant_id, session_id, turn)
);

CREATE TABLE session_states (
    tenant_id  TEXT NOT NULL,
    session_id TEXT NOT NULL,
    state      TEXT NOT NULL,
    step_id    TEXT NOT NULL, -- of the call that changed it last; '' where the page sent it
    PRIMARY KEY (tenant_id, session_id)
);

CREATE TABLE reconciliations (
    tenant_id TEXT NOT NULL PRIMARY KEY,
    body      TEXT NOT NULL -- the last comparison of its counters with its runs
);

CREATE TABLE reconciliation_turns (
    id         TEXT   NOT NULL PRIMARY KEY, -- 'last'
    started_at BIGINT NOT NULL, -- of the last one that a node began by itself
    body       TEXT   NOT NULL -- the last one that ended; '': none has
);

CREATE TABLE a2a_errands (
    tenant_id   TEXT   NOT NULL,
    task_id     TEXT   NOT NULL, -- of the team's task, in the place of a run's
    team_run_id TEXT   NOT NULL,
    cancel      BIGINT NOT NULL, -- 1: its end was requested
    body        TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
);

CREATE INDEX work_due ON work (kind, due_at);

CREATE INDEX work_turn ON work (kind, tenant_id, due_at);

CREATE UNIQUE INDEX tenants_operator ON tenants (operator) WHERE operator;

CREATE UNIQUE INDEX users_email ON users (tenant_id, email) WHERE email <> '';

CREATE INDEX api_keys_user ON api_keys (tenant_id, user_id, key_id);

CREATE INDEX blob_loose_due ON blob_loose (due_at);

CREATE INDEX files_mime ON files (tenant_id, mime_group, file_id);

CREATE UNIQUE INDEX workspaces_owner ON workspaces (tenant_id, owner_type, owner_id) WHERE owner_id <> '';

CREATE UNIQUE INDEX run_artifacts_id ON run_artifacts (tenant_id, artifact_id);

CREATE INDEX passages_changed ON passages (tenant_id, collection_id, version);

CREATE INDEX passages_weight ON passages (tenant_id, collection_id, at, boost, passage_id);

CREATE UNIQUE INDEX memory_entries_origin ON memory_entries (tenant_id, agent_id, origin) WHERE origin IS NOT NULL;

CREATE INDEX memory_entries_content ON memory_entries (tenant_id, agent_id, content_hash);

CREATE INDEX memory_entries_entity ON memory_entries (tenant_id, agent_id, entity_key, entry_id) WHERE entity_key <> '';

CREATE INDEX mcp_pending_expires ON mcp_pending (expires_at);

CREATE INDEX schedule_runs_agent ON schedule_runs (tenant_id, agent_id, run_id);

CREATE UNIQUE INDEX notifications_id ON notifications (tenant_id, notification_id);

CREATE UNIQUE INDEX notifications_dedup ON notifications (tenant_id, dedup_key) WHERE dedup_key <> '';

CREATE UNIQUE INDEX session_runs_run ON session_runs (tenant_id, run_id);

CREATE INDEX session_runs_next ON session_runs (tenant_id, session_id, branch_id, turn) WHERE NOT finished;

CREATE UNIQUE INDEX session_shares_session ON session_shares (tenant_id, session_id);

CREATE INDEX session_todos_session ON session_todos (tenant_id, session_id, todo_id);

CREATE INDEX session_todos_due ON session_todos (tenant_id, finished, sort_key, todo_id);

CREATE INDEX audit_log_action ON audit_log (tenant_id, action, at, entry_id);

CREATE INDEX audit_log_target ON audit_log (tenant_id, target_id, at, entry_id) WHERE target_id <> '';

CREATE INDEX audit_log_user ON audit_log (tenant_id, actor_user_id, at, entry_id) WHERE actor_user_id <> '';

CREATE INDEX audit_log_key ON audit_log (tenant_id, actor_key_id, at, entry_id) WHERE actor_key_id <> '';

CREATE TRIGGER audit_log_fixed BEFORE UPDATE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'entries of the audit log do not change');
END;

CREATE UNIQUE INDEX usage_events_once ON usage_events (tenant_id, resource, period, type, cap);

CREATE INDEX users_person ON users (email) WHERE email <> '';

CREATE UNIQUE INDEX invites_id ON invites (invite_id);

CREATE UNIQUE INDEX invites_pending ON invites (tenant_id, email) WHERE status = 'pending';

CREATE INDEX invites_person ON invites (email) WHERE status = 'pending';

CREATE INDEX browser_sessions_user ON browser_sessions (tenant_id, user_id, last_used_at);

CREATE INDEX signin_codes_forget ON "signin_addresses" (forget_at);

CREATE INDEX signin_tickets_expires ON signin_tickets (expires_at);

CREATE UNIQUE INDEX signin_links_person ON signin_links (email, provider);

CREATE INDEX signin_factors_tenant ON signin_factors (tenant_id) WHERE tenant_id <> '';

CREATE INDEX tenants_inactive ON tenants (tenant_id) WHERE status <> 'active';

CREATE TRIGGER search_docs_gone AFTER DELETE ON search_docs BEGIN
    DELETE FROM search_words WHERE rowid = old.doc_id;
END;

CREATE UNIQUE INDEX search_docs_thing ON search_docs (tenant_id, kind, thing_id);

CREATE INDEX notification_targets_user ON notification_targets (tenant_id, user_id, target_id);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (tenant_id, webhook_id, due_at, delivery_id) WHERE status = 'pending';

CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (delivery_id) WHERE dead;

CREATE UNIQUE INDEX sensors_id ON sensors (webhook_id);

CREATE INDEX sensors_agent ON sensors (tenant_id, agent_id);

CREATE INDEX sensor_calls_age ON sensor_calls (tenant_id, webhook_id, at);

CREATE INDEX signin_attempts_expires ON signin_attempts (expires_at);

CREATE INDEX notification_mail_since ON notification_mail (since);

CREATE INDEX model_waits_endpoint ON model_waits (endpoint, run_id, tenant_id);

CREATE INDEX model_waits_tenant ON model_waits (endpoint, tenant_id, run_id);

CREATE INDEX notifications_user ON notifications (tenant_id, user_id, seq);

CREATE INDEX notifications_unread ON notifications (tenant_id, user_id, seq) WHERE read_at = 0;

CREATE INDEX session_todos_when ON session_todos (tenant_id, due_at, todo_id) WHERE due_at <> 0;

CREATE INDEX session_todos_agent ON session_todos (tenant_id, agent_id, finished, sort_key, todo_id);

CREATE INDEX session_todos_status ON session_todos (tenant_id, status, finished, sort_key, todo_id);

CREATE INDEX workspaces_type ON workspaces (tenant_id, owner_type);

CREATE INDEX passages_model ON passages (tenant_id, collection_id, vector_model, passage_id);

CREATE INDEX workspace_agents_of ON workspace_agents (tenant_id, workspace_id, agent_id, relation);

CREATE INDEX invites_waiting ON invites (tenant_id, invite_id) WHERE status = 'pending';

CREATE INDEX webhooks_deleted ON webhooks (deleted_at) WHERE deleted_at > 0;

CREATE INDEX runs_auth ON runs (tenant_id, auth_server, run_id) WHERE auth_server IS NOT NULL;

CREATE INDEX runs_ended ON runs (completed_at, tenant_id, run_id) WHERE completed_at > 0;

CREATE UNIQUE INDEX documents_uniq ON documents (kind, tenant_id, uniq) WHERE uniq IS NOT NULL;

CREATE INDEX documents_ix1 ON documents (kind, tenant_id, ix1, id) WHERE ix1 IS NOT NULL;

CREATE INDEX documents_ix2 ON documents (kind, tenant_id, ix2, id) WHERE ix2 IS NOT NULL;

CREATE INDEX documents_ix3 ON documents (kind, tenant_id, ix3, id) WHERE ix3 IS NOT NULL;

CREATE INDEX documents_ix4 ON documents (kind, tenant_id, ix4, id) WHERE ix4 IS NOT NULL;

CREATE INDEX approvals_run ON approvals (tenant_id, run_id, approval_id);

CREATE INDEX approvals_status ON approvals (tenant_id, status, approval_id);

CREATE INDEX approvals_agent ON approvals (tenant_id, agent_id, approval_id);

CREATE INDEX sessions_active ON sessions (tenant_id, expires_at) WHERE status = 'active';

CREATE INDEX session_runs_branch ON session_runs (tenant_id, session_id, branch_id, turn);

CREATE INDEX session_runs_summarized ON session_runs (tenant_id, session_id, branch_id, turn) WHERE summarized;

CREATE INDEX runs_created ON runs (tenant_id, created_at, run_id);

CREATE INDEX runs_agent ON runs (tenant_id, agent_id, created_at, run_id);

CREATE INDEX runs_session ON runs (tenant_id, session_id, created_at, run_id) WHERE session_id IS NOT NULL;

CREATE INDEX runs_status ON runs (tenant_id, status, created_at, run_id);

CREATE INDEX runs_agent_status ON runs (tenant_id, agent_id, status, created_at, run_id);

CREATE INDEX runs_started_by ON runs (tenant_id, started_by, created_at, run_id);

CREATE INDEX runs_root ON runs (tenant_id, root_run_id, created_at, run_id) WHERE root_run_id IS NOT NULL;

CREATE INDEX runs_error ON runs (tenant_id, error_code, created_at, run_id) WHERE error_code <> '';

CREATE INDEX sessions_created ON sessions (tenant_id, created_at, session_id);

CREATE INDEX sessions_agent ON sessions (tenant_id, agent_id, created_at, session_id);

CREATE INDEX sessions_status ON sessions (tenant_id, status, created_at, session_id);

CREATE INDEX run_labels_run ON run_labels (tenant_id, run_id);

CREATE INDEX session_labels_session ON session_labels (tenant_id, session_id);

CREATE UNIQUE INDEX browser_sessions_key ON browser_sessions (key_prefix) WHERE key_prefix <> '';

CREATE INDEX ledger_category ON ledger (tenant_id, category, seq);

CREATE INDEX ledger_kind ON ledger (tenant_id, kind, seq);

CREATE INDEX ledger_subject ON ledger (tenant_id, subject_agent_id, seq) WHERE subject_agent_id <> '';

CREATE INDEX ledger_subject_category ON ledger (tenant_id, subject_agent_id, category, seq) WHERE subject_agent_id <> '';

CREATE INDEX team_runs_team ON team_runs (tenant_id, team_id, team_run_id);

CREATE INDEX team_runs_thread ON team_runs (tenant_id, team_id, thread_id, team_run_id);

CREATE INDEX team_runs_open ON team_runs (tenant_id, team_id, completed_at, team_run_id);

CREATE INDEX team_runs_unfinished ON team_runs (tenant_id, completed_at);

CREATE INDEX a2a_tasks_context ON a2a_tasks (tenant_id, context_id, task_id);

CREATE INDEX a2a_published_tenant ON a2a_published (tenant_id);

CREATE UNIQUE INDEX objectives_id ON objectives (tenant_id, owner_id, objective_id);

CREATE INDEX objective_tasks_open ON objective_tasks (tenant_id, owner_id, applied, seq);

CREATE INDEX missions_session ON missions (tenant_id, session_id, mission_id);

CREATE INDEX bridge_machines_agent ON bridge_machines (tenant_id, agent_id);

CREATE INDEX bridge_tasks_agent ON bridge_tasks (tenant_id, agent_id, task_id);

CREATE INDEX evaluations_agent ON evaluations (tenant_id, agent_id, eval_run_id);

CREATE INDEX evaluations_dataset ON evaluations (tenant_id, dataset_id, eval_run_id);

CREATE INDEX evaluations_experiment ON evaluations (tenant_id, experiment_id, eval_run_id);

CREATE INDEX evaluations_open ON evaluations (tenant_id, completed_at);

CREATE INDEX evaluation_results_ended ON evaluation_results (tenant_id, eval_run_id, ended, seq);

CREATE UNIQUE INDEX marketplace_listings_id ON marketplace_listings (listing_id);

CREATE INDEX marketplace_listings_agent ON marketplace_listings (tenant_id, agent_id);

CREATE INDEX marketplace_listings_published ON marketplace_listings (tenant_id, published_at);

CREATE INDEX marketplace_published_tenant ON marketplace_published (tenant_id);

CREATE INDEX marketplace_published_recency ON marketplace_published (shelf, published_at, listing_id);

CREATE INDEX marketplace_published_rating ON marketplace_published (shelf, rating, listing_id);

CREATE INDEX marketplace_published_popularity ON marketplace_published (shelf, popularity, listing_id);

CREATE INDEX marketplace_words_listing ON marketplace_words (listing_id);

CREATE INDEX marketplace_words_tenant ON marketplace_words (tenant_id);

CREATE INDEX marketplace_ratings_listing ON marketplace_ratings (listing_id, rating_id);

CREATE INDEX marketplace_invocations_owner ON marketplace_invocations (owner_id, invocation_id);

CREATE INDEX marketplace_invocations_created ON marketplace_invocations (tenant_id, created_at);

CREATE UNIQUE INDEX visitor_sessions_token ON visitor_sessions (token_hash);

CREATE INDEX visitor_sessions_seen ON visitor_sessions (tenant_id, agent_id, seen_at);

CREATE INDEX visitor_sessions_created ON visitor_sessions (tenant_id, agent_id, created_at);

CREATE INDEX visitor_files_session ON visitor_files (tenant_id, session_id);

CREATE INDEX tenants_published ON tenants (status, published_at) WHERE published_at > 0;

CREATE INDEX billing_accounts_customer ON billing_accounts (customer_id);

CREATE INDEX billing_events_received ON billing_events (received_at);

CREATE INDEX run_feedback_user ON run_feedback (tenant_id, user_id, run_id, message_id);

CREATE INDEX passages_source ON passages (tenant_id, collection_id, source_id, position) WHERE source_id <> '';

CREATE INDEX team_runs_user ON team_runs (tenant_id, user_id, team_run_id) WHERE user_id <> '';

CREATE INDEX missions_user ON missions (tenant_id, user_id, mission_id) WHERE user_id <> '';

CREATE INDEX invites_email ON invites (tenant_id, email, invite_id);

CREATE INDEX tenants_held ON tenants (tenant_id) WHERE legal_hold;

CREATE INDEX feed_entries_company ON feed_entries (tenant_id, company_id, at, feed_id) WHERE company_id <> '';

CREATE INDEX feed_entries_team ON feed_entries (tenant_id, team_id, at, feed_id) WHERE team_id <> '';

CREATE INDEX runs_completed ON runs (tenant_id, completed_at, run_id) WHERE completed_at > 0;

CREATE TRIGGER audit_log_kept BEFORE DELETE ON audit_log
WHEN EXISTS (SELECT 1 FROM tenants WHERE tenant_id = OLD.tenant_id AND status <> 'deleted')
    AND NOT EXISTS (SELECT 1 FROM retention_marks WHERE tenant_id = OLD.tenant_id AND kind = 'audit' AND at > OLD.at)
BEGIN
    SELECT RAISE(ABORT, 'entries of the audit log are kept');
END;

CREATE UNIQUE INDEX sessions_client ON sessions (tenant_id, agent_id, external_id) WHERE external_id <> '';

CREATE INDEX sessions_external ON sessions (tenant_id, external_id, created_at, session_id) WHERE external_id <> '';

CREATE INDEX audit_log_arrivals ON audit_log (action, at, entry_id) WHERE action IN ('auth.signed_in', 'tenant.created');

CREATE INDEX memory_entries_superseded ON memory_entries (tenant_id, agent_id, superseded_by) WHERE superseded_by <> '';

CREATE INDEX a2a_errands_team_run ON a2a_errands (tenant_id, team_run_id);

CREATE INDEX tenants_redact ON tenants (tenant_id) WHERE redact <> '';

ANALYZE search_marks;
