/** What any part of the console may tell the shell. */
interface Events {
  online: boolean;
  signedOut: unknown;
  switched: unknown;
  toast: { text: string; bad?: boolean };
}
type Listener<K extends keyof Events> = (value: Events[K]) => void;

const listeners: { [K in keyof Events]?: Set<Listener<K>> } = {};

export function emit<K extends keyof Events>(name: K, value: Events[K]): void {
  for (const l of (listeners[name] as Set<Listener<K>> | undefined) ?? []) l(value);
}

export function on<K extends keyof Events>(name: K, listener: Listener<K>): () => void {
  const set = ((listeners[name] as Set<Listener<K>> | undefined) ??= new Set<Listener<K>>() as never) as Set<Listener<K>>;
  set.add(listener);
  return () => void set.delete(listener);
}

export function toast(text: string, bad = false): void {
  emit('toast', { text, bad });
}
