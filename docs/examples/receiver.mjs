// Takes the webhook deliveries of agentd: verifies who sent them, takes each
// event once, and answers before it works on it. Node 18 or newer, nothing else.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secret = process.env.WEBHOOK_SECRET; // whsec_…, from the answer that made the subscription
const windowMs = 300_000; // how far a signature's time may be from ours
const maxBody = 1024 * 1024 + 64 * 1024; // an event has at most 1 MiB
if (!secret) throw new Error("set WEBHOOK_SECRET");

// X-SVC-Signature-V2 is "t=<milliseconds>,v1=sha256=<hex>": the HMAC-SHA256 of
// "<milliseconds>.<body>", keyed with the secret as it was shown, whsec_ included.
function verify(header, body) {
  const [, stamp, signature] = /^t=(\d+),v1=sha256=([0-9a-f]{64})$/.exec(header ?? "") ?? [];
  if (!stamp) return "there is no signature";
  if (Math.abs(Date.now() - Number(stamp)) > windowMs) return "the signature is too old, or of the future";
  const expected = createHmac("sha256", secret).update(`${stamp}.`).update(body).digest();
  return timingSafeEqual(Buffer.from(signature, "hex"), expected) ? "" : "the signature is wrong";
}

const seen = new Map(); // keep it in your database, if you have several processes

function first(id) {
  const now = Date.now();
  for (const [known, at] of seen) {
    if (now - at < 24 * 3600_000) break; // the oldest stand first
    seen.delete(known);
  }
  if (seen.has(id)) return false;
  seen.set(id, now);
  return true;
}

function work(event) {
  console.log(event.event_type, event.event_id); // in your queue, if it must survive a restart
}

const server = createServer((request, response) => {
  const answer = (status, text) => response.writeHead(status, { "content-type": "text/plain" }).end(text);
  const parts = [];
  let size = 0;
  request.on("data", (part) => {
    size += part.length;
    if (size > maxBody) request.destroy();
    else parts.push(part);
  });
  request.on("end", () => {
    const body = Buffer.concat(parts); // as it came: JSON that was decoded and encoded again is signed by nobody
    const wrong = verify(request.headers["x-svc-signature-v2"], body);
    if (wrong) return answer(401, wrong);
    let event;
    try {
      event = JSON.parse(body);
    } catch {
      return answer(400, "this is no event");
    }
    if (!event?.event_id) return answer(400, "this is no event");
    if (first(event.event_id)) setImmediate(work, event); // the id in the body: headers are not signed
    answer(204); // within 10 seconds, or the event comes again
  });
});

server.listen(Number(process.env.PORT ?? 9000), () => console.log("listening", server.address().port));
