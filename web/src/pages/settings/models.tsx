import { useState } from 'react';
import { curlOf, may, rowsOf, send, useGet, useMe, type Schema } from '../../api';
import { toast } from '../../bus';
import { count, usd } from '../../format';
import { en } from '../../strings/en';
import { Block, Button, Dialog, Field, FormError, Head, Status, useAction } from '../../ui';

const s = en.settings;

/** Providers of models, and the company's own keys for them. */
export function Models() {
  const me = useMe();
  const writes = may(me.data, 'admin');
  const q = useGet<unknown>('/api/v1/llm-credentials/providers', {}, { retry: false });
  const models = useGet<Schema<'LlmModels'>>('/api/v1/llm/models', {}, { retry: false });
  const [setting, setSetting] = useState('');
  return (
    <>
      <Head title={s.models} curl={curlOf('GET', '/api/v1/llm/models')} />
      <section className="sec" style={{ borderTop: 0 }}>
        <h2>{s.available}</h2>
        <Block q={models}>
          {(m) => (
            <div className="tblw"><table className="tbl flush compact">
              <thead>
                <tr>
                  <th>{s.model}</th>
                  <th>{s.provider}</th>
                  <th className="r">{s.context}</th>
                  <th className="r">{s.priceIn}</th>
                  <th className="r">{s.priceOut}</th>
                </tr>
              </thead>
              <tbody>
                {m.models.map((x) => (
                  <tr key={x.id}>
                    <td className="mono b">{x.id}{x.id === m.default_model && <span className="tag" style={{ marginLeft: 8 }}>{s.default}</span>}</td>
                    <td className="t2">{x.provider}</td>
                    <td className="r num t2">{x.max_context_tokens ? count(x.max_context_tokens) : ''}</td>
                    <td className="r num t2">{x.pricing.known ? usd(x.pricing.input_usd_per_mtok) : ''}</td>
                    <td className="r num t2">{x.pricing.known ? usd(x.pricing.output_usd_per_mtok) : ''}</td>
                  </tr>
                ))}
              </tbody>
            </table></div>
          )}
        </Block>
      </section>
      <section className="sec">
        <h2 style={{ marginBottom: 4 }}>{s.ownKeys}</h2>
        <p className="t2 fs12" style={{ marginBottom: 8 }}>{s.ownKeysText}</p>
        <Block q={q}>
          {(d) => (
            <ul className="tl">
              {rowsOf<Schema<'LlmCredentialProvider'>>(d).map((p) => (
                <li key={p.id}>
                  <b className="b">{p.name}</b>
                  <span className="t2 mono grow trunc">{p.default_endpoint}</span>
                  {p.configured ? <Status of="active" label={s.stored} /> : <span className="t3">{s.none}</span>}
                  {writes && <Button small label={p.configured ? s.replace : s.addKey} onClick={() => setSetting(p.id)} />}
                  {writes && p.configured && <Button small kind="quiet" icon="trash" label={en.common.delete} onClick={() => void send('delete', '/api/v1/llm-credentials/{provider}', { path: { provider: p.id } }).then(() => toast(s.keyRemoved), (e: Error) => toast(e.message, true))} />}
                </li>
              ))}
            </ul>
          )}
        </Block>
      </section>
      {setting && <SetModelKey provider={setting} onClose={() => setSetting('')} />}
    </>
  );
}

function SetModelKey({ provider, onClose }: { provider: string; onClose: () => void }) {
  const [key, setKey] = useState('');
  const [busy, error, run] = useAction(async () => {
    await send('put', '/api/v1/llm-credentials/{provider}', { path: { provider } }, { api_key: key });
    toast(s.keyStored);
    onClose();
  });
  return (
    <Dialog
      title={s.keyOf(provider)}
      onClose={onClose}
      footer={
        <>
          <span className="grow" />
          <Button kind="quiet" label={en.common.cancel} onClick={onClose} />
          <Button kind="primary" type="submit" form="mk" label={en.common.save} busy={busy} disabled={!key} />
        </>
      }
    >
      <form
        id="mk"
        onSubmit={(e) => {
          e.preventDefault();
          void run();
        }}
      >
        <Field label={s.apiKey} help={s.sealed}>
          {(p) => <input {...p} className="in" type="password" autoComplete="off" value={key} onChange={(e) => setKey(e.target.value)} />}
        </Field>
        <FormError error={error} />
      </form>
    </Dialog>
  );
}

