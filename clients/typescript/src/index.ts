export { Agentd, type AgentdOptions, type Answer, type Options, type PathsWith, type Schema } from './client.js';
export * from './errors.js';
export { type RetryOptions } from './retry.js';
export { FrameReader, follow, type Frame, type StreamEvent, type StreamOptions } from './stream.js';
export type { components, operations, paths } from './schema.js';
