/** Requests to the workbench's own server, and whether it answers. */
import { emit } from "./bus.js";
import { who } from "./who.js";

/** The server understood and said no; `data` is its answer. */
export class Refused extends Error {
  constructor(status, data) {
    super(data.error ?? `The server answered ${status}.`);
    this.status = status;
    this.data = data;
  }

  /** Whether the same request may well succeed later. */
  get passing() {
    return this.status === 401 || this.status === 429 || this.status >= 500;
  }
}

export class Unreachable extends Error {
  constructor() {
    super("The workbench does not answer. Nothing is lost; it goes on when the server is back.");
  }
}

let up = true;

export const reachable = () => up;

function heard(answered) {
  if (up === answered) return;
  up = answered;
  emit("connection", up);
}

async function ask(method, path, body, type, patience, read = "text") {
  const options = { method, signal: AbortSignal.timeout(patience), cache: "no-store" };
  options.headers = who() ? { "X-Annotator": encodeURIComponent(who()) } : {};
  if (body !== undefined) Object.assign(options, { body });
  if (body !== undefined) options.headers["Content-Type"] = type;
  let response, content;
  try {
    response = await fetch(path, options);
    content = await response[response.ok ? read : "text"]();
  } catch {
    heard(false);
    throw new Unreachable();
  }
  heard(true);
  if (response.status === 401) emit("locked");
  if (!response.ok) throw new Refused(response.status, parsed(content));
  if (read === "text") return parsed(content);
  const lost = decodeURIComponent(response.headers.get("X-Left-Out") ?? "");
  return { content, name: named(response.headers), lost };
}

/** What the server calls a file that it sends. */
const named = (headers) =>
  decodeURIComponent(
    /filename\*=UTF-8''([^;]+)/.exec(headers.get("Content-Disposition"))?.[1] ?? "",
  );

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

const send = (method) => (path, body) =>
  ask(method, path, JSON.stringify(body), "application/json", 30_000);

export const get = (path) => ask("GET", path, undefined, "", 60_000);
export const post = send("POST");
export const put = send("PUT");
export const patch = send("PATCH");
export const remove = (path) => ask("DELETE", path, undefined, "", 30_000);
export const file = (path) => ask("GET", path, undefined, "", 600_000, "blob");
export const upload = (path, file) => ask("POST", path, file, "application/octet-stream", 600_000);
