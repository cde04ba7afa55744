/** What the server last said of the project as a whole, and the polling that keeps it fresh. */
import { get, reachable } from "./api.js";
import { emit, on } from "./bus.js";
import { byId } from "./dom.js";

export const project = { name: "", me: "", types: [], formats: [], schemes: [], limits: {}, status: null };

const [SOON, BUSY, TAGGING, IDLE, DOWN] = [250, 500, 1500, 3000, 1000];

export const typeOf = (id) => project.types.find((type) => type.id === id);

export const running = () => project.status?.run?.state === "running";

let timer = 0;
let asking = null;

let loading = null;

/** Asks once, then again and again. The page takes no clicks before the first answer. */
export const start = () => (loading ??= load());

async function load() {
  try {
    const { status, ...rest } = await get("/api/project");
    Object.assign(project, rest, { status });
  } catch {
    await new Promise((resolve) => setTimeout(resolve, DOWN));
    return load();
  }
  for (const part of ["top", "main"]) byId(part).inert = false;
  emit("types");
  emit("status");
  later();
  on("counted", soon);
  on("connection", () => refresh());
  addEventListener("focus", () => refresh());
  return undefined;
}

function later() {
  clearTimeout(timer);
  const { done, total } = project.status.sweep;
  const pace = running() ? BUSY : project.status.model && done < total ? TAGGING : IDLE;
  timer = setTimeout(refresh, reachable() ? pace : DOWN);
}

/** Labels changed here: the counts and what undo would do are worth asking for. */
function soon() {
  clearTimeout(timer);
  timer = setTimeout(refresh, SOON);
}

/** Asks now; a call while one is under way waits for that one and asks again. */
export async function refresh() {
  if (!project.status) return start();
  if (asking) {
    await asking;
    if (asking) return asking;
  }
  asking = ask().finally(() => {
    asking = null;
    later();
  });
  return asking;
}

async function ask() {
  const before = project.status;
  let status;
  try {
    status = await get(`/api/status?since=${before.event}`);
  } catch {
    return;
  }
  project.status = status;
  if (status.types_changed) await reloadTypes();
  if (status.changed.length) emit("changed", status.changed);
  if (status.documents_changed) emit("documents");
  if (status.model?.id !== before.model?.id) emit("model");
  if (status.sweep.done !== before.sweep.done) emit("swept");
  emit("status");
}

export async function reloadTypes() {
  project.types = (await get("/api/types")).types;
  emit("types");
}
