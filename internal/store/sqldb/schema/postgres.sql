-- Made from the migrations 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 29 30 31 32 33 34 35 38 40 42 44 50 51 52 56 57 60 62 63 67 68 71 72 73 81 86 88 89 94 95 105 106 110 125 131 150 155 173 180 181 185 190 195 200 201 205 206 207 210 220 230 760 770 771 780 790 800 820 830 840 850 860.

CREATE FUNCTION audit_log_refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'entries of the audit log do not change';
    END IF;
    IF EXISTS (SELECT 1 FROM tenants WHERE tenant_id = OLD.tenant_id AND status <> 'deleted')
        AND NOT EXISTS (SELECT 1 FROM retention_marks WHERE tenant_id = OLD.tenant_id AND kind = 'audit' AND at > OLD.at) THEN
        RAISE EXCEPTION 'entries of the audit log are kept';
    END IF;
    RETURN OLD;
END
$$;

CREATE TABLE a2a_errands (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    task_id text NOT NULL COLLATE pg_catalog."C",
    team_run_id text NOT NULL COLLATE pg_catalog."C",
    cancel bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);

CREATE TABLE a2a_published (
    agent_id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE a2a_pushes (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    task_id text NOT NULL COLLATE pg_catalog."C",
    config_id text NOT NULL COLLATE pg_catalog."C",
    url text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL,
    sent bigint NOT NULL,
    attempts bigint NOT NULL,
    created_at bigint NOT NULL
);

CREATE TABLE a2a_tasks (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    task_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    context_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    changes bigint NOT NULL,
    messages text NOT NULL COLLATE pg_catalog."C",
    metadata text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE api_keys (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    prefix text NOT NULL COLLATE pg_catalog."C",
    secret_hash bytea NOT NULL,
    scopes text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    last_used_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    revoked_at bigint NOT NULL
);

CREATE TABLE approvals (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    approval_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    session_id text COLLATE pg_catalog."C",
    tool_call_id text NOT NULL COLLATE pg_catalog."C",
    tool_name text NOT NULL COLLATE pg_catalog."C",
    arguments text NOT NULL COLLATE pg_catalog."C",
    arguments_hash text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    requested_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    decided_at bigint NOT NULL,
    decided_by text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    response text NOT NULL COLLATE pg_catalog."C",
    edited text COLLATE pg_catalog."C"
);

CREATE TABLE audit_log (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    entry_id text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    actor_tenant_id text NOT NULL COLLATE pg_catalog."C",
    actor_user_id text NOT NULL COLLATE pg_catalog."C",
    actor_key_id text NOT NULL COLLATE pg_catalog."C",
    actor_session_id text NOT NULL COLLATE pg_catalog."C",
    method text NOT NULL COLLATE pg_catalog."C",
    target_type text NOT NULL COLLATE pg_catalog."C",
    target_id text NOT NULL COLLATE pg_catalog."C",
    details text NOT NULL COLLATE pg_catalog."C",
    ip_address text NOT NULL COLLATE pg_catalog."C",
    request_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE audit_push (
    since bigint NOT NULL
);

CREATE TABLE audit_unsent (
    at bigint NOT NULL,
    entry_id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE billing_accounts (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    customer_id text NOT NULL COLLATE pg_catalog."C",
    subscription_id text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    plan text NOT NULL COLLATE pg_catalog."C",
    trial_ends_at bigint NOT NULL,
    plan_at bigint NOT NULL,
    status_at bigint NOT NULL
);

CREATE TABLE billing_events (
    event_id text NOT NULL COLLATE pg_catalog."C",
    received_at bigint NOT NULL
);

CREATE TABLE blob_loose (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    parts_id text NOT NULL COLLATE pg_catalog."C",
    due_at bigint NOT NULL
);

CREATE TABLE blob_parts (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    parts_id text NOT NULL COLLATE pg_catalog."C",
    part bigint NOT NULL,
    data bytea NOT NULL
);

CREATE TABLE blobs (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    sha256 text NOT NULL COLLATE pg_catalog."C",
    parts_id text NOT NULL COLLATE pg_catalog."C",
    size bigint NOT NULL,
    refs bigint NOT NULL
);

CREATE TABLE bridge_events (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    task_id text NOT NULL COLLATE pg_catalog."C",
    event_key text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE bridge_machines (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    machine_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    facts text NOT NULL COLLATE pg_catalog."C",
    registered_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    left_at bigint NOT NULL,
    deleted_at bigint NOT NULL
);

CREATE TABLE bridge_tasks (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    task_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL COLLATE pg_catalog."C",
    taken bigint NOT NULL,
    offer_at bigint NOT NULL,
    events bigint NOT NULL,
    bytes bigint NOT NULL,
    queued_at bigint NOT NULL
);

CREATE TABLE browser_sessions (
    session_id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    prefix text NOT NULL COLLATE pg_catalog."C",
    secret_hash bytea NOT NULL,
    label text NOT NULL COLLATE pg_catalog."C",
    address text NOT NULL COLLATE pg_catalog."C",
    method text NOT NULL COLLATE pg_catalog."C",
    needs_factor boolean NOT NULL,
    created_at bigint NOT NULL,
    last_used_at bigint NOT NULL,
    renewed_at bigint NOT NULL,
    verified_at bigint NOT NULL,
    ended_at bigint NOT NULL,
    key_prefix text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    key_hash bytea,
    of_key_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE collections (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    collection_id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    removed bigint NOT NULL
);

CREATE TABLE constitutions (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    rules text NOT NULL COLLATE pg_catalog."C",
    amendments text NOT NULL COLLATE pg_catalog."C",
    updated_at bigint NOT NULL
);

CREATE TABLE counters (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    value bigint NOT NULL
);

CREATE TABLE document_words (
    kind text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    begin text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    words text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE documents (
    kind text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C",
    uniq text COLLATE pg_catalog."C",
    ix1 text COLLATE pg_catalog."C",
    ix2 text COLLATE pg_catalog."C",
    ix3 text COLLATE pg_catalog."C",
    ix4 text COLLATE pg_catalog."C",
    words text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE eval_cases (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    dataset_id text NOT NULL COLLATE pg_catalog."C",
    block bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE evaluation_results (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    eval_run_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    ended bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE evaluations (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    eval_run_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    dataset_id text NOT NULL COLLATE pg_catalog."C",
    experiment_id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    spec text NOT NULL COLLATE pg_catalog."C",
    total bigint NOT NULL,
    next bigint NOT NULL,
    tally text NOT NULL COLLATE pg_catalog."C",
    summary text NOT NULL COLLATE pg_catalog."C",
    error text NOT NULL COLLATE pg_catalog."C",
    cancel bigint NOT NULL,
    created_at bigint NOT NULL,
    completed_at bigint NOT NULL
);

CREATE TABLE feed_entries (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    feed_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL COLLATE pg_catalog."C",
    company_id text NOT NULL COLLATE pg_catalog."C",
    team_id text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE files (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    file_id text NOT NULL COLLATE pg_catalog."C",
    filename text NOT NULL COLLATE pg_catalog."C",
    mime_type text NOT NULL COLLATE pg_catalog."C",
    mime_group text NOT NULL COLLATE pg_catalog."C",
    size bigint NOT NULL,
    sha256 text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);

CREATE TABLE governance_states (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    mode text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    activated_at bigint NOT NULL,
    activated_by text NOT NULL COLLATE pg_catalog."C",
    deadline bigint NOT NULL,
    permissions bigint DEFAULT 0 NOT NULL,
    root_agent_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    attestation text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE idempotency (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    credential_id text NOT NULL COLLATE pg_catalog."C",
    idem_key text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL COLLATE pg_catalog."C",
    request bytea NOT NULL,
    body bytea NOT NULL,
    status bigint NOT NULL,
    answer bytea,
    lease bigint NOT NULL,
    expires_at bigint NOT NULL
);

CREATE TABLE initiative_states (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    initiative_id text NOT NULL COLLATE pg_catalog."C",
    asked bigint NOT NULL,
    tick_now bigint NOT NULL,
    event_seq bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE integration_documents (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    integration_id text NOT NULL COLLATE pg_catalog."C",
    document bytea NOT NULL
);

CREATE TABLE invites (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    invite_id text NOT NULL COLLATE pg_catalog."C",
    email text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    secret_hash bytea NOT NULL,
    mailed boolean NOT NULL,
    invited_by text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    sent_at bigint NOT NULL,
    expires_at bigint NOT NULL
);

CREATE TABLE kb_documents (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    kb_id text NOT NULL COLLATE pg_catalog."C",
    document_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    size_bytes bigint NOT NULL,
    chunk_count bigint NOT NULL,
    preview text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE kept_secrets (
    name text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL
);

CREATE TABLE ledger (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    entry_id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    category text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    actor_agent_id text NOT NULL COLLATE pg_catalog."C",
    actor_user_id text NOT NULL COLLATE pg_catalog."C",
    subject_agent_id text NOT NULL COLLATE pg_catalog."C",
    rule_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    details text NOT NULL COLLATE pg_catalog."C",
    prev_hash text NOT NULL COLLATE pg_catalog."C",
    hash text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE ledger_heads (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    hash text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE ledger_unsealed (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    entry_id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    actor_agent_id text NOT NULL COLLATE pg_catalog."C",
    actor_user_id text NOT NULL COLLATE pg_catalog."C",
    subject_agent_id text NOT NULL COLLATE pg_catalog."C",
    rule_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    details text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE llm_credentials (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    provider_id text NOT NULL COLLATE pg_catalog."C",
    endpoint text NOT NULL COLLATE pg_catalog."C",
    origin text NOT NULL COLLATE pg_catalog."C",
    shared boolean NOT NULL,
    sealed bytea NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    max_concurrency bigint DEFAULT 0 NOT NULL,
    tokens_per_minute bigint DEFAULT 0 NOT NULL,
    wire text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    access text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE marketplace_favourites (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    listing_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE marketplace_invocations (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    invocation_id text NOT NULL COLLATE pg_catalog."C",
    listing_id text NOT NULL COLLATE pg_catalog."C",
    owner_id text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    input text NOT NULL COLLATE pg_catalog."C",
    result text NOT NULL COLLATE pg_catalog."C",
    pricing text NOT NULL COLLATE pg_catalog."C",
    price bigint NOT NULL,
    duration_ms bigint NOT NULL,
    created_at bigint NOT NULL,
    completed_at bigint NOT NULL
);

CREATE TABLE marketplace_listings (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    listing_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    category text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL COLLATE pg_catalog."C",
    rating_sum bigint NOT NULL,
    rating_count bigint NOT NULL,
    invocations bigint NOT NULL,
    favourites bigint NOT NULL,
    published_at bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE marketplace_published (
    shelf text NOT NULL COLLATE pg_catalog."C",
    listing_id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    rating bigint NOT NULL,
    popularity bigint NOT NULL,
    published_at bigint NOT NULL
);

CREATE TABLE marketplace_ratings (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    listing_id text NOT NULL COLLATE pg_catalog."C",
    rating_id text NOT NULL COLLATE pg_catalog."C",
    rating bigint NOT NULL,
    comment text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);

CREATE TABLE marketplace_subscriptions (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    listing_id text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    external_id text NOT NULL COLLATE pg_catalog."C",
    paid_until bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE marketplace_words (
    begin text NOT NULL COLLATE pg_catalog."C",
    listing_id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE mcp_grants (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    server_id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    claimed_till bigint NOT NULL,
    sealed bytea NOT NULL
);

CREATE TABLE mcp_pending (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    pending_id text NOT NULL COLLATE pg_catalog."C",
    server_id text NOT NULL COLLATE pg_catalog."C",
    expires_at bigint NOT NULL,
    sealed bytea NOT NULL
);

CREATE TABLE memory_blocks (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    label text NOT NULL COLLATE pg_catalog."C",
    content text NOT NULL COLLATE pg_catalog."C",
    max_tokens bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE memory_entries (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    entry_id text NOT NULL COLLATE pg_catalog."C",
    tags text NOT NULL COLLATE pg_catalog."C",
    source_run_id text NOT NULL COLLATE pg_catalog."C",
    origin text COLLATE pg_catalog."C",
    content_hash text NOT NULL COLLATE pg_catalog."C",
    entity_key text NOT NULL COLLATE pg_catalog."C",
    entity_name text NOT NULL COLLATE pg_catalog."C",
    entity_type text NOT NULL COLLATE pg_catalog."C",
    run_outcome text NOT NULL COLLATE pg_catalog."C",
    metadata text NOT NULL COLLATE pg_catalog."C",
    access_count bigint NOT NULL,
    accessed_at bigint NOT NULL,
    created_at bigint NOT NULL,
    sources text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    superseded_by text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE missions (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    mission_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    spec text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    event_seq bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    completed_at bigint NOT NULL,
    report text NOT NULL COLLATE pg_catalog."C",
    hold bigint NOT NULL,
    abort bigint NOT NULL,
    authorized bigint NOT NULL,
    reason text NOT NULL COLLATE pg_catalog."C",
    asked bigint NOT NULL
);

CREATE TABLE model_waits (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    endpoint text NOT NULL COLLATE pg_catalog."C",
    tokens bigint DEFAULT 0 NOT NULL
);

CREATE TABLE nodes (
    node text NOT NULL COLLATE pg_catalog."C",
    boot_id text NOT NULL COLLATE pg_catalog."C",
    host text NOT NULL COLLATE pg_catalog."C",
    path text NOT NULL COLLATE pg_catalog."C",
    inode bigint NOT NULL,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    version text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    role text DEFAULT 'all'::text NOT NULL COLLATE pg_catalog."C",
    runs bigint DEFAULT 0 NOT NULL
);

CREATE TABLE notification_mail (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    subject text NOT NULL COLLATE pg_catalog."C",
    since bigint NOT NULL,
    sent bigint NOT NULL
);

CREATE TABLE notification_numbers (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    last_seq bigint NOT NULL
);

CREATE TABLE notification_optouts (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    address_hash bytea NOT NULL,
    created_at bigint NOT NULL
);

CREATE TABLE notification_prefs (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL COLLATE pg_catalog."C",
    updated_at bigint NOT NULL
);

CREATE TABLE notification_targets (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    target_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    label text NOT NULL COLLATE pg_catalog."C",
    enabled boolean NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL,
    created_at bigint NOT NULL,
    last_at bigint NOT NULL,
    last_error text NOT NULL COLLATE pg_catalog."C",
    confirmed_at bigint DEFAULT 0 NOT NULL,
    confirm_until bigint DEFAULT 0 NOT NULL,
    confirm_hash bytea
);

CREATE TABLE notifications (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    notification_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    priority text NOT NULL COLLATE pg_catalog."C",
    title text NOT NULL COLLATE pg_catalog."C",
    message text NOT NULL COLLATE pg_catalog."C",
    data text COLLATE pg_catalog."C",
    action_url text NOT NULL COLLATE pg_catalog."C",
    source_kind text NOT NULL COLLATE pg_catalog."C",
    source_id text NOT NULL COLLATE pg_catalog."C",
    dedup_key text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    read_at bigint NOT NULL
);

CREATE TABLE objective_tasks (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    owner_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    applied bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE objectives (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    owner_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    objective_id text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    plan text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE operator_settings (
    section text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE passages (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    collection_id text NOT NULL COLLATE pg_catalog."C",
    passage_id text NOT NULL COLLATE pg_catalog."C",
    source_id text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    text text NOT NULL COLLATE pg_catalog."C",
    boost double precision NOT NULL,
    at bigint NOT NULL,
    version bigint NOT NULL,
    vector_model text NOT NULL COLLATE pg_catalog."C",
    vector bytea,
    words text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    start_at bigint DEFAULT '-1'::integer NOT NULL,
    page bigint DEFAULT 0 NOT NULL
);

CREATE TABLE public_events (
    day text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL
);

CREATE TABLE reconciliation_turns (
    id text NOT NULL COLLATE pg_catalog."C",
    started_at bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE reconciliations (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE responses (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    previous_id text NOT NULL COLLATE pg_catalog."C",
    standing text NOT NULL COLLATE pg_catalog."C",
    asked text NOT NULL COLLATE pg_catalog."C",
    deleted_at bigint DEFAULT 0 NOT NULL
);

CREATE TABLE retention_marks (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    run_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE run_artifacts (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    artifact_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    mime_type text NOT NULL COLLATE pg_catalog."C",
    size bigint NOT NULL,
    sha256 text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);

CREATE TABLE run_budgets (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    budget_id text NOT NULL COLLATE pg_catalog."C",
    cap bigint NOT NULL,
    spent bigint NOT NULL,
    reserved bigint NOT NULL
);

CREATE TABLE run_checkpoints (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    checkpoint_id text NOT NULL COLLATE pg_catalog."C",
    step_seq bigint NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    metrics text NOT NULL COLLATE pg_catalog."C",
    created_by text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);

CREATE TABLE run_events (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    last_seq bigint NOT NULL,
    first_seq bigint NOT NULL,
    draft bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE run_feedback (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    message_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    reaction text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    updated_at bigint NOT NULL
);

CREATE TABLE run_labels (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    run_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE run_steps (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    step_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    started_at bigint NOT NULL,
    completed_at bigint NOT NULL,
    duration_us bigint NOT NULL,
    input text COLLATE pg_catalog."C",
    output text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    metrics text COLLATE pg_catalog."C",
    tool_calls text NOT NULL COLLATE pg_catalog."C",
    call_of bigint DEFAULT 0 NOT NULL,
    attempts text COLLATE pg_catalog."C",
    made_by text COLLATE pg_catalog."C",
    opaque text COLLATE pg_catalog."C"
);

CREATE TABLE runs (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    agent_version bigint NOT NULL,
    session_id text COLLATE pg_catalog."C",
    team_run_id text COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    input text NOT NULL COLLATE pg_catalog."C",
    output text COLLATE pg_catalog."C",
    metrics text NOT NULL COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    error_code text NOT NULL COLLATE pg_catalog."C",
    metadata text NOT NULL COLLATE pg_catalog."C",
    resource_limits text NOT NULL COLLATE pg_catalog."C",
    options text NOT NULL COLLATE pg_catalog."C",
    pending text NOT NULL COLLATE pg_catalog."C",
    step_seq bigint NOT NULL,
    event_seq bigint NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint NOT NULL,
    completed_at bigint NOT NULL,
    waiting text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    auth_server text COLLATE pg_catalog."C",
    pausing boolean DEFAULT false NOT NULL,
    continued_by text COLLATE pg_catalog."C",
    started_by text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    parent_step_id text COLLATE pg_catalog."C",
    root_run_id text COLLATE pg_catalog."C",
    answer_step bigint DEFAULT 0 NOT NULL
);

CREATE TABLE schedule_runs (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    fire_at bigint NOT NULL
);

CREATE TABLE schedules (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    config text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    problem text NOT NULL COLLATE pg_catalog."C",
    next_run_at bigint NOT NULL,
    last_fired_at bigint NOT NULL,
    last_skipped_at bigint NOT NULL,
    skip_reason text NOT NULL COLLATE pg_catalog."C",
    failures bigint NOT NULL,
    revision bigint NOT NULL
);

CREATE TABLE search_docs (
    doc_id bigint NOT NULL,
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    thing_id text NOT NULL COLLATE pg_catalog."C",
    parent_id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    at bigint NOT NULL
);

ALTER TABLE search_docs ALTER COLUMN doc_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME search_docs_doc_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE search_marks (
    name text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    thing_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE search_numbers (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    last bigint NOT NULL
);

CREATE TABLE search_words (
    doc_id bigint NOT NULL,
    terms tsvector NOT NULL
);

CREATE TABLE secret_keys (
    key_id text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);

CREATE TABLE secret_servers (
    node text NOT NULL COLLATE pg_catalog."C",
    key_ids text NOT NULL COLLATE pg_catalog."C",
    seen_at bigint NOT NULL
);

CREATE TABLE sensor_calls (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    webhook_id text NOT NULL COLLATE pg_catalog."C",
    call_hash text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL
);

CREATE TABLE sensors (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    webhook_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    made_by_run text NOT NULL COLLATE pg_catalog."C",
    instructions text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL,
    max_triggers bigint NOT NULL,
    triggers bigint NOT NULL,
    expires_at bigint NOT NULL,
    ended_at bigint NOT NULL,
    created_at bigint NOT NULL,
    last_triggered_at bigint NOT NULL
);

CREATE TABLE session_branches (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    branch_id text NOT NULL COLLATE pg_catalog."C",
    parent_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    fork_run_id text NOT NULL COLLATE pg_catalog."C",
    fork_step bigint NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);

CREATE TABLE session_labels (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    session_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE session_messages (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    turn bigint NOT NULL,
    reply text NOT NULL COLLATE pg_catalog."C",
    messages text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE session_runs (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    turn bigint NOT NULL,
    branch_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    finished boolean NOT NULL,
    entries bigint DEFAULT '-1'::integer NOT NULL,
    summarized boolean DEFAULT false NOT NULL
);

CREATE TABLE session_shares (
    share_hash text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL,
    role text NOT NULL COLLATE pg_catalog."C",
    expires_at bigint NOT NULL
);

CREATE TABLE session_states (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    step_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE session_todos (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    todo_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    finished boolean NOT NULL,
    sort_key bigint NOT NULL,
    due_at bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE sessions (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    team_id text COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    queue_mode text NOT NULL COLLATE pg_catalog."C",
    model_override text COLLATE pg_catalog."C",
    metadata text NOT NULL COLLATE pg_catalog."C",
    active_branch text NOT NULL COLLATE pg_catalog."C",
    turns bigint NOT NULL,
    summary text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    external_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE signin_addresses (
    email text NOT NULL COLLATE pg_catalog."C",
    asked bigint NOT NULL,
    again_at bigint NOT NULL,
    forget_at bigint NOT NULL,
    asked_at bigint DEFAULT 0 NOT NULL,
    tried bigint DEFAULT 0 NOT NULL,
    tried_since bigint DEFAULT 0 NOT NULL
);

CREATE TABLE signin_attempts (
    email text NOT NULL COLLATE pg_catalog."C",
    browser bytea NOT NULL,
    code_hash bytea NOT NULL,
    long_hash bytea NOT NULL,
    terms boolean NOT NULL,
    wrong bigint NOT NULL,
    elsewhere bigint NOT NULL,
    expires_at bigint NOT NULL
);

CREATE TABLE signin_factors (
    person text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL,
    algorithm text NOT NULL COLLATE pg_catalog."C",
    recovery bytea NOT NULL,
    created_at bigint NOT NULL,
    confirmed_at bigint NOT NULL,
    last_step bigint NOT NULL,
    wrong bigint NOT NULL,
    wrong_at bigint NOT NULL
);

CREATE TABLE signin_links (
    issuer text NOT NULL COLLATE pg_catalog."C",
    subject text NOT NULL COLLATE pg_catalog."C",
    provider text NOT NULL COLLATE pg_catalog."C",
    email text NOT NULL COLLATE pg_catalog."C",
    provider_email text NOT NULL COLLATE pg_catalog."C",
    linked_at bigint NOT NULL
);

CREATE TABLE signin_tickets (
    kind text NOT NULL COLLATE pg_catalog."C",
    hash bytea NOT NULL,
    sealed bytea NOT NULL,
    expires_at bigint NOT NULL
);

CREATE TABLE team_runs (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    team_run_id text NOT NULL COLLATE pg_catalog."C",
    team_id text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    spec text NOT NULL COLLATE pg_catalog."C",
    message text NOT NULL COLLATE pg_catalog."C",
    metadata text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    output text NOT NULL COLLATE pg_catalog."C",
    error text NOT NULL COLLATE pg_catalog."C",
    cancel bigint NOT NULL,
    event_seq bigint NOT NULL,
    created_at bigint NOT NULL,
    completed_at bigint NOT NULL,
    thread_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE team_tasks (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    team_run_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    ended bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE tenant_purges (
    subject_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    asked_by text NOT NULL COLLATE pg_catalog."C",
    asked_at bigint NOT NULL,
    counts text NOT NULL COLLATE pg_catalog."C",
    told boolean NOT NULL
);

CREATE TABLE tenants (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    slug text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    plan text NOT NULL COLLATE pg_catalog."C",
    settings text NOT NULL COLLATE pg_catalog."C",
    operator boolean NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    description text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    logo_url text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    branding text DEFAULT '{}'::text NOT NULL COLLATE pg_catalog."C",
    social_links text DEFAULT '{}'::text NOT NULL COLLATE pg_catalog."C",
    suspended_at bigint DEFAULT 0 NOT NULL,
    suspension_reason text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    purge_protected boolean DEFAULT false NOT NULL,
    egress_allowlist text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    published_at bigint DEFAULT 0 NOT NULL,
    public_agent_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    published_agents text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    public_settings text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    past_due boolean DEFAULT false NOT NULL,
    legal_hold boolean DEFAULT false NOT NULL,
    redact text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE usage_budgets (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    limit_nano bigint NOT NULL,
    soft_threshold double precision NOT NULL,
    hard_threshold double precision NOT NULL,
    period text NOT NULL COLLATE pg_catalog."C",
    updated_at bigint NOT NULL,
    overage boolean DEFAULT false NOT NULL
);

CREATE TABLE usage_counters (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    period text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    runs bigint NOT NULL,
    model_calls bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    thinking_tokens bigint NOT NULL,
    tool_calls bigint NOT NULL,
    cost_nano bigint NOT NULL,
    cached_tokens bigint DEFAULT 0 NOT NULL,
    cache_write_tokens bigint DEFAULT 0 NOT NULL,
    tool_errors bigint DEFAULT 0 NOT NULL,
    completed bigint DEFAULT 0 NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    cancelled bigint DEFAULT 0 NOT NULL,
    duration_ms bigint DEFAULT 0 NOT NULL
);

CREATE TABLE usage_durations (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    day text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    bucket bigint NOT NULL,
    runs bigint NOT NULL
);

CREATE TABLE usage_entries (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    entry_id bigint NOT NULL,
    day text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    runs bigint NOT NULL,
    model_calls bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    thinking_tokens bigint NOT NULL,
    tool_calls bigint NOT NULL,
    cost_nano bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    tool_errors bigint DEFAULT 0 NOT NULL,
    completed bigint DEFAULT 0 NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    cancelled bigint DEFAULT 0 NOT NULL,
    duration_ms bigint DEFAULT 0 NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

CREATE TABLE usage_events (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    resource text NOT NULL COLLATE pg_catalog."C",
    period text NOT NULL COLLATE pg_catalog."C",
    used bigint NOT NULL,
    cap bigint NOT NULL,
    resets_at bigint NOT NULL,
    created_at bigint NOT NULL
);

CREATE TABLE usage_locks (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    resource text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE users (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    email text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    email_verified boolean DEFAULT false NOT NULL,
    avatar_url text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    last_login_at bigint DEFAULT 0 NOT NULL
);

CREATE TABLE visitor_agents (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    day text NOT NULL COLLATE pg_catalog."C",
    messages bigint NOT NULL
);

CREATE TABLE visitor_files (
    file_id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);

CREATE TABLE visitor_sessions (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    token_hash bytea NOT NULL,
    messages bigint NOT NULL,
    seen_at bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);

CREATE TABLE webhook_deliveries (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    webhook_id text NOT NULL COLLATE pg_catalog."C",
    delivery_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL COLLATE pg_catalog."C",
    attempt bigint NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    due_at bigint NOT NULL,
    response_status bigint NOT NULL,
    failure text NOT NULL COLLATE pg_catalog."C",
    latency_us bigint NOT NULL,
    next_retry_at bigint NOT NULL,
    dead boolean NOT NULL,
    created_at bigint NOT NULL
);

CREATE TABLE webhook_events (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL COLLATE pg_catalog."C",
    body bytea NOT NULL
);

CREATE TABLE webhooks (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    webhook_id text NOT NULL COLLATE pg_catalog."C",
    url text NOT NULL COLLATE pg_catalog."C",
    events text NOT NULL COLLATE pg_catalog."C",
    sealed bytea NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    failures bigint NOT NULL,
    last_failure_at bigint NOT NULL,
    created_at bigint NOT NULL,
    deleted_at bigint NOT NULL
);

CREATE TABLE work (
    kind text NOT NULL COLLATE pg_catalog."C",
    work_key text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    due_at bigint NOT NULL,
    epoch bigint NOT NULL,
    attempt bigint NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C",
    payload bytea
);

CREATE TABLE workspace_agents (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    relation text NOT NULL COLLATE pg_catalog."C",
    workspace_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE workspace_files (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    path text NOT NULL COLLATE pg_catalog."C",
    file_id text NOT NULL COLLATE pg_catalog."C",
    mime_type text NOT NULL COLLATE pg_catalog."C",
    size bigint NOT NULL,
    sha256 text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE workspaces (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    owner_type text NOT NULL COLLATE pg_catalog."C",
    owner_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    file_count bigint NOT NULL,
    total_size bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

ALTER TABLE ONLY a2a_errands
    ADD CONSTRAINT a2a_errands_pkey PRIMARY KEY (tenant_id, task_id);

ALTER TABLE ONLY a2a_published
    ADD CONSTRAINT a2a_published_pkey PRIMARY KEY (agent_id);

ALTER TABLE ONLY a2a_pushes
    ADD CONSTRAINT a2a_pushes_pkey PRIMARY KEY (tenant_id, task_id, config_id);

ALTER TABLE ONLY a2a_tasks
    ADD CONSTRAINT a2a_tasks_pkey PRIMARY KEY (tenant_id, task_id);

ALTER TABLE ONLY api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (tenant_id, key_id);

ALTER TABLE ONLY api_keys
    ADD CONSTRAINT api_keys_prefix_key UNIQUE (prefix);

ALTER TABLE ONLY approvals
    ADD CONSTRAINT approvals_pkey PRIMARY KEY (tenant_id, approval_id);

ALTER TABLE ONLY audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (tenant_id, at, entry_id);

ALTER TABLE ONLY audit_push
    ADD CONSTRAINT audit_push_pkey PRIMARY KEY (since);

ALTER TABLE ONLY audit_unsent
    ADD CONSTRAINT audit_unsent_pkey PRIMARY KEY (at, entry_id);

ALTER TABLE ONLY billing_accounts
    ADD CONSTRAINT billing_accounts_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY billing_events
    ADD CONSTRAINT billing_events_pkey PRIMARY KEY (event_id);

ALTER TABLE ONLY blob_loose
    ADD CONSTRAINT blob_loose_pkey PRIMARY KEY (tenant_id, parts_id);

ALTER TABLE ONLY blob_parts
    ADD CONSTRAINT blob_parts_pkey PRIMARY KEY (tenant_id, parts_id, part);

ALTER TABLE ONLY blobs
    ADD CONSTRAINT blobs_pkey PRIMARY KEY (tenant_id, sha256);

ALTER TABLE ONLY bridge_events
    ADD CONSTRAINT bridge_events_pkey PRIMARY KEY (tenant_id, task_id, event_key);

ALTER TABLE ONLY bridge_machines
    ADD CONSTRAINT bridge_machines_pkey PRIMARY KEY (tenant_id, machine_id);

ALTER TABLE ONLY bridge_tasks
    ADD CONSTRAINT bridge_tasks_pkey PRIMARY KEY (tenant_id, task_id);

ALTER TABLE ONLY browser_sessions
    ADD CONSTRAINT browser_sessions_pkey PRIMARY KEY (session_id);

ALTER TABLE ONLY browser_sessions
    ADD CONSTRAINT browser_sessions_prefix_key UNIQUE (prefix);

ALTER TABLE ONLY collections
    ADD CONSTRAINT collections_pkey PRIMARY KEY (tenant_id, collection_id);

ALTER TABLE ONLY constitutions
    ADD CONSTRAINT constitutions_pkey PRIMARY KEY (tenant_id, version);

ALTER TABLE ONLY counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY document_words
    ADD CONSTRAINT document_words_pkey PRIMARY KEY (kind, tenant_id, begin, id);

ALTER TABLE ONLY documents
    ADD CONSTRAINT documents_pkey PRIMARY KEY (kind, tenant_id, id);

ALTER TABLE ONLY eval_cases
    ADD CONSTRAINT eval_cases_pkey PRIMARY KEY (tenant_id, dataset_id, block);

ALTER TABLE ONLY evaluation_results
    ADD CONSTRAINT evaluation_results_pkey PRIMARY KEY (tenant_id, eval_run_id, seq);

ALTER TABLE ONLY evaluations
    ADD CONSTRAINT evaluations_pkey PRIMARY KEY (tenant_id, eval_run_id);

ALTER TABLE ONLY feed_entries
    ADD CONSTRAINT feed_entries_pkey PRIMARY KEY (tenant_id, at, feed_id);

ALTER TABLE ONLY files
    ADD CONSTRAINT files_pkey PRIMARY KEY (tenant_id, file_id);

ALTER TABLE ONLY governance_states
    ADD CONSTRAINT governance_states_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (tenant_id, credential_id, idem_key);

ALTER TABLE ONLY initiative_states
    ADD CONSTRAINT initiative_states_pkey PRIMARY KEY (tenant_id, initiative_id);

ALTER TABLE ONLY integration_documents
    ADD CONSTRAINT integration_documents_pkey PRIMARY KEY (tenant_id, integration_id);

ALTER TABLE ONLY invites
    ADD CONSTRAINT invites_pkey PRIMARY KEY (tenant_id, invite_id);

ALTER TABLE ONLY kb_documents
    ADD CONSTRAINT kb_documents_pkey PRIMARY KEY (tenant_id, kb_id, document_id);

ALTER TABLE ONLY kept_secrets
    ADD CONSTRAINT kept_secrets_pkey PRIMARY KEY (name);

ALTER TABLE ONLY ledger_heads
    ADD CONSTRAINT ledger_heads_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (tenant_id, seq);

ALTER TABLE ONLY ledger_unsealed
    ADD CONSTRAINT ledger_unsealed_pkey PRIMARY KEY (tenant_id, entry_id);

ALTER TABLE ONLY llm_credentials
    ADD CONSTRAINT llm_credentials_pkey PRIMARY KEY (tenant_id, provider_id);

ALTER TABLE ONLY marketplace_favourites
    ADD CONSTRAINT marketplace_favourites_pkey PRIMARY KEY (tenant_id, user_id, listing_id);

ALTER TABLE ONLY marketplace_invocations
    ADD CONSTRAINT marketplace_invocations_pkey PRIMARY KEY (tenant_id, invocation_id);

ALTER TABLE ONLY marketplace_listings
    ADD CONSTRAINT marketplace_listings_pkey PRIMARY KEY (tenant_id, listing_id);

ALTER TABLE ONLY marketplace_published
    ADD CONSTRAINT marketplace_published_pkey PRIMARY KEY (listing_id, shelf);

ALTER TABLE ONLY marketplace_ratings
    ADD CONSTRAINT marketplace_ratings_pkey PRIMARY KEY (tenant_id, listing_id);

ALTER TABLE ONLY marketplace_subscriptions
    ADD CONSTRAINT marketplace_subscriptions_pkey PRIMARY KEY (tenant_id, listing_id);

ALTER TABLE ONLY marketplace_words
    ADD CONSTRAINT marketplace_words_pkey PRIMARY KEY (begin, listing_id);

ALTER TABLE ONLY mcp_grants
    ADD CONSTRAINT mcp_grants_pkey PRIMARY KEY (tenant_id, server_id);

ALTER TABLE ONLY mcp_pending
    ADD CONSTRAINT mcp_pending_pkey PRIMARY KEY (tenant_id, pending_id);

ALTER TABLE ONLY memory_blocks
    ADD CONSTRAINT memory_blocks_pkey PRIMARY KEY (tenant_id, agent_id, label);

ALTER TABLE ONLY memory_entries
    ADD CONSTRAINT memory_entries_pkey PRIMARY KEY (tenant_id, agent_id, entry_id);

ALTER TABLE ONLY missions
    ADD CONSTRAINT missions_pkey PRIMARY KEY (tenant_id, mission_id);

ALTER TABLE ONLY model_waits
    ADD CONSTRAINT model_waits_pkey PRIMARY KEY (tenant_id, run_id);

ALTER TABLE ONLY nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (node);

ALTER TABLE ONLY notification_mail
    ADD CONSTRAINT notification_mail_pkey PRIMARY KEY (tenant_id, subject);

ALTER TABLE ONLY notification_numbers
    ADD CONSTRAINT notification_numbers_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY notification_optouts
    ADD CONSTRAINT notification_optouts_pkey PRIMARY KEY (tenant_id, address_hash);

ALTER TABLE ONLY notification_prefs
    ADD CONSTRAINT notification_prefs_pkey PRIMARY KEY (tenant_id, user_id);

ALTER TABLE ONLY notification_targets
    ADD CONSTRAINT notification_targets_pkey PRIMARY KEY (tenant_id, target_id);

ALTER TABLE ONLY notifications
    ADD CONSTRAINT notifications_pkey PRIMARY KEY (tenant_id, seq);

ALTER TABLE ONLY objective_tasks
    ADD CONSTRAINT objective_tasks_pkey PRIMARY KEY (tenant_id, owner_id, seq);

ALTER TABLE ONLY objectives
    ADD CONSTRAINT objectives_pkey PRIMARY KEY (tenant_id, owner_id, seq);

ALTER TABLE ONLY operator_settings
    ADD CONSTRAINT operator_settings_pkey PRIMARY KEY (section);

ALTER TABLE ONLY passages
    ADD CONSTRAINT passages_pkey PRIMARY KEY (tenant_id, collection_id, passage_id);

ALTER TABLE ONLY public_events
    ADD CONSTRAINT public_events_pkey PRIMARY KEY (day, name);

ALTER TABLE ONLY reconciliation_turns
    ADD CONSTRAINT reconciliation_turns_pkey PRIMARY KEY (id);

ALTER TABLE ONLY reconciliations
    ADD CONSTRAINT reconciliations_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY responses
    ADD CONSTRAINT responses_pkey PRIMARY KEY (tenant_id, run_id);

ALTER TABLE ONLY retention_marks
    ADD CONSTRAINT retention_marks_pkey PRIMARY KEY (tenant_id, kind);

ALTER TABLE ONLY run_artifacts
    ADD CONSTRAINT run_artifacts_pkey PRIMARY KEY (tenant_id, run_id, artifact_id);

ALTER TABLE ONLY run_budgets
    ADD CONSTRAINT run_budgets_pkey PRIMARY KEY (tenant_id, budget_id);

ALTER TABLE ONLY run_checkpoints
    ADD CONSTRAINT run_checkpoints_pkey PRIMARY KEY (tenant_id, run_id, checkpoint_id);

ALTER TABLE ONLY run_events
    ADD CONSTRAINT run_events_pkey PRIMARY KEY (tenant_id, run_id, last_seq);

ALTER TABLE ONLY run_feedback
    ADD CONSTRAINT run_feedback_pkey PRIMARY KEY (tenant_id, run_id, message_id, user_id);

ALTER TABLE ONLY run_labels
    ADD CONSTRAINT run_labels_pkey PRIMARY KEY (tenant_id, name, value, created_at, run_id);

ALTER TABLE ONLY run_steps
    ADD CONSTRAINT run_steps_pkey PRIMARY KEY (tenant_id, run_id, seq);

ALTER TABLE ONLY runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (tenant_id, run_id);

ALTER TABLE ONLY schedule_runs
    ADD CONSTRAINT schedule_runs_pkey PRIMARY KEY (tenant_id, run_id);

ALTER TABLE ONLY schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (tenant_id, agent_id);

ALTER TABLE ONLY search_docs
    ADD CONSTRAINT search_docs_pkey PRIMARY KEY (doc_id);

ALTER TABLE ONLY search_marks
    ADD CONSTRAINT search_marks_pkey PRIMARY KEY (name);

ALTER TABLE ONLY search_numbers
    ADD CONSTRAINT search_numbers_pkey PRIMARY KEY (tenant_id, kind);

ALTER TABLE ONLY search_words
    ADD CONSTRAINT search_words_pkey PRIMARY KEY (doc_id);

ALTER TABLE ONLY secret_keys
    ADD CONSTRAINT secret_keys_pkey PRIMARY KEY (key_id);

ALTER TABLE ONLY secret_servers
    ADD CONSTRAINT secret_servers_pkey PRIMARY KEY (node);

ALTER TABLE ONLY sensor_calls
    ADD CONSTRAINT sensor_calls_pkey PRIMARY KEY (tenant_id, webhook_id, call_hash);

ALTER TABLE ONLY sensors
    ADD CONSTRAINT sensors_pkey PRIMARY KEY (tenant_id, webhook_id);

ALTER TABLE ONLY session_branches
    ADD CONSTRAINT session_branches_pkey PRIMARY KEY (tenant_id, session_id, branch_id);

ALTER TABLE ONLY session_labels
    ADD CONSTRAINT session_labels_pkey PRIMARY KEY (tenant_id, name, value, created_at, session_id);

ALTER TABLE ONLY session_messages
    ADD CONSTRAINT session_messages_pkey PRIMARY KEY (tenant_id, session_id, turn);

ALTER TABLE ONLY session_runs
    ADD CONSTRAINT session_runs_pkey PRIMARY KEY (tenant_id, session_id, turn);

ALTER TABLE ONLY session_shares
    ADD CONSTRAINT session_shares_pkey PRIMARY KEY (share_hash);

ALTER TABLE ONLY session_states
    ADD CONSTRAINT session_states_pkey PRIMARY KEY (tenant_id, session_id);

ALTER TABLE ONLY session_todos
    ADD CONSTRAINT session_todos_pkey PRIMARY KEY (tenant_id, todo_id);

ALTER TABLE ONLY sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (tenant_id, session_id);

ALTER TABLE ONLY signin_attempts
    ADD CONSTRAINT signin_attempts_pkey PRIMARY KEY (email, browser);

ALTER TABLE ONLY signin_addresses
    ADD CONSTRAINT signin_codes_pkey PRIMARY KEY (email);

ALTER TABLE ONLY signin_factors
    ADD CONSTRAINT signin_factors_pkey PRIMARY KEY (person);

ALTER TABLE ONLY signin_links
    ADD CONSTRAINT signin_links_pkey PRIMARY KEY (issuer, subject);

ALTER TABLE ONLY signin_tickets
    ADD CONSTRAINT signin_tickets_pkey PRIMARY KEY (kind, hash);

ALTER TABLE ONLY team_runs
    ADD CONSTRAINT team_runs_pkey PRIMARY KEY (tenant_id, team_run_id);

ALTER TABLE ONLY team_tasks
    ADD CONSTRAINT team_tasks_pkey PRIMARY KEY (tenant_id, team_run_id, seq);

ALTER TABLE ONLY tenant_purges
    ADD CONSTRAINT tenant_purges_pkey PRIMARY KEY (subject_id);

ALTER TABLE ONLY tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY tenants
    ADD CONSTRAINT tenants_slug_key UNIQUE (slug);

ALTER TABLE ONLY usage_budgets
    ADD CONSTRAINT usage_budgets_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY usage_counters
    ADD CONSTRAINT usage_counters_by_key_pkey PRIMARY KEY (tenant_id, period, agent_id, model, source, key_id);

ALTER TABLE ONLY usage_durations
    ADD CONSTRAINT usage_durations_pkey PRIMARY KEY (tenant_id, day, agent_id, bucket);

ALTER TABLE ONLY usage_entries
    ADD CONSTRAINT usage_entries_pkey PRIMARY KEY (tenant_id, entry_id);

ALTER TABLE ONLY usage_events
    ADD CONSTRAINT usage_events_pkey PRIMARY KEY (tenant_id, event_id);

ALTER TABLE ONLY usage_locks
    ADD CONSTRAINT usage_locks_pkey PRIMARY KEY (tenant_id, resource);

ALTER TABLE ONLY users
    ADD CONSTRAINT users_pkey PRIMARY KEY (tenant_id, user_id);

ALTER TABLE ONLY visitor_agents
    ADD CONSTRAINT visitor_agents_pkey PRIMARY KEY (tenant_id, agent_id);

ALTER TABLE ONLY visitor_files
    ADD CONSTRAINT visitor_files_pkey PRIMARY KEY (file_id);

ALTER TABLE ONLY visitor_sessions
    ADD CONSTRAINT visitor_sessions_pkey PRIMARY KEY (tenant_id, session_id);

ALTER TABLE ONLY webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (tenant_id, webhook_id, delivery_id);

ALTER TABLE ONLY webhook_events
    ADD CONSTRAINT webhook_events_pkey PRIMARY KEY (tenant_id, event_id);

ALTER TABLE ONLY webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (tenant_id, webhook_id);

ALTER TABLE ONLY work
    ADD CONSTRAINT work_pkey PRIMARY KEY (kind, work_key);

ALTER TABLE ONLY workspace_agents
    ADD CONSTRAINT workspace_agents_pkey PRIMARY KEY (tenant_id, agent_id, relation, workspace_id);

ALTER TABLE ONLY workspace_files
    ADD CONSTRAINT workspace_files_pkey PRIMARY KEY (tenant_id, workspace_id, path);

ALTER TABLE ONLY workspaces
    ADD CONSTRAINT workspaces_pkey PRIMARY KEY (tenant_id, workspace_id);

CREATE UNIQUE INDEX documents_uniq ON documents USING btree (kind, tenant_id, uniq) WHERE (uniq IS NOT NULL);

CREATE INDEX documents_ix1 ON documents USING btree (kind, tenant_id, ix1, id) WHERE (ix1 IS NOT NULL);

CREATE INDEX documents_ix2 ON documents USING btree (kind, tenant_id, ix2, id) WHERE (ix2 IS NOT NULL);

CREATE INDEX documents_ix3 ON documents USING btree (kind, tenant_id, ix3, id) WHERE (ix3 IS NOT NULL);

CREATE INDEX documents_ix4 ON documents USING btree (kind, tenant_id, ix4, id) WHERE (ix4 IS NOT NULL);

CREATE INDEX work_due ON work USING btree (kind, due_at);

CREATE INDEX work_turn ON work USING btree (kind, tenant_id, due_at);

CREATE UNIQUE INDEX tenants_operator ON tenants USING btree (operator) WHERE operator;

CREATE UNIQUE INDEX users_email ON users USING btree (tenant_id, email) WHERE (email <> ''::text);

CREATE INDEX api_keys_user ON api_keys USING btree (tenant_id, user_id, key_id);

CREATE INDEX blob_loose_due ON blob_loose USING btree (due_at);

CREATE INDEX files_mime ON files USING btree (tenant_id, mime_group, file_id);

CREATE UNIQUE INDEX workspaces_owner ON workspaces USING btree (tenant_id, owner_type, owner_id) WHERE (owner_id <> ''::text);

CREATE UNIQUE INDEX run_artifacts_id ON run_artifacts USING btree (tenant_id, artifact_id);

CREATE INDEX passages_changed ON passages USING btree (tenant_id, collection_id, version);

CREATE INDEX passages_weight ON passages USING btree (tenant_id, collection_id, at, boost, passage_id);

CREATE UNIQUE INDEX memory_entries_origin ON memory_entries USING btree (tenant_id, agent_id, origin) WHERE (origin IS NOT NULL);

CREATE INDEX memory_entries_content ON memory_entries USING btree (tenant_id, agent_id, content_hash);

CREATE INDEX memory_entries_entity ON memory_entries USING btree (tenant_id, agent_id, entity_key, entry_id) WHERE (entity_key <> ''::text);

CREATE INDEX mcp_pending_expires ON mcp_pending USING btree (expires_at);

CREATE INDEX schedule_runs_agent ON schedule_runs USING btree (tenant_id, agent_id, run_id);

CREATE UNIQUE INDEX notifications_id ON notifications USING btree (tenant_id, notification_id);

CREATE UNIQUE INDEX notifications_dedup ON notifications USING btree (tenant_id, dedup_key) WHERE (dedup_key <> ''::text);

CREATE UNIQUE INDEX session_runs_run ON session_runs USING btree (tenant_id, run_id);

CREATE INDEX session_runs_next ON session_runs USING btree (tenant_id, session_id, branch_id, turn) WHERE (NOT finished);

CREATE UNIQUE INDEX session_shares_session ON session_shares USING btree (tenant_id, session_id);

CREATE INDEX session_todos_session ON session_todos USING btree (tenant_id, session_id, todo_id);

CREATE INDEX session_todos_due ON session_todos USING btree (tenant_id, finished, sort_key, todo_id);

CREATE INDEX runs_auth ON runs USING btree (tenant_id, auth_server, run_id) WHERE (auth_server IS NOT NULL);

CREATE INDEX approvals_run ON approvals USING btree (tenant_id, run_id, approval_id);

CREATE INDEX approvals_status ON approvals USING btree (tenant_id, status, approval_id);

CREATE INDEX audit_log_action ON audit_log USING btree (tenant_id, action, at, entry_id);

CREATE INDEX audit_log_target ON audit_log USING btree (tenant_id, target_id, at, entry_id) WHERE (target_id <> ''::text);

CREATE INDEX audit_log_user ON audit_log USING btree (tenant_id, actor_user_id, at, entry_id) WHERE (actor_user_id <> ''::text);

CREATE INDEX audit_log_key ON audit_log USING btree (tenant_id, actor_key_id, at, entry_id) WHERE (actor_key_id <> ''::text);

CREATE UNIQUE INDEX usage_events_once ON usage_events USING btree (tenant_id, resource, period, type, cap);

CREATE INDEX sessions_active ON sessions USING btree (tenant_id, expires_at) WHERE (status = 'active'::text);

CREATE INDEX users_person ON users USING btree (email) WHERE (email <> ''::text);

CREATE UNIQUE INDEX invites_id ON invites USING btree (invite_id);

CREATE UNIQUE INDEX invites_pending ON invites USING btree (tenant_id, email) WHERE (status = 'pending'::text);

CREATE INDEX invites_person ON invites USING btree (email) WHERE (status = 'pending'::text);

CREATE INDEX browser_sessions_user ON browser_sessions USING btree (tenant_id, user_id, last_used_at);

CREATE INDEX signin_codes_forget ON signin_addresses USING btree (forget_at);

CREATE INDEX signin_tickets_expires ON signin_tickets USING btree (expires_at);

CREATE UNIQUE INDEX signin_links_person ON signin_links USING btree (email, provider);

CREATE INDEX signin_factors_tenant ON signin_factors USING btree (tenant_id) WHERE (tenant_id <> ''::text);

CREATE INDEX tenants_inactive ON tenants USING btree (tenant_id) WHERE (status <> 'active'::text);

CREATE INDEX runs_ended ON runs USING btree (completed_at, tenant_id, run_id) WHERE (completed_at > 0);

CREATE INDEX search_words_terms ON search_words USING gin (terms) WITH (gin_pending_list_limit='256');

CREATE UNIQUE INDEX search_docs_thing ON search_docs USING btree (tenant_id, kind, thing_id);

CREATE INDEX notification_targets_user ON notification_targets USING btree (tenant_id, user_id, target_id);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries USING btree (tenant_id, webhook_id, due_at, delivery_id) WHERE (status = 'pending'::text);

CREATE INDEX webhook_deliveries_dead ON webhook_deliveries USING btree (delivery_id) WHERE dead;

CREATE UNIQUE INDEX sensors_id ON sensors USING btree (webhook_id);

CREATE INDEX sensors_agent ON sensors USING btree (tenant_id, agent_id);

CREATE INDEX sensor_calls_age ON sensor_calls USING btree (tenant_id, webhook_id, at);

CREATE INDEX signin_attempts_expires ON signin_attempts USING btree (expires_at);

CREATE INDEX notification_mail_since ON notification_mail USING btree (since);

CREATE INDEX model_waits_endpoint ON model_waits USING btree (endpoint, run_id, tenant_id);

CREATE INDEX work_owner ON work USING btree (owner) WHERE (owner <> ''::text);

CREATE INDEX model_waits_tenant ON model_waits USING btree (endpoint, tenant_id, run_id);

CREATE INDEX approvals_agent ON approvals USING btree (tenant_id, agent_id, approval_id);

CREATE INDEX notifications_user ON notifications USING btree (tenant_id, user_id, seq);

CREATE INDEX notifications_unread ON notifications USING btree (tenant_id, user_id, seq) WHERE (read_at = 0);

CREATE INDEX session_todos_when ON session_todos USING btree (tenant_id, due_at, todo_id) WHERE (due_at <> 0);

CREATE INDEX session_todos_agent ON session_todos USING btree (tenant_id, agent_id, finished, sort_key, todo_id);

CREATE INDEX session_todos_status ON session_todos USING btree (tenant_id, status, finished, sort_key, todo_id);

CREATE INDEX workspaces_type ON workspaces USING btree (tenant_id, owner_type);

CREATE INDEX passages_model ON passages USING btree (tenant_id, collection_id, vector_model, passage_id);

CREATE INDEX workspace_agents_of ON workspace_agents USING btree (tenant_id, workspace_id, agent_id, relation);

CREATE INDEX invites_waiting ON invites USING btree (tenant_id, invite_id) WHERE (status = 'pending'::text);

CREATE INDEX webhooks_deleted ON webhooks USING btree (deleted_at) WHERE (deleted_at > 0);

CREATE INDEX session_runs_branch ON session_runs USING btree (tenant_id, session_id, branch_id, turn);

CREATE INDEX session_runs_summarized ON session_runs USING btree (tenant_id, session_id, branch_id, turn) WHERE summarized;

CREATE INDEX runs_created ON runs USING btree (tenant_id, created_at, run_id);

CREATE INDEX runs_agent ON runs USING btree (tenant_id, agent_id, created_at, run_id);

CREATE INDEX runs_session ON runs USING btree (tenant_id, session_id, created_at, run_id) WHERE (session_id IS NOT NULL);

CREATE INDEX runs_status ON runs USING btree (tenant_id, status, created_at, run_id);

CREATE INDEX runs_agent_status ON runs USING btree (tenant_id, agent_id, status, created_at, run_id);

CREATE INDEX runs_started_by ON runs USING btree (tenant_id, started_by, created_at, run_id);

CREATE INDEX runs_root ON runs USING btree (tenant_id, root_run_id, created_at, run_id) WHERE (root_run_id IS NOT NULL);

CREATE INDEX runs_error ON runs USING btree (tenant_id, error_code, created_at, run_id) WHERE (error_code <> ''::text);

CREATE INDEX sessions_created ON sessions USING btree (tenant_id, created_at, session_id);

CREATE INDEX sessions_agent ON sessions USING btree (tenant_id, agent_id, created_at, session_id);

CREATE INDEX sessions_status ON sessions USING btree (tenant_id, status, created_at, session_id);

CREATE INDEX run_labels_run ON run_labels USING btree (tenant_id, run_id);

CREATE INDEX session_labels_session ON session_labels USING btree (tenant_id, session_id);

CREATE UNIQUE INDEX browser_sessions_key ON browser_sessions USING btree (key_prefix) WHERE (key_prefix <> ''::text);

CREATE INDEX ledger_category ON ledger USING btree (tenant_id, category, seq);

CREATE INDEX ledger_kind ON ledger USING btree (tenant_id, kind, seq);

CREATE INDEX ledger_subject ON ledger USING btree (tenant_id, subject_agent_id, seq) WHERE (subject_agent_id <> ''::text);

CREATE INDEX ledger_subject_category ON ledger USING btree (tenant_id, subject_agent_id, category, seq) WHERE (subject_agent_id <> ''::text);

CREATE INDEX team_runs_team ON team_runs USING btree (tenant_id, team_id, team_run_id);

CREATE INDEX team_runs_thread ON team_runs USING btree (tenant_id, team_id, thread_id, team_run_id);

CREATE INDEX team_runs_open ON team_runs USING btree (tenant_id, team_id, completed_at, team_run_id);

CREATE INDEX team_runs_unfinished ON team_runs USING btree (tenant_id, completed_at);

CREATE INDEX a2a_tasks_context ON a2a_tasks USING btree (tenant_id, context_id, task_id);

CREATE INDEX a2a_published_tenant ON a2a_published USING btree (tenant_id);

CREATE UNIQUE INDEX objectives_id ON objectives USING btree (tenant_id, owner_id, objective_id);

CREATE INDEX objective_tasks_open ON objective_tasks USING btree (tenant_id, owner_id, applied, seq);

CREATE INDEX missions_session ON missions USING btree (tenant_id, session_id, mission_id);

CREATE INDEX bridge_machines_agent ON bridge_machines USING btree (tenant_id, agent_id);

CREATE INDEX bridge_tasks_agent ON bridge_tasks USING btree (tenant_id, agent_id, task_id);

CREATE INDEX evaluations_agent ON evaluations USING btree (tenant_id, agent_id, eval_run_id);

CREATE INDEX evaluations_dataset ON evaluations USING btree (tenant_id, dataset_id, eval_run_id);

CREATE INDEX evaluations_experiment ON evaluations USING btree (tenant_id, experiment_id, eval_run_id);

CREATE INDEX evaluations_open ON evaluations USING btree (tenant_id, completed_at);

CREATE INDEX evaluation_results_ended ON evaluation_results USING btree (tenant_id, eval_run_id, ended, seq);

CREATE UNIQUE INDEX marketplace_listings_id ON marketplace_listings USING btree (listing_id);

CREATE INDEX marketplace_listings_agent ON marketplace_listings USING btree (tenant_id, agent_id);

CREATE INDEX marketplace_listings_published ON marketplace_listings USING btree (tenant_id, published_at);

CREATE INDEX marketplace_published_tenant ON marketplace_published USING btree (tenant_id);

CREATE INDEX marketplace_published_recency ON marketplace_published USING btree (shelf, published_at, listing_id);

CREATE INDEX marketplace_published_rating ON marketplace_published USING btree (shelf, rating, listing_id);

CREATE INDEX marketplace_published_popularity ON marketplace_published USING btree (shelf, popularity, listing_id);

CREATE INDEX marketplace_words_listing ON marketplace_words USING btree (listing_id);

CREATE INDEX marketplace_words_tenant ON marketplace_words USING btree (tenant_id);

CREATE INDEX marketplace_ratings_listing ON marketplace_ratings USING btree (listing_id, rating_id);

CREATE INDEX marketplace_invocations_owner ON marketplace_invocations USING btree (owner_id, invocation_id);

CREATE INDEX marketplace_invocations_created ON marketplace_invocations USING btree (tenant_id, created_at);

CREATE UNIQUE INDEX visitor_sessions_token ON visitor_sessions USING btree (token_hash);

CREATE INDEX visitor_sessions_seen ON visitor_sessions USING btree (tenant_id, agent_id, seen_at);

CREATE INDEX visitor_sessions_created ON visitor_sessions USING btree (tenant_id, agent_id, created_at);

CREATE INDEX visitor_files_session ON visitor_files USING btree (tenant_id, session_id);

CREATE INDEX tenants_published ON tenants USING btree (status, published_at) WHERE (published_at > 0);

CREATE INDEX billing_accounts_customer ON billing_accounts USING btree (customer_id);

CREATE INDEX billing_events_received ON billing_events USING btree (received_at);

CREATE INDEX run_feedback_user ON run_feedback USING btree (tenant_id, user_id, run_id, message_id);

CREATE INDEX passages_source ON passages USING btree (tenant_id, collection_id, source_id, "position") WHERE (source_id <> ''::text);

CREATE INDEX team_runs_user ON team_runs USING btree (tenant_id, user_id, team_run_id) WHERE (user_id <> ''::text);

CREATE INDEX missions_user ON missions USING btree (tenant_id, user_id, mission_id) WHERE (user_id <> ''::text);

CREATE INDEX invites_email ON invites USING btree (tenant_id, email, invite_id);

CREATE INDEX tenants_held ON tenants USING btree (tenant_id) WHERE legal_hold;

CREATE INDEX feed_entries_company ON feed_entries USING btree (tenant_id, company_id, at, feed_id) WHERE (company_id <> ''::text);

CREATE INDEX feed_entries_team ON feed_entries USING btree (tenant_id, team_id, at, feed_id) WHERE (team_id <> ''::text);

CREATE INDEX runs_completed ON runs USING btree (tenant_id, completed_at, run_id) WHERE (completed_at > 0);

CREATE UNIQUE INDEX sessions_client ON sessions USING btree (tenant_id, agent_id, external_id) WHERE (external_id <> ''::text);

CREATE INDEX sessions_external ON sessions USING btree (tenant_id, external_id, created_at, session_id) WHERE (external_id <> ''::text);

CREATE INDEX audit_log_arrivals ON audit_log USING btree (action, at, entry_id) WHERE (action = ANY (ARRAY['auth.signed_in'::text, 'tenant.created'::text]));

CREATE INDEX memory_entries_superseded ON memory_entries USING btree (tenant_id, agent_id, superseded_by) WHERE (superseded_by <> ''::text);

CREATE INDEX a2a_errands_team_run ON a2a_errands USING btree (tenant_id, team_run_id);

CREATE INDEX tenants_redact ON tenants USING btree (tenant_id) WHERE (redact <> ''::text);

CREATE TRIGGER audit_log_fixed BEFORE DELETE OR UPDATE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_refuse();

ALTER TABLE ONLY api_keys
    ADD CONSTRAINT api_keys_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES users(tenant_id, user_id);

ALTER TABLE ONLY browser_sessions
    ADD CONSTRAINT browser_sessions_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES users(tenant_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY invites
    ADD CONSTRAINT invites_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);

ALTER TABLE ONLY search_words
    ADD CONSTRAINT search_words_doc_id_fkey FOREIGN KEY (doc_id) REFERENCES search_docs(doc_id) ON DELETE CASCADE;

ALTER TABLE ONLY users
    ADD CONSTRAINT users_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
