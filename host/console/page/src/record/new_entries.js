/** Lines that were added to the record while the page is open. */
import { useEffect, useState } from '../base/html.js';
import { get } from '../base/api.js';

const listeners = new Set();

/** Tells the timeline of new lines. */
export function pushRecord(entries) {
  if (Array.isArray(entries)) for (const listener of listeners) listener(entries);
}

/** Lines that are counted. */
export const NEW_MAX = 200;

/** The least time between two searches for new lines, and its multiple of the time that a search takes. */
const WAIT_MS = 2_000;
const WAIT_FACTOR = 4;

/** Filters that the page can apply to a line itself. */
const PLAIN = ['tool', 'decision', 'event', 'session'];

const positionOf = ({ position, seq }) => Number(position ?? seq);

/** Returns true if the line does not match for certain. */
const isOther = (entry, filter) =>
  PLAIN.some((name) => filter[name] && entry[name] !== filter[name]) || (filter.outcome && (filter.outcome === 'ok') !== (entry.ok === true));

/**
 * Returns how many lines match the filter and are newer than `top`, the first line that is shown; null while it is loaded.
 * The page applies simple filters itself. Others are asked of the server, seldom.
 */
export function useNewLines(filter, top) {
  const key = JSON.stringify([filter, top]);
  const [state, setState] = useState({ key, count: 0 });
  useEffect(() => {
    if (top === null) return undefined;
    const isPlain = Object.keys(filter).every((name) => PLAIN.includes(name));
    const isNew = (entry) => positionOf(entry) > top;
    let count = 0;
    let timer = null;
    let isSearching = false;
    let isDone = false;
    const show = (found) => {
      count = Math.min(NEW_MAX, found);
      if (!isDone) setState({ key, count });
    };
    const search = async () => {
      isSearching = true;
      timer = null;
      const begun = Date.now();
      // After an error, the next line asks again.
      const { entries = [] } = await get('record', { ...filter, limit: NEW_MAX }).catch(() => ({}));
      show(Math.max(count, entries.filter(isNew).length));
      isSearching = false;
      next = Date.now() + Math.max(WAIT_MS, WAIT_FACTOR * (Date.now() - begun));
    };
    let next = 0;
    const take = (entries) => {
      const fitting = entries.filter((entry) => isNew(entry) && !isOther(entry, filter)).length;
      if (!fitting || count >= NEW_MAX) return;
      if (isPlain) show(count + fitting);
      else if (!timer) timer = setTimeout(search, isSearching ? WAIT_MS : next - Date.now());
    };
    listeners.add(take);
    return () => {
      isDone = true;
      clearTimeout(timer);
      listeners.delete(take);
    };
  }, [key]);
  return state.key === key ? state.count : 0;
}
