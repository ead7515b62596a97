/** The longest common lines stay; the others go or come. */
export function lineDiff(a: string[], b: string[]): { kind: ' ' | '+' | '-'; text: string }[] {
  if (a.length * b.length > 250_000) return [...a.map((text) => ({ kind: '-' as const, text })), ...b.map((text) => ({ kind: '+' as const, text }))];
  const t = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) t[i]![j] = a[i] === b[j] ? t[i + 1]![j + 1]! + 1 : Math.max(t[i + 1]![j]!, t[i]![j + 1]!);
  const out: { kind: ' ' | '+' | '-'; text: string }[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) out.push({ kind: ' ', text: a[i++]! }), j++;
    else if (i < a.length && (j >= b.length || t[i + 1]![j]! >= t[i]![j + 1]!)) out.push({ kind: '-', text: a[i++]! });
    else out.push({ kind: '+', text: b[j++]! });
  }
  return out.filter((l) => l.text !== '' || l.kind === ' ');
}
