/** One wrong field of a body or a query. */
export interface FieldProblem {
  field: string;
  message: string;
  pointer?: string;
  code?: string;
  params?: Record<string, unknown>;
}

/** A problem document, as every refusal of the API has one. */
export interface Problem {
  status: number;
  code: string;
  title: string;
  detail: string;
  correlation_id?: string;
  errors?: FieldProblem[];
  [extra: string]: unknown;
}

/** Everything that this client throws. */
export class AgentdError extends Error {
  override name = 'AgentdError';
}

/** The server could not be reached, or its answer broke off. */
export class ConnectionError extends AgentdError {
  override name = 'ConnectionError';
}

/** A stream ended before what it follows did, and could not be resumed. */
export class StreamError extends AgentdError {
  override name = 'StreamError';
}

/** The server refused a request. Branch on `code`, which is stable; `message` is for people. */
export class ApiError extends AgentdError {
  override name = 'ApiError';
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly fields: FieldProblem[];
  readonly requestId: string;
  readonly problem: Problem;
  /** Seconds after which the same request may be accepted; undefined: the server did not say. */
  readonly retryAfter: number | undefined;

  constructor(problem: Problem, response?: Response) {
    super(problem.detail || problem.title || `HTTP ${problem.status}`);
    this.status = problem.status;
    this.code = problem.code;
    this.title = problem.title;
    this.fields = problem.errors ?? [];
    this.requestId = problem.correlation_id ?? response?.headers.get('x-request-id') ?? '';
    this.problem = problem;
    this.retryAfter = secondsOf(response?.headers.get('retry-after'));
  }
}

/** 401: there is no valid credential, or its second factor is missing (`code` mfa_required). */
export class AuthenticationError extends ApiError {
  override name = 'AuthenticationError';
}
/** 402: a budget or a quota is used up. */
export class BudgetError extends ApiError {
  override name = 'BudgetError';
}
/** 403: the role or the scopes of the credential do not allow it. */
export class PermissionError extends ApiError {
  override name = 'PermissionError';
}
/** 404: it does not exist in this company. */
export class NotFoundError extends ApiError {
  override name = 'NotFoundError';
}
/** 409: the state of the thing does not allow it. */
export class ConflictError extends ApiError {
  override name = 'ConflictError';
}
/** 409 TENANT_SWITCHED: the credential belongs to another company now. */
export class TenantSwitchedError extends ConflictError {
  override name = 'TenantSwitchedError';
}
/** 412: somebody changed it meanwhile. */
export class ChangedError extends ApiError {
  override name = 'ChangedError';
}
/** 400 and 422: the request is wrong; `fields` lists what is. */
export class ValidationError extends ApiError {
  override name = 'ValidationError';
}
/** 429: too many requests; see `retryAfter`. */
export class RateLimitError extends ApiError {
  override name = 'RateLimitError';
}
/** 5xx: the server failed or is not available. */
export class ServerError extends ApiError {
  override name = 'ServerError';
}

/** Returns the error of a refusal. */
export async function errorOf(response: Response): Promise<ApiError> {
  let body: unknown;
  try {
    body = JSON.parse(await response.text());
  } catch {
    body = undefined; // a proxy answered
  }
  return errorOfBody(body, response);
}

export function errorOfBody(body: unknown, response: Response): ApiError {
  const given = body && typeof body === 'object' ? (body as Record<string, unknown>) : {};
  const inner = given['error'] && typeof given['error'] === 'object' ? (given['error'] as Record<string, unknown>) : {};
  const text = (v: unknown) => (typeof v === 'string' ? v : '');
  const problem: Problem = {
    ...given,
    status: response.status,
    code: text(given['code']) || text(inner['code']) || `HTTP_${response.status}`,
    title: text(given['title']) || response.statusText,
    detail: text(given['detail']) || text(inner['message']),
  };
  return new (classOf(response.status, problem.code))(problem, response);
}

function classOf(status: number, code: string): typeof ApiError {
  switch (status) {
    case 400:
    case 422:
      return ValidationError;
    case 401:
      return AuthenticationError;
    case 402:
      return BudgetError;
    case 403:
      return PermissionError;
    case 404:
      return NotFoundError;
    case 409:
      return code === 'TENANT_SWITCHED' ? TenantSwitchedError : ConflictError;
    case 412:
      return ChangedError;
    case 429:
      return RateLimitError;
  }
  return status >= 500 ? ServerError : ApiError;
}

/** Reads a Retry-After: seconds or a date. */
export function secondsOf(header: string | null | undefined): number | undefined {
  if (!header) return undefined;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, (at - Date.now()) / 1000);
}
