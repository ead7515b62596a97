(() => {
  const host = globalThis.__host;
  delete globalThis.__host;
  const show = (v) => {
    if (typeof v === "string") return v;
    if (v instanceof Error) return v.stack ? String(v) + "\n" + v.stack : String(v);
    try {
      const s = JSON.stringify(v, (k, x) => (typeof x === "bigint" ? String(x) : x instanceof Map ? [...x] : x instanceof Set ? [...x] : x), 2);
      return s === undefined ? String(v) : s;
    } catch (e) {
      return String(v);
    }
  };
  const call = (op, a, b) => {
    const r = host(op, a === undefined ? "" : String(a), b === undefined ? "" : String(b));
    if (r[0] !== "+") throw new Error(r.slice(1));
    return r.slice(1);
  };
  const log = (...all) => { host("print", all.map(show).join(" "), ""); };
  globalThis.console = { log, info: log, warn: log, error: log, debug: log };
  globalThis.readFile = (path) => call("read", path);
  globalThis.writeFile = (path, text) => { call("write", path, text); };
  globalThis.listFiles = () => JSON.parse(call("list"));
  const finish = (v) => { host("result", v === undefined ? "" : show(v), ""); };
  const fail = (e) => { host("error", show(e), ""); };
  const code = call("code");
  try {
    const v = (0, eval)(code);
    if (v !== null && typeof v === "object" && typeof v.then === "function") v.then(finish, fail);
    else finish(v);
  } catch (e) {
    fail(e);
  }
})();
