import { useId, useState } from 'react';
import { idle, resolve, typeOf, type JsonSchema, type OpenApi } from './document';
import { Icon } from './icons';
import { en } from './strings/en';
import { Button, Field, IconButton, Select, fieldError, sentence } from './ui';

const s = en.form;

export type Value = Record<string, unknown>;
/** What fields that refer to something can be, by x-ref. */
export type Refs = Record<string, { value: string; label: string; note?: string }[]>;

interface FormProps {
  doc: OpenApi;
  schema: JsonSchema;
  value: Value;
  onChange: (v: Value) => void;
  error?: unknown;
  refs?: Refs;
  /** Fields that are drawn elsewhere. */
  skip?: string[];
  /** Only these fields. */
  only?: string[];
  path?: string;
  depth?: number;
  /** It is a part that may be left out, and is so far: what it would need is not asked for. */
  leftOut?: boolean;
}

/** Fields of an object, in the order of the document. What has no effect yet is left out; what
 * few need is folded. */
export function SchemaFields(props: FormProps) {
  const { doc, schema, value, skip = [], only, path = '', depth = 0 } = props;
  const names = orderOf(schema).filter((n) => !skip.includes(n) && (!only || only.includes(n)));
  const fields = names.map((name) => ({ name, s: resolve(doc, schema.properties![name]), required: (schema.required?.includes(name) ?? false) && !props.leftOut }));
  const shown = fields.filter((f) => !idle(f.s));
  const basic = shown.filter((f) => !f.s['x-advanced']);
  const advanced = shown.filter((f) => f.s['x-advanced']);
  const draw = (f: (typeof fields)[number]) => (
    <SchemaField
      key={f.name}
      {...props}
      schema={f.s}
      name={f.name}
      path={path ? `${path}.${f.name}` : f.name}
      required={f.required}
      depth={depth}
      current={value[f.name]}
      set={(v) => {
        const next = { ...value };
        if (v === undefined) delete next[f.name];
        else next[f.name] = v;
        props.onChange(next);
      }}
    />
  );
  return (
    <>
      {basic.map(draw)}
      {advanced.length > 0 && (
        <details className="adv">
          <summary>{s.advanced(advanced.length)}</summary>
          {advanced.map(draw)}
        </details>
      )}
    </>
  );
}

export function orderOf(schema: JsonSchema): string[] {
  const all = Object.keys(schema.properties ?? {});
  const order = schema['x-order'] ?? [];
  return [...order.filter((n) => all.includes(n)), ...all.filter((n) => !order.includes(n))];
}

interface FieldProps extends Omit<FormProps, 'value' | 'onChange' | 'path'> {
  name: string;
  path: string;
  required: boolean;
  current: unknown;
  set: (v: unknown) => void;
}

const long = /^(system|developer|content|description|instructions|prompt|message|principle|text|body|summary|goal|objective)$/;

export function SchemaField({ doc, schema, name, path, required, current, set, error, refs, depth = 0 }: FieldProps) {
  const type = typeOf(schema);
  const label = schema.title ?? sentence(name);
  const help = <>{schema.description}</>;
  const wrong = fieldError(error, path);
  const options = (schema['x-ref'] && refs?.[schema['x-ref']]) || refs?.[name];
  const common = { label, help, error: wrong, optional: !required };
  if (schema.enum) {
    const values = schema.enum.filter((v) => v !== null).map(String);
    return (
      <Field {...common}>
        {(p) => <Select {...p} value={current === undefined || current === null ? '' : String(current)} onChange={(v) => set(v === '' ? undefined : v)} options={[['', schema.default !== undefined ? s.default(String(schema.default)) : s.notSet], ...values.map((v) => [v, sentence(v)] as const)]} />}
      </Field>
    );
  }
  switch (type) {
    case 'boolean':
      return (
        <div className="fl">
          <label className="check">
            <input type="checkbox" checked={current === true || (current === undefined && schema.default === true)} onChange={(e) => set(e.target.checked)} />
            <span className="b">{label}</span>
          </label>
          {schema.description && <span className="h">{schema.description}</span>}
        </div>
      );
    case 'integer':
    case 'number':
      return (
        <Field {...common}>
          {(p) => <input {...p} className="in num" type="number" step={type === 'integer' ? 1 : 'any'} min={schema.minimum} max={schema.maximum} value={current === undefined || current === null ? '' : String(current)} placeholder={schema.default !== undefined ? String(schema.default) : ''} onChange={(e) => set(e.target.value === '' ? undefined : Number(e.target.value))} />}
        </Field>
      );
    case 'string':
      if (options) return <Field {...common}>{(p) => <Select {...p} value={(current as string) ?? ''} onChange={(v) => set(v || undefined)} options={[['', s.notSet], ...options.map((o) => [o.value, o.label] as const)]} />}</Field>;
      if (long.test(name) || (schema.maxLength ?? 0) > 2000) return <Field {...common}>{(p) => <textarea {...p} className={`in ${/system|developer|prompt/.test(name) ? 'mono' : ''}`} rows={/system|content/.test(name) ? 8 : 3} value={(current as string) ?? ''} onChange={(e) => set(e.target.value || undefined)} />}</Field>;
      return <Field {...common}>{(p) => <input {...p} className="in" type={schema.format === 'password' ? 'password' : schema.format === 'email' ? 'email' : schema.format === 'uri' ? 'url' : 'text'} required={required} maxLength={schema.maxLength} value={(current as string) ?? ''} placeholder={schema.default !== undefined ? String(schema.default) : ''} onChange={(e) => set(e.target.value || undefined)} autoComplete={schema.format === 'password' ? 'new-password' : 'off'} />}</Field>;
    case 'array':
      if (typeOf(resolve(doc, schema.items)) === 'string') {
        const item = resolve(doc, schema.items);
        const known = options ?? item.enum?.map((v) => ({ value: String(v), label: String(v) })) ?? (item['x-ref'] ? refs?.[item['x-ref']] : undefined);
        return <Field {...common}>{(p) => <Chips id={p.id} label={label} value={Array.isArray(current) ? (current as string[]) : []} onChange={(v) => set(v)} options={known} />}</Field>;
      }
      if (resolve(doc, schema.items).properties && depth < 3) return <Items doc={doc} schema={resolve(doc, schema.items)} path={path} label={label} help={schema.description} required={required} current={current} set={set} error={error} refs={refs} depth={depth} />;
      return <JsonField {...common} value={current} set={set} />;
    case 'object':
      if (schema.properties && depth < 3) {
        const given = (current as Value | null | undefined) ?? {};
        return (
          <details className="adv" open={Object.keys(given).length > 0 || depth === 0}>
            <summary>{label}</summary>
            {schema.description && <p className="t2 fs12" style={{ marginBottom: 10 }}>{schema.description}</p>}
            <fieldset>
              <legend className="vh">{label}</legend>
              <SchemaFields doc={doc} schema={schema} value={given} onChange={(v) => set(Object.keys(v).length === 0 && !required ? undefined : v)} error={error} refs={refs} path={path} depth={depth + 1} leftOut={!required && Object.keys(given).length === 0} />
            </fieldset>
          </details>
        );
      }
  }
  return <JsonField {...common} value={current} set={set} />;
}

