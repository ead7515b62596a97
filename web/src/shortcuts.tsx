import { useState } from 'react';
import { setSingleKeys, singleKeys, useAllCommands } from './commands';
import { en } from './strings/en';
import { Dialog, Kbd } from './ui';

const s = en.shell;

/** Every key that works on this page, from the registry. */
export function Shortcuts({ onClose }: { onClose: () => void }) {
  const [on, setOn] = useState(singleKeys);
  const seen = new Set<string>();
  const all = useAllCommands().filter((c) => c.keys && !seen.has(c.keys) && seen.add(c.keys));
  const groups = [...new Set(all.map((c) => c.group ?? en.palette.here))];
  return (
    <Dialog title={s.shortcuts} onClose={onClose} wide>
      <div className="keys">
        {groups.map((g) => (
          <section key={g}>
            <h3 className="lbl">{g}</h3>
            <ul>
              {all
                .filter((c) => (c.group ?? en.palette.here) === g)
                .map((c) => (
                  <li key={c.id} className="row">
                    <span className="grow t2">{c.title}</span>
                    <Kbd keys={c.keys!} />
                  </li>
                ))}
            </ul>
          </section>
        ))}
      </div>
      <label className="row" style={{ marginTop: 14 }}>
        <input
          type="checkbox"
          checked={on}
          onChange={(e) => {
            setSingleKeys(e.target.checked);
            setOn(e.target.checked);
          }}
        />
        {s.singleKeys}
      </label>
    </Dialog>
  );
}
