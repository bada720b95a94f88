// The calls of the server.

const KEY = "longstream.key";
let key = "";
try {
  key = sessionStorage.getItem(KEY) || "";
} catch {
  // The browser offers no storage. The key is then in memory only.
}

export const apiKey = () => key;

// The key is kept in sessionStorage, which ends with the tab.
export function setApiKey(value) {
  key = value;
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // As above.
  }
}

// The error of a call. `status` is 0 if there was no answer; `param` is the
// name of the field that is wrong, or null.
export class ServerError extends Error {
  constructor(message, status, param) {
    super(message);
    this.status = status;
    this.param = param || null;
  }
}

async function call(path, options = {}) {
  const headers = {};
  if (key) headers.Authorization = `Bearer ${key}`;
  if (options.body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {...options, headers, credentials: "omit", cache: "no-store"});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server does not answer.", 0, null);
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function errorOf(response) {
  const text = await response.text().catch(() => "");
  try {
    const {message, param} = JSON.parse(text).error;
    return new ServerError(message, response.status, param);
  } catch {
    const message = text || `The server answers with the status ${response.status}.`;
    return new ServerError(message, response.status, null);
  }
}

// The models and the aliases, as the messages of the gRPC API.
export const listModels = async () => (await call("longstream/models")).json();

export async function listSessions(pageSize, pageToken) {
  const query = new URLSearchParams({page_size: pageSize});
  if (pageToken) query.set("page_token", pageToken);
  return (await call(`longstream/sessions?${query}`)).json();
}

// The history of a session: a list of {kind, turn_id, and text or message}.
export async function readHistory(id) {
  return (await (await call(`longstream/sessions/${encodeURIComponent(id)}/history`)).json()).history;
}

export async function endSession(id) {
  await call(`longstream/sessions/${encodeURIComponent(id)}`, {method: "DELETE"});
}

// Sends a request for a stream. Yields {progress: {done, total}} while the server reads the prompt,
// and {chunk} for each event. Throws ServerError if the server ends the stream with an error, or
// the connection breaks.
export async function* streamed(path, body, signal) {
  const response = await call(path, {method: "POST", body: JSON.stringify(body), signal});
  for await (const line of linesOf(response.body)) {
    const progress = /^: prefill (\d+) of (\d+) tokens/.exec(line);
    if (progress) yield {progress: {done: Number(progress[1]), total: Number(progress[2])}};
    if (!line.startsWith("data:")) continue;
    const data = line.slice(5).trim();
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ServerError(chunk.error.message, 200, chunk.error.param);
    yield {chunk};
  }
  throw new ServerError("The connection ended before the answer did.", 0, null);
}

async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      yield* lines;
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The connection broke before the answer ended.", 0, null);
  } finally {
    reader.cancel().catch(() => {});
  }
  if (rest) yield rest;
}
