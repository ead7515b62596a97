import { useQuery } from '@tanstack/react-query';
import { prefix } from './api';

/** The part of JSON Schema that the OpenAPI document uses. */
export interface JsonSchema {
  $ref?: string;
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: (string | number | null)[];
  default?: unknown;
  examples?: unknown[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  oneOf?: JsonSchema[];
  anyOf?: JsonSchema[];
  format?: string;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  maxItems?: number;
  deprecated?: boolean;
  readOnly?: boolean;
  'x-group'?: string;
  'x-order'?: string[];
  'x-advanced'?: boolean;
  'x-ref'?: string;
}

export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: JsonSchema;
}

export interface Operation {
  operationId: string;
  summary?: string;
  description?: string;
  tags?: string[];
  deprecated?: boolean;
  security?: Record<string, string[]>[];
  parameters?: (Parameter & { $ref?: string })[];
  requestBody?: { required?: boolean; content: Record<string, { schema?: JsonSchema; example?: unknown; examples?: Record<string, { value: unknown }> }> };
  responses: Record<string, { description?: string; content?: Record<string, { schema?: JsonSchema; example?: unknown; examples?: Record<string, { value: unknown }> }> }>;
}

export interface OpenApi {
  info: { title: string; version: string; description?: string };
  tags?: { name: string; description?: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, JsonSchema>; parameters?: Record<string, Parameter> };
}

/** The OpenAPI document of this server: forms and the reference are drawn from it. */
export function useDocument(enabled = true) {
  return useQuery({
    queryKey: ['openapi'],
    enabled,
    staleTime: Infinity,
    gcTime: Infinity,
    queryFn: async () => {
      const response = await fetch(`${prefix}/api/v1/openapi.json`);
      if (!response.ok) throw new Error(`HTTP ${response.status}`);
      return (await response.json()) as OpenApi;
    },
  });
}

/** Follows references, and takes the part that is not null. */
export function resolve(doc: OpenApi, schema: JsonSchema | undefined): JsonSchema {
  let s = schema ?? {};
  for (let i = 0; i < 10; i++) {
    const options = s.oneOf ?? s.anyOf;
    if (s.$ref) s = { ...doc.components.schemas[s.$ref.split('/').pop()!], ...without(s, '$ref') };
    else if (options) {
      const real = options.filter((o) => o.type !== 'null');
      if (real.length !== 1) return s;
      s = { ...resolve(doc, real[0]), ...without(without(s, 'oneOf'), 'anyOf') };
    } else return s;
  }
  return s;
}

function without(s: JsonSchema, key: keyof JsonSchema): JsonSchema {
  const rest = { ...s };
  delete rest[key];
  return rest;
}

export function typeOf(s: JsonSchema): string {
  const types = Array.isArray(s.type) ? s.type.filter((t) => t !== 'null') : s.type ? [s.type] : [];
  return types.length === 1 ? types[0]! : s.properties ? 'object' : 'any';
}

/** The schema of the body of an operation. */
export function bodyOf(doc: OpenApi, path: string, method: string): JsonSchema {
  const content = doc.paths[path]?.[method]?.requestBody?.content;
  return resolve(doc, content?.['application/json']?.schema);
}

/** Reports whether a field only keeps what it is told, or is the server's to set. */
export function idle(s: JsonSchema): boolean {
  return /has no effect yet\.$/.test(s.description ?? '') || s.deprecated === true || s.readOnly === true;
}
