/** The stream of events: calls in batches per frame, others at once. Those about the lists wait until the lists are loaded. */
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
 * @param {{ load: () => Promise<() => void>, calls: (events: object[], overlap: boolean) => void, change: Record<string, (data: any) => void>, on: Record<string, (data: any) => void> }} handlers
 *   `load` fetches the lists after each connect, and returns the function that shows them. `calls` gets the live events of a
 *   frame; those of the first batch after a load may be part of the loaded list already. `change` has a function for each
 *   kind of event that changes a list, and may get events that are part of the list; `on` for each other kind.
 */
export function openEvents({ load, calls, change, on }) {
  let waiting = [];
  /** Changes that wait for the lists, each as a function. */
  let changes = [];
  /** The number of the last load. The result of an older one is dropped. */
  let turn = 0;
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
    const mine = ++turn;
    isLoaded = false;
    try {
      const show = await load();
      if (mine !== turn) return;
      show();
      isLoaded = true;
      mayOverlap = true;
      for (const apply of changes.splice(0)) apply();
      connection.set('live');
      schedule();
    } catch {
      if (mine !== turn) return;
      source.close();
      retry();
    }
  };
  const listen = (kind, handle) =>
    source.addEventListener(kind, ({ data }) => {
      const value = parse(data);
      if (value !== undefined) handle(value);
    });
  const connect = () => {
    source = new EventSource('api/events');
    source.onopen = () => {
      // Events may have been missed since these, and the lists that are loaded now have them.
      changes = [];
      reload();
    };
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
    for (const [kind, handle] of Object.entries(on)) listen(kind, handle);
    for (const [kind, handle] of Object.entries(change)) listen(kind, (value) => (isLoaded ? handle(value) : changes.push(() => handle(value))));
    source.addEventListener('changed', ({ data }) => {
      const what = parse(data)?.what;
      if (what === 'calls' || what === 'questions') reload();
      else emitChange(what);
    });
  };
  const retry = () => {
    turn++;
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
