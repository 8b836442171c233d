// Server-sent events, read with fetch: an EventSource cannot send the admin token.
//
// It never gives up. It reports the state of the connection as a Connection.

/** @import { Connection } from "./types.d.ts" */

const SILENCE_MS = 6000; // an event comes every second: after so long a silence the connection is lost
const PAUSES_MS = [500, 1000, 2000, 3000];
const TOKEN = "keyrail-token";

/**
 * The headers that carry the token, once it was given.
 * @returns {Record<string, string>}
 */
export function authorization() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export class Stream {
  /**
   * @param {(name: string, data: any) => void} onEvent
   * @param {(state: Connection) => void} onState
   */
  constructor(onEvent, onState) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.run = 0;
    /** @type {Date | null} */
    this.lostSince = null;
    this.abort = new AbortController();
    this.wake = () => {};
    addEventListener("online", () => this.wake());
    document.addEventListener("visibilitychange", () => document.hidden || this.wake());
  }

  /**
   * Follow this address from now on.
   * @param {string} url
   */
  async open(url) {
    const run = ++this.run;
    this.abort.abort();
    this.wake();
    for (let failures = 0; run === this.run; failures += 1) {
      const heard = await this.read(url, run);
      if (run !== this.run) return;
      if (heard) failures = 0;
      await this.pause(PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)]);
    }
  }

  /**
   * Use this token, and try again at once.
   * @param {string} token
   */
  useToken(token) {
    sessionStorage.setItem(TOKEN, token);
    this.wake();
  }

  /**
   * Read until the end, whatever it is; whether anything was heard.
   * @param {string} url
   * @param {number} run
   */
  async read(url, run) {
    this.abort = new AbortController();
    let heard = false;
    const guard = { timer: 0 };
    const expect = () => {
      clearTimeout(guard.timer);
      guard.timer = setTimeout(() => this.abort.abort(), SILENCE_MS);
    };
    try {
      expect();
      const headers = authorization();
      const answer = await fetch(url, { headers, cache: "no-store", signal: this.abort.signal });
      if (!answer.ok) {
        await this.refused(answer, headers.Authorization, run);
        return false;
      }
      if (!answer.body) throw new TypeError("an answer without a body");
      for await (const event of events(answer.body, expect)) {
        if (run !== this.run) return true;
        heard = true;
        if (event.name === "overview") this.tell({ kind: "live" });
        this.onEvent(event.name, JSON.parse(event.data));
      }
    } catch (error) {
      if (run === this.run && error instanceof SyntaxError) throw error;
    } finally {
      clearTimeout(guard.timer);
    }
    if (run !== this.run) return heard;
    this.lostSince ??= new Date();
    this.tell({ kind: "lost", since: this.lostSince });
    return heard;
  }

  /**
   * @param {Response} answer
   * @param {string | undefined} sent the Authorization header of the request
   * @param {number} run
   */
  async refused(answer, sent, run) {
    const { error } = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
    if (run !== this.run) return;
    if (answer.status !== 401) {
      this.tell({ kind: "refused", text: error, status: answer.status });
      return;
    }
    if (sent !== authorization().Authorization) return; // another token was given meanwhile
    sessionStorage.removeItem(TOKEN);
    this.tell({ kind: "token", wrong: sent !== undefined });
    await this.pause(2 ** 31 - 1);
  }

  /** @param {Connection} state */
  tell(state) {
    if (state.kind === "live") this.lostSince = null;
    this.onState(state);
  }

  /**
   * @param {number} ms
   * @returns {Promise<void>}
   */
  pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/**
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 * @param {() => void} onBytes
 */
async function* events(body, onBytes) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes();
    const parts = (text + value).split("\n\n");
    text = parts.pop() ?? "";
    for (const part of parts) {
      const lines = part.split("\n").map((line) => line.split(/: (.*)/s));
      /** @param {string} name */
      const field = (name) => lines.find(([found]) => found === name)?.[1] ?? "";
      yield { name: field("event"), data: field("data") };
    }
  }
}