/** Several objects, each with its fields. */
function Items({ doc, schema, path, label, help, required, current, set, error, refs, depth = 0 }: Omit<FieldProps, 'name'> & { label: string; help?: string }) {
  const rows = Array.isArray(current) ? (current as Value[]) : [];
  const change = (next: Value[]) => set(next.length === 0 && !required ? undefined : next);
  return (
    <fieldset className="fl items">
      <legend>
        {label} {!required && <span className="t3">{en.common.optional}</span>}
      </legend>
      {help && <span className="h">{help}</span>}
      {rows.map((row, i) => (
        <fieldset key={i} className="card pad">
          <legend className="b">{s.item(label, i + 1)}</legend>
          <IconButton small icon="x" label={s.remove(s.item(label, i + 1))} onClick={() => change(rows.filter((_, j) => j !== i))} />
          <SchemaFields doc={doc} schema={schema} value={row ?? {}} onChange={(v) => change(rows.map((r, j) => (j === i ? v : r)))} error={error} refs={refs} path={`${path}[${i}]`} depth={depth + 1} />
        </fieldset>
      ))}
      <div>
        <Button small icon="plus" label={s.addItem(label)} onClick={() => change([...rows, {}])} />
      </div>
    </fieldset>
  );
}

/** Several texts as chips, out of a list if there is one. */
export function Chips({ id, label, value, onChange, options }: { id?: string; label: string; value: string[]; onChange: (v: string[]) => void; options?: { value: string; label: string; note?: string }[] }) {
  const [text, setText] = useState('');
  const list = useId();
  const add = (t: string) => {
    const clean = t.trim();
    if (clean && !value.includes(clean)) onChange([...value, clean]);
    setText('');
  };
  const labels = new Map(options?.map((o) => [o.value, o.label]));
  return (
    <div className="col" style={{ gap: 6 }}>
      {value.length > 0 && (
        <div className="pick">
          {value.map((v) => (
            <span className="chip" key={v}>
              <span className="mono">{labels.get(v) ?? v}</span>
              <button type="button" aria-label={s.remove(labels.get(v) ?? v)} onClick={() => onChange(value.filter((x) => x !== v))}>
                <Icon name="x" small />
              </button>
            </span>
          ))}
        </div>
      )}
      <div className="row">
        <input
          id={id}
          className="in"
          list={options ? list : undefined}
          value={text}
          placeholder={options ? s.choose : s.add}
          onChange={(e) => {
            const v = e.target.value;
            if (options?.some((o) => o.value === v)) add(v);
            else setText(v);
          }}
          onKeyDown={(e) => e.key === 'Enter' && (e.preventDefault(), add(text))}
          onBlur={() => !options && add(text)}
        />
        {!options && text && <IconButton icon="plus" label={s.addTo(label)} onClick={() => add(text)} />}
      </div>
      {options && (
        <datalist id={list}>
          {options
            .filter((o) => !value.includes(o.value))
            .map((o) => (
              <option key={o.value} value={o.value}>
                {o.label === o.value ? (o.note ?? '') : o.label}
              </option>
            ))}
        </datalist>
      )}
    </div>
  );
}

export function JsonField({ label, help, error, optional, value, set }: { label: string; help?: React.ReactNode; error?: string; optional?: boolean; value: unknown; set: (v: unknown) => void }) {
  const [text, setText] = useState(() => (value === undefined || value === null ? '' : JSON.stringify(value, null, 2)));
  const [bad, setBad] = useState('');
  return (
    <Field label={label} help={help} error={bad || error} optional={optional}>
      {(p) => (
        <textarea
          {...p}
          className="in mono"
          rows={Math.max(2, Math.min(12, text.split('\n').length))}
          value={text}
          placeholder="JSON"
          spellCheck={false}
          onChange={(e) => {
            setText(e.target.value);
            try {
              set(e.target.value.trim() === '' ? undefined : JSON.parse(e.target.value));
              setBad('');
            } catch (cause) {
              setBad((cause as Error).message);
            }
          }}
        />
      )}
    </Field>
  );
}
