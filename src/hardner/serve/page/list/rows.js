/** The rows of the document list that have been fetched, page by page. */
import { get } from "../core/api.js";

const PAGE = 100;

export class Rows {
  /** Args: `arrived` is called when rows come in. */
  constructor(arrived) {
    Object.assign(this, { arrived, query: "", filter: "all", total: null, pages: new Map() });
  }

  /** Another question; the old answers stay until the new ones are here. */
  search(query, filter) {
    Object.assign(this, { query, filter });
    return this.refresh(0, 0);
  }

  at(index) {
    const page = Math.floor(index / PAGE);
    const rows = this.pages.get(page);
    if (!rows) this.#fetch(page);
    return Array.isArray(rows) ? rows[index % PAGE] : undefined;
  }

  /** Where a document is, among the rows fetched; -1 if not there. */
  indexOf(id) {
    for (const [page, rows] of this.pages) {
      const at = Array.isArray(rows) ? rows.findIndex((row) => row.id === id) : -1;
      if (at >= 0) return page * PAGE + at;
    }
    return -1;
  }

  find(id) {
    const at = this.indexOf(id);
    return at < 0 ? undefined : this.at(at);
  }

  /** Fetches the pages of a range anew; others are dropped. */
  async refresh(first, last) {
    const asked = (this.asked = {});
    const wanted = [];
    for (let p = Math.floor(first / PAGE); p <= Math.floor(last / PAGE); p += 1) wanted.push(p);
    const answers = await Promise.all(wanted.map((page) => this.#ask(page)));
    if (this.asked !== asked) return;
    this.pages = new Map(wanted.map((page, i) => [page, answers[i].documents]));
    this.total = answers[0].total;
    this.arrived();
  }

  #ask(page) {
    const { query, filter } = this;
    const wanted = new URLSearchParams({ query, filter, limit: PAGE, offset: page * PAGE });
    return get(`/api/documents?${wanted}`);
  }

  async #fetch(page) {
    const { pages } = this;
    pages.set(page, "asked");
    try {
      const { total, documents } = await this.#ask(page);
      if (this.pages !== pages) return;
      pages.set(page, documents);
      this.total = total;
    } catch {
      pages.delete(page);
      return;
    }
    this.arrived();
  }
}
