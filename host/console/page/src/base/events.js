/** The stream of events: calls in batches per frame, questions at once. */
import { get, loginRequired } from './api.js';
import { createStore, emitChange } from './store.js';

/** The state of the connection: `connecting`, `live` or `lost`. */
export const connection = createStore('connecting');

/** The time since which the console has not answered, once that is too long for a restart; else null. */
export const goneSince = createStore(null);

/** A connection that is lost for longer is said to be gone. */
const GONE_MS = 10_000;

let goneTimer;
connection.subscribe((state) => {
  if (state === 'connecting') return;
  clearTimeout(goneTimer);
  const lostAt = Date.now();
  if (state === 'lost') goneTimer = setTimeout(() => goneSince.set(lostAt), GONE_MS);
  else goneSince.set(null);
});

/** Events that wait for the next frame. More than this many are applied at once, so that memory stays bounded. */
const MAX_WAITING = 20_000;

/** Delay of a batch while the page is hidden: browsers paint no frames then. */
const HIDDEN_MS = 250;

const RECONNECT_MS = 2_000;

/**
 * Opens the stream.
 * @param {{ load: () => Promise<void>, calls: (events: object[], overlap: boolean) => void, on: Record<string, (data: any) => void> }} handlers
 *   `load` fetches the lists after each connect. `calls` gets the live events of a frame; those of the first batch after a
 *   load may be part of the loaded list already. `on` has one function for each other kind of event.
 */
export function openEvents({ load, calls, on }) {
  let waiting = [];
  let scheduled = false;
  let isLoaded = false;
  let mayOverlap = true;
  let source;

  const flush = () => {
    scheduled = false;
    if (!isLoaded || !waiting.length) return;
    const events = waiting;
    waiting = [];
    calls(events, mayOverlap);
    mayOverlap = false;
  };
  const schedule = () => {
    if (waiting.length > MAX_WAITING && isLoaded) return flush();
    // Without the snapshot nothing can be applied: the oldest events are dropped, the snapshot has them.
    if (waiting.length > MAX_WAITING) waiting.splice(0, waiting.length - MAX_WAITING);
    if (scheduled) return;
    scheduled = true;
    if (document.hidden) setTimeout(flush, HIDDEN_MS);
    else requestAnimationFrame(flush);
  };
  // A frame that was requested before the page was hidden never comes.
  document.addEventListener('visibilitychange', flush);

  const reload = async () => {
    isLoaded = false;
    try {
      await load();
      isLoaded = true;
      mayOverlap = true;
      connection.set('live');
      schedule();
    } catch {
      source.close();
      retry();
    }
  };
  const connect = () => {
    source = new EventSource('api/events');
    source.onopen = reload;
    source.onerror = () => {
      if (loginRequired.get()) return source.close();
      connection.set('lost');
      if (source.readyState === EventSource.CLOSED) retry();
    };
    source.addEventListener('call', ({ data }) => {
      const events = parse(data);
      if (!Array.isArray(events)) return;
      for (const event of events) waiting.push(event);
      schedule();
    });
    for (const [kind, handle] of Object.entries(on)) {
      source.addEventListener(kind, ({ data }) => {
        const value = parse(data);
        if (value !== undefined) handle(value);
      });
    }
    source.addEventListener('changed', ({ data }) => {
      const what = parse(data)?.what;
      if (what === 'calls' || what === 'questions') reload();
      else emitChange(what);
    });
  };
  const retry = () => {
    connection.set('lost');
    setTimeout(async () => {
      // The stream does not tell why it was refused; this request does.
      await get('state').catch(() => {});
      if (!loginRequired.get()) connect();
    }, RECONNECT_MS);
  };
  connect();
  // After a logout nothing more may arrive.
  loginRequired.subscribe(() => source.close());
}

function parse(data) {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}
